"""Judgments in a record: what several judges of one run say together (DEFINITIONS, T).

Passed by the majority, a tie fails; the implementation rate is the median of the weighted scores.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any

import polars as pl

from calipers.metrics.declare.declaration import Feature
from calipers.records.judgment_shape import read_list, read_score, read_vote


def _map_judgments(
    combine: Callable[[Sequence[Mapping[str, Any]]], Any], dtype: pl.DataType
) -> Callable[[pl.Series], pl.Series]:
    """Return a function over a column of JSON lists; rows without judgments are skipped."""

    def combine_rows(texts: pl.Series) -> pl.Series:
        found: list[Any] = [None] * len(texts)
        for row in texts.is_not_null().arg_true():
            found[row] = combine(read_list(texts[row]))
        return pl.Series(texts.name, found, dtype=dtype)

    return combine_rows


def _take_majority(judgments: Sequence[Mapping[str, Any]]) -> bool | None:
    votes = [vote for each in judgments if (vote := read_vote(each)) is not None]
    return 2 * sum(votes) > len(votes) if votes else None


def _take_median(judgments: Sequence[Mapping[str, Any]]) -> float | None:
    scores = [score for each in judgments if (score := read_score(each)) is not None]
    return median(scores) if scores else None


judged_passed = Feature(
    name="_judged_passed",
    reads=("judgments",),
    dtype=pl.Boolean(),
    expression=lambda _: pl.col("judgments").map_batches(
        _map_judgments(_take_majority, pl.Boolean()), return_dtype=pl.Boolean
    ),
    stored=False,
    listed=False,
)

judged_impl_rate = Feature(
    name="_judged_impl_rate",
    reads=("judgments",),
    dtype=pl.Float64(),
    expression=lambda _: pl.col("judgments").map_batches(
        _map_judgments(_take_median, pl.Float64()), return_dtype=pl.Float64
    ),
    stored=False,
    listed=False,
)

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


def _take_majority(judgments: Sequence[Mapping[str, Any]]) -> bool | None:
    votes = [vote for each in judgments if (vote := read_vote(each)) is not None]
    return 2 * sum(votes) > len(votes) if votes else None


def _take_median(judgments: Sequence[Mapping[str, Any]]) -> float | None:
    scores = [score for each in judgments if (score := read_score(each)) is not None]
    return median(scores) if scores else None


def _declare_combined(
    name: str, combine: Callable[[Sequence[Mapping[str, Any]]], Any], dtype: pl.DataType
) -> Feature:
    """Return the feature of what a row's judgments say together; null without judgments."""

    def combine_rows(texts: pl.Series) -> pl.Series:
        found: list[Any] = [None] * len(texts)
        for row in texts.is_not_null().arg_true():
            found[row] = combine(read_list(texts[row]))
        return pl.Series(texts.name, found, dtype=dtype)

    return Feature(
        name=name,
        reads=("judgments",),
        dtype=dtype,
        expression=lambda _: pl.col("judgments").map_batches(combine_rows, return_dtype=dtype),
        stored=False,
    )


judged_passed = _declare_combined("_judged_passed", _take_majority, pl.Boolean())
judged_impl_rate = _declare_combined("_judged_impl_rate", _take_median, pl.Float64())

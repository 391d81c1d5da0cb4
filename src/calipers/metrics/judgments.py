"""Judgements in a record: what several judges of one run say together (DEFINITIONS, T).

Passed by the majority, a tie fails; the implementation rate is the median of the weighted scores.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from statistics import median
from typing import Any

import polars as pl

from calipers.metrics.declaration import Feature
from calipers.records import BadValue


def _from_judgments(
    combine: Callable[[list[Mapping[str, Any]]], Any], dtype: pl.DataType
) -> Callable[[pl.Series], pl.Series]:
    """A function over a column of JSON lists; rows without judgements cost nothing."""

    def combined(texts: pl.Series) -> pl.Series:
        found: list[Any] = [None] * len(texts)
        for row in texts.is_not_null().arg_true():
            found[row] = combine(list(judgments_in(texts[row])))
        return pl.Series(texts.name, found, dtype=dtype)

    return combined


def judgments_in(text: str) -> Iterator[Mapping[str, Any]]:
    """The judgements of a row; what is no object is none."""
    try:
        found = json.loads(text)
    except ValueError:  # Polars does not escape all it should; then rows are read one by one
        raise BadValue("judgments: not JSON") from None
    yield from (each for each in found if isinstance(each, dict)) if isinstance(found, list) else ()


def _majority(judgments: list[Mapping[str, Any]]) -> bool | None:
    votes = [vote for each in judgments if isinstance(vote := each.get("passed"), bool)]
    return 2 * sum(votes) > len(votes) if votes else None


def _median_score(judgments: list[Mapping[str, Any]]) -> float | None:
    scores = [
        float(score)
        for each in judgments
        if isinstance(score := each.get("weighted_score"), int | float)
        and not isinstance(score, bool)
        and 0 <= score <= 1
    ]
    return median(scores) if scores else None


judged_passed = Feature(
    name="_judged_passed",
    reads=("judgments",),
    dtype=pl.Boolean(),
    expression=lambda _: pl.col("judgments").map_batches(
        _from_judgments(_majority, pl.Boolean()), return_dtype=pl.Boolean
    ),
    stored=False,
    listed=False,
)

judged_impl_rate = Feature(
    name="_judged_impl_rate",
    reads=("judgments",),
    dtype=pl.Float64(),
    expression=lambda _: pl.col("judgments").map_batches(
        _from_judgments(_median_score, pl.Float64()), return_dtype=pl.Float64
    ),
    stored=False,
    listed=False,
)

"""Judgments in a record: the combined verdict and score of several judges (DEFINITIONS, T).

Passed by the majority, a tie fails; the implementation rate is the median of the weighted scores.
Judgments of texts that seem to address the judge carry flags, which are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from statistics import median
from typing import Any

import polars as pl

from calipers.metrics.declare.declaration import Aggregate, Feature, Totals, add_up
from calipers.metrics.declare.means import count_true
from calipers.records.judgment_shape import read_list, read_score, read_vote

_FLAGS = r'"flags"\s*:\s*\[\s*"'  # in JSON: within a text the quotes would be escaped
_FLAGGED, _JUDGED = "judgments__flagged", "judgments__judged"


def _take_majority(judgments: Sequence[Mapping[str, Any]]) -> bool | None:
    votes = [vote for each in judgments if (vote := read_vote(each)) is not None]
    return 2 * sum(votes) > len(votes) if votes else None


def _take_median(judgments: Sequence[Mapping[str, Any]]) -> float | None:
    scores = [score for each in judgments if (score := read_score(each)) is not None]
    return median(scores) if scores else None


def _declare_combined(
    name: str, combine: Callable[[Sequence[Mapping[str, Any]]], Any], dtype: pl.DataType
) -> Feature:

    def combine_rows(texts: pl.Series) -> pl.Series:
        found: list[Any] = [None] * len(texts)
        for row in texts.is_not_null().arg_true():
            found[row] = combine(read_list(texts[row]))
        return pl.Series(texts.name, found, dtype=dtype)

    return Feature(
        name,
        ("judgments",),
        lambda _: pl.col("judgments").map_batches(combine_rows, return_dtype=dtype),
        dtype,
        stored=False,
    )


judged_passed = _declare_combined("_judged_passed", _take_majority, pl.Boolean())
judged_impl_rate = _declare_combined("_judged_impl_rate", _take_median, pl.Float64())

flagged = Feature(
    "_flagged", ("judgments",), lambda _: pl.col("judgments").str.contains(_FLAGS), pl.Boolean()
)

flag_counts = Aggregate(
    features=(flagged,),
    totals={_FLAGGED: count_true(flagged), _JUDGED: pl.col(flagged.name).count()},
)
"""Counted wherever a metric reads judgments."""


def count_flagged(totals: Totals) -> int | None:
    """Return how many records of a group are flagged; None if none has judgments."""
    return int(totals[_FLAGGED] or 0) if totals.get(_JUDGED) else None


def flag_notice(groups: Collection[Totals]) -> Iterator[str]:
    """Say how many judged records are flagged, if any."""
    if found := add_up(groups, _FLAGGED):
        yield (
            f"{found:,} of {add_up(groups, _JUDGED):,} judged records hold text that seems to "
            "address the judge: read them before you rely on their scores (judgments[].flags)"
        )

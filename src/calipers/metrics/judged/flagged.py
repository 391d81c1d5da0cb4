"""Records whose judged text seems to speak to its judge, counted behind judged values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import narwhals as nw
import polars as pl

from calipers.metrics.declare.declaration import Aggregate, Feature, Totals, add_up
from calipers.metrics.declare.means import count_true

_FLAGS = r'"flags"\s*:\s*\[\s*"'  # in JSON: within a text the quotes would be escaped
_FLAGGED, _JUDGED = "judgments__flagged", "judgments__judged"

flagged = Feature(
    name="_flagged",
    reads=("judgments",),
    dtype=pl.Boolean(),
    expression=lambda _: pl.col("judgments").str.contains(_FLAGS),
)

flag_counts = Aggregate(
    features=(flagged,),
    totals={_FLAGGED: count_true(flagged), _JUDGED: nw.col(flagged.name).count()},
)
"""Counted wherever a metric reads judgments."""


def count_flagged(totals: Totals) -> int | None:
    """Return how many records of a group are flagged; None if none has judgments."""
    return int(totals[_FLAGGED] or 0) if totals.get(_JUDGED) else None


def flag_notice(groups: Iterable[Totals]) -> Iterator[str]:
    """Say how many judged records are flagged, if any."""
    groups = list(groups)
    if found := add_up(groups, _FLAGGED):
        yield (
            f"{found:,} of {add_up(groups, _JUDGED):,} judged records hold text that seems to "
            "address the judge: read them before you rely on their scores (judgments[].flags)"
        )

"""Notices about the evidence behind intervals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isfinite, sqrt

from calipers.engines.outcome import Outcome
from calipers.metrics import Metric
from calipers.metrics.declare.declaration import Totals
from calipers.metrics.declare.intervals import read_clusters

_HALF = 0.5  # clusters worth less than this share of their number differ widely
_LONG_TAIL = 2.0  # standard deviations per mean: a few values decide it
_ENOUGH = 100.0  # rows for each squared standard deviation per mean, from which on they do not


def note_evidence(
    outcome: Outcome, metrics: Sequence[Metric], cluster: str | None
) -> Iterator[str]:
    """Yield where clusters differ widely in size, and where few values decide a mean."""
    groups = list(outcome.groups.values())
    if said := _describe_uneven(groups, metrics, cluster):
        yield said
    heavy = [each.name for each in metrics if any(_is_heavy(each, totals) for totals in groups)]
    if heavy:
        yield (
            f"{', '.join(heavy)}: a few large values hold much of the sum; "
            "the interval may hold the true mean less often than it says"
        )


def _describe_uneven(
    groups: Sequence[Totals], metrics: Sequence[Metric], cluster: str | None
) -> str | None:
    """Return a description of the group with the lowest effective number of clusters, or None."""
    names = [each.influence.name for each in metrics if each.influence and not each.influence.per]
    found = (read_clusters(name, totals) for totals in groups for name in names)
    uneven = [each for each in found if each.count > 1 and each.worth < _HALF * each.count]
    if not uneven:
        return None
    worst = min(uneven, key=lambda each: each.worth / each.count)
    what, rows = ("tasks", "runs") if cluster is None else (f"values of {cluster}", "rows")
    return (
        f"the numbers of {rows} differ widely: {worst.count:,} {what} tell as much as "
        f"{worst.worth:.1f} with as many {rows} each would"
    )


def _is_heavy(metric: Metric, totals: Totals) -> bool:
    """Say whether the values of an unbounded mean vary so much that a few decide it."""
    influence = metric.influence
    if influence is None or influence.feature is None or isfinite(metric.range[1]):
        return False
    n, mean = totals.get(influence.rows, 0), 0.0
    if n > 1:
        mean = influence.centre(totals)
    if mean <= 0:
        return False
    spread = sqrt(influence.squares(totals) / (n - 1)) / mean  # a mean's square may be no double
    return isfinite(spread) and spread > _LONG_TAIL and n < _ENOUGH * spread * spread

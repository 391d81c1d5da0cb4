"""Slices of the tasks (`--by category`): shrunken values, and intervals that hold for all at once.

Groups are slices where they differ in a field of the tasks, not of the system that did them. The
value of a slice with few tasks is mostly luck; its shrunken value and its wider interval say so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from calipers.metrics import Metric, metric_named
from calipers.metrics.declare.declaration import Totals
from calipers.metrics.declare.interval_methods import OfMean, Wilson
from calipers.scores.groups import list_keys
from calipers.scores.result import Group, Measured, Slice
from calipers.statistics.slices import level_together, shrink
from calipers.support.lazy_numpy import np

SYSTEM_FIELDS = frozenset({"model", "tier", "variant", "run", "file", "release", "version"})
FEWEST, MOST = 3, 200  # slices of a family
SMALL = 30  # tasks: families with a smaller slice are shown to people


def measure_slices(
    groups: Mapping[str, Group],
    totals: Mapping[str, Totals],
    metrics: Sequence[Metric],
    level: float,
) -> Iterator[Slice]:
    """Yield each slice's value of each mean, family by family: the slices of one system."""
    families: dict[str, list[str]] = {}
    for text, by in list_keys(groups):
        fields = [name for name in by if name in SYSTEM_FIELDS]
        if len(fields) == len(by):
            return
        system = repr([by[name] for name in fields])
        families.setdefault(system, []).append(text)
    for family in families.values():
        if FEWEST <= len(family) <= MOST:
            for metric in metrics:
                yield from _measure_family(family, groups, totals, metric, level)


def _measure_family(
    family: Sequence[str],
    groups: Mapping[str, Group],
    totals: Mapping[str, Totals],
    metric: Metric,
    confidence: float,
) -> Iterator[Slice]:
    if not isinstance(metric.interval, Wilson | OfMean):
        return
    found: dict[str, Measured] = {}
    for text in family:
        measured = groups[text].metrics.get(metric.name)
        if measured is not None and measured.value is not None and measured.stderr is not None:
            found[text] = measured
    if len(found) < FEWEST:
        return
    values = np.array([each.value for each in found.values()], dtype=np.float64)
    sizes = np.array([each.n for each in found.values()], dtype=np.float64)
    errors = np.array([each.stderr for each in found.values()], dtype=np.float64)
    shrunken = shrink(values, sizes, errors**2 * sizes)
    level = level_together(confidence, len(found))
    for (text, measured), drawn in zip(found.items(), shrunken.tolist(), strict=True):
        assert measured.value is not None
        around = metric.interval.interval(measured.value, totals[text], level)
        least, most = metric.range
        yield Slice(
            by=groups[text].by,
            metric=metric.name,
            n=measured.n,
            value=measured.value,
            shrunken=min(most, max(least, drawn)),
            low=None if around.low is None else max(least, around.low),
            high=None if around.high is None else min(most, around.high),
            slices=len(found),
        )


def select_small(slices: Sequence[Slice]) -> list[Slice]:
    """Return the slices to show to people: those of shares, where some slice is small."""
    small = {each.metric for each in slices if each.n < SMALL}
    return [
        each
        for each in slices
        if each.metric in small and isinstance(metric_named(each.metric).interval, Wilson)
    ]

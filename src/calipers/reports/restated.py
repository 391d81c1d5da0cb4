"""Metrics that only restate another, as `usr` and `error_rate` do accuracy."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from calipers.metrics import metric_named


def drop_restated(names: Iterable[str], *, named: Collection[str] = ()) -> list[str]:
    """Return the metrics without those that are 1 − another of them, unless they are named.

    >>> drop_restated(["accuracy", "usr", "error_rate"], named=["usr"])
    ['accuracy', 'usr']
    """
    every = list(names)
    known = [metric_named(name) for name in every]
    means = [each.averaged for each in known if each.averaged is not None and not each.complement]
    return [
        metric.name
        for metric in known
        if metric.name in named or not (metric.complement and metric.averaged in means)
    ]

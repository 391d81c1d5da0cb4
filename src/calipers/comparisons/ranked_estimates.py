"""From values and compared pairs to systems in order, with ranks and letters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from calipers.comparisons.ranked_systems import Systems
from calipers.comparisons.rankings import MetricRanking, RankedPair, RankedSystem, RankedValue
from calipers.metrics import Metric
from calipers.metrics.declare.intervals import Wilson
from calipers.scores.options import Options
from calipers.statistics.arrays import Floats, Labels
from calipers.statistics.paired import Difference
from calipers.statistics.ranking import rank_bounds, ranks, share_letters
from calipers.statistics.simultaneous import MaxT
from calipers.statistics.task_means import mean_interval
from calipers.support.quick_dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Estimates:
    """A value per system, and the comparison of every pair, by the systems' positions."""

    values: Sequence[RankedValue]
    pairs: Mapping[tuple[int, int], RankedPair]  # keys are positions, the smaller one first
    interval: str
    n_tasks: int | Sequence[int]  # the same for all systems, or of each


def estimate_mean(
    values: Floats, metric: Metric, confidence: float, clusters: Labels | None = None
) -> RankedValue:
    """Return the mean of a value per task, with the interval that `score` gives it."""
    around = mean_interval(
        values,
        ends=metric.range,
        is_share=isinstance(metric.interval, Wilson),
        confidence=confidence,
        clusters=clusters,
    )
    mean = float(values.mean())
    return RankedValue(value=mean, low=around.low, high=around.high, reason=around.reason)


def estimate_all(
    samples: Iterable[tuple[Floats, Labels | None]],
    covariance: Floats,
    compare: Callable[[int, int, float], Difference],
    names: Sequence[str],
    metric: Metric,
    options: Options,
    *,
    n_tasks: int | Sequence[int],
) -> Estimates:
    """Return the mean of each system and the difference of each pair, with adjusted evidence.

    The single intervals and tests are those of `score` and `compare`; the level, which `compare` is
    given with the positions of two systems, is that at which all of them hold together.

    Args:
        samples: The values of each system, one per task, and the clusters of these tasks.
        covariance: Of the means.
        compare: Returns the first less the second.
        names: Of the systems.
        metric: Of which the values are.
        options: Which seed and confidence.
        n_tasks: As in `Estimates`.
    """
    level = MaxT.of_each(covariance, seed=options.seed).level(options.confidence)
    together = MaxT.of_pairs(covariance, seed=options.seed)
    of_pairs = together.level(options.confidence)
    return Estimates(
        values=[estimate_mean(values, metric, level, clusters) for values, clusters in samples],
        pairs={
            (one, other): _make_pair(
                names[one], names[other], compare(one, other, of_pairs), together
            )
            for one, other in combinations(range(len(names)), 2)
        },
        interval=metric.interval.name,
        n_tasks=n_tasks,
    )


def _make_pair(a: str, b: str, found: Difference, together: MaxT) -> RankedPair:
    return RankedPair(
        a=a,
        b=b,
        difference=found.difference,
        low=found.low,
        high=found.high,
        p_value=found.p_value,
        p_adjusted=None if found.p_value is None else together.adjust(found.p_value),
        test=found.test,
        reason=found.reason,
    )


def rank_estimates(
    systems: Systems, metric: Metric, texts: Sequence[str], estimates: Estimates, options: Options
) -> MetricRanking:
    """Return the systems that have a value, by their texts in `GROUP`, from the best down."""
    return order_systems(
        estimates,
        by=[systems.keys[text] for text in texts],
        names=[systems.names[text] for text in texts],
        metric=metric.name,
        unit=metric.unit,
        better=metric.better or "higher",
        confidence=options.confidence,
    )


def order_systems(
    estimates: Estimates,
    *,
    by: Sequence[Mapping[str, object]],
    names: Sequence[str],
    metric: str,
    better: str,
    confidence: float,
    unit: str | None = None,
) -> MetricRanking:
    """Return the ranking: equal values in the order given, pairs in the order of the systems."""
    values = np.array([each.value for each in estimates.values], dtype=np.float64)
    higher = better == "higher"
    order = np.argsort(-values if higher else values, kind="stable").tolist()
    apart = np.zeros((len(names), len(names)), dtype=bool)  # whether one is better than another
    pairs = []
    for place, one in enumerate(order):
        for later, other in enumerate(order[place + 1 :], place + 1):
            pair = _put_better_first(estimates.pairs, one, other)
            pairs.append(pair)
            if pair.p_adjusted is not None and pair.p_adjusted < 1 - confidence:
                up = (pair.difference or 0.0) > 0
                better_first = up == higher
                apart[(place, later) if better_first else (later, place)] = True
    low, high = rank_bounds(apart)
    counted = estimates.n_tasks
    shared = isinstance(counted, int)
    tasks = [counted] * len(names) if isinstance(counted, int) else list(counted)
    letters = share_letters(apart | apart.T)
    at = ranks(values[order], higher_is_better=higher)
    return MetricRanking(
        metric=metric,
        better=better,
        unit=unit,
        n_tasks=tasks[0] if shared else sum(tasks),
        paired=shared,
        confidence=confidence,
        interval=estimates.interval,
        systems=tuple(
            RankedSystem(
                by=dict(by[one]),
                name=names[one],
                value=estimates.values[one].value,
                low=estimates.values[one].low,
                high=estimates.values[one].high,
                reason=estimates.values[one].reason,
                rank=at[place],
                rank_low=low[place],
                rank_high=high[place],
                group=letters[place],
                n_tasks=tasks[one],
            )
            for place, one in enumerate(order)
        ),
        pairs=tuple(pairs),
    )


def _put_better_first(
    pairs: Mapping[tuple[int, int], RankedPair], one: int, other: int
) -> RankedPair:
    """Return a pair with the better system first."""
    if (one, other) in pairs:
        return pairs[one, other]
    pair = pairs[other, one]

    def minus(number: float | None) -> float | None:
        return None if number is None else 0.0 - number

    return replace(
        pair,
        a=pair.b,
        b=pair.a,
        difference=minus(pair.difference),
        low=minus(pair.high),
        high=minus(pair.low),
    )

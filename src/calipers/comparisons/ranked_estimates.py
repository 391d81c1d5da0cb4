"""Values and pairs with evidence that holds for all systems at once, and the order it gives."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from math import inf

import numpy as np

from calipers.comparisons.ranked_systems import Systems
from calipers.comparisons.rankings import MetricRanking, RankedPair, RankedSystem, RankedValue
from calipers.metrics import Metric
from calipers.metrics.declare.intervals import Wilson
from calipers.scores.options import Options
from calipers.statistics import special
from calipers.statistics.arrays import Floats, Labels
from calipers.statistics.intervals import t_quantile
from calipers.statistics.paired import Difference
from calipers.statistics.ranking import rank_bounds, ranks, share_letters
from calipers.statistics.simultaneous import MaxT, pair_deviations
from calipers.statistics.task_means import mean_interval
from calipers.support.quick_dataclasses import dataclass

_ONE_UNIT = "a single task or cluster does not show how much others vary"
_NO_SPREAD = "nothing varies from task to task, so the role of chance is unknown"


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

    `samples` are each system's values, one per task, with the clusters of these tasks; `covariance`
    is that of their means. The single intervals and tests are those of `score` and `compare`; the
    level, which `compare` is given beside two positions, is that at which all hold together.
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


def estimate_values(
    values: Floats,
    covariance: Floats,
    units: int,
    options: Options,
    *,
    ends: tuple[float, float] = (-inf, inf),
) -> list[RankedValue]:
    """Return each value with an interval that holds for all at once, on so many tasks or clusters.

    No bound lies beyond `ends`.
    """
    level = MaxT.of_each(covariance, seed=options.seed).level(options.confidence)
    found = []
    for value, error in zip(values.tolist(), np.sqrt(np.diag(covariance)).tolist(), strict=True):
        if (reason := _explain_none(error, units)) is not None:
            found.append(RankedValue(value=value, reason=reason))
            continue
        reach = t_quantile(units, level) * error
        low, high = max(ends[0], value - reach), min(ends[1], value + reach)
        found.append(RankedValue(value=value, low=low, high=high))
    return found


def compare_values(
    values: Floats,
    covariance: Floats,
    units: int,
    options: Options,
    *,
    names: Sequence[str],
    test: str,
) -> dict[tuple[int, int], RankedPair]:
    """Return the difference of each pair with its evidence, adjusted for all pairs."""
    together = MaxT.of_pairs(covariance, seed=options.seed)
    level = together.level(options.confidence)
    errors = pair_deviations(covariance)
    found = {}
    for one, other in combinations(range(len(names)), 2):
        difference, error = float(values[one] - values[other]), float(errors[one, other])
        low = high = p_value = None
        reason = _explain_none(error, units)
        if reason is None:
            reach = t_quantile(units, level) * error
            low, high = difference - reach, difference + reach
            p_value = 2 * special.stdtr(units - 1, -abs(difference) / error)
        found[one, other] = RankedPair(
            a=names[one],
            b=names[other],
            difference=difference,
            low=low,
            high=high,
            p_value=p_value,
            p_adjusted=None if p_value is None else together.adjust(p_value),
            test=test,
            reason=reason,
        )
    return found


def _explain_none(error: float, units: int) -> str | None:
    """Say why there is no interval, or None."""
    if units <= 1:
        return _ONE_UNIT
    return None if error > 0 else _NO_SPREAD


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
                better_first = ((pair.difference or 0.0) > 0) == higher
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

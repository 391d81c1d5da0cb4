"""Sample sizes for one metric in one group, from its values, and what else they tell of power."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from calipers.comparisons.options.power import PowerOptions
from calipers.metrics import Metric
from calipers.metrics.declare.declaration import RUNS, TASK, Feature
from calipers.metrics.declare.intervals import Wilson
from calipers.metrics.declare.pairs import pair_scale
from calipers.scores.tasks import VALUE
from calipers.statistics.power import (
    Components,
    PowerPlan,
    Spread,
    assume_difference,
    count_tasks_for_width,
    count_tasks_needed,
    estimate_difference_spread,
    estimate_spread,
    find_detectable,
    split_variance,
)
from calipers.support.quick_dataclasses import dataclass

_NULLABLE = ("value", "between", "within", "delta", "plans", "detectable")
DELTA = 0.05  # of metrics in [0, 1]; of others this share of their value
_ROUNDING = 1e-12  # relative to the values: a smaller deviation is rounding
_LARGEST = 1e150  # its square is still a number
_CAUTIOUS = (
    "where a task has a single 0 or 1, the mid-p McNemar test compares them and may take a few "
    "tasks more"
)
_TAKEN_ALIKE = "one of the two systems was run once: its runs are assumed to vary like the other's"
_ALL_NOISE = (
    "the runs of a task vary so much that the variance between tasks cannot be told from it: "
    "take the counts at many runs as lower bounds"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricPower:
    """The power analysis of one metric; every null has its reason."""

    value: float | None = None
    candidate: float | None = None  # the candidate's value, where there is one
    tasks: int = 0
    runs: float | None = None  # of a task, on average
    spread: Spread | None = None  # of the base's values
    difference: Spread | None = None  # of candidate − base, measured or assumed
    delta: float | None = None
    plans: tuple[PowerPlan, ...] = ()
    detectable: float | None = None
    components: Components | None = None  # of the value's variance
    width_plans: tuple[PowerPlan, ...] = ()  # for an interval as narrow as asked for
    reasons: Mapping[str, str]
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        shown = self.to_dict()
        if {name for name in _NULLABLE if shown[name] in (None, [])} != set(self.reasons):
            raise ValueError("a null needs a reason, and only a null has one")

    @property
    def between(self) -> float | None:
        """The variance between tasks, of what is expected of each."""
        return None if self.spread is None else self.spread.between

    @property
    def within(self) -> float | None:
        """The variance from run to run of a task."""
        return None if self.spread is None else self.spread.within

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON of one metric."""
        spread = self.difference
        difference = spread and {"between": spread.between, "within": spread.within}
        return {
            "value": self.value,
            **({} if self.candidate is None else {"candidate": self.candidate}),
            "tasks": self.tasks,
            "runs": self.runs,
            "between": self.between,
            "within": self.within,
            "difference": difference,
            "delta": self.delta,
            "plans": [asdict(plan) for plan in self.plans],
            "detectable": self.detectable,
            "components": self.components and asdict(self.components),
            "width_plans": [asdict(plan) for plan in self.width_plans],
            "reasons": dict(self.reasons),
            "notes": list(self.notes),
        }


def measure_power(
    metric: Metric, sides: Sequence[pl.DataFrame | None], aim: PowerOptions
) -> MetricPower:
    """Return the power of one run, or of two on their common tasks.

    A side has a row per record with its `TASK` and `VALUE`, or, where only a task has a value, per
    task; `RUNS` counts the records behind a row. A side without a value is None.
    """
    if metric.averaged is None:
        return _make_unknown("no mean over rows or tasks: no task has a value of its own")
    values = [side for side in sides if side is not None]
    if len(values) < len(sides):
        whose = "" if not values else "BASE: " if sides[0] is None else "CANDIDATE: "
        return _make_unknown(f"{whose}{metric.empty}")
    values = [
        side.join(other, on=TASK, how="semi", maintain_order="left")
        for side, other in zip(values, reversed(values), strict=True)
    ]
    tasks = values[0][TASK].n_unique()
    if not tasks:
        return _make_unknown("no task has a value in both files")
    means = [_average(side, of_tasks=len(values) > 1) for side in values]
    largest = max(float(np.abs(side[VALUE].to_numpy()).max()) for side in values)
    runs = float(np.mean([side[RUNS].sum() / tasks for side in values]))
    measured = partial(
        MetricPower,
        value=means[0],
        candidate=means[1] if len(means) > 1 else None,
        tasks=tasks,
        runs=runs,
    )
    if tasks == 1 or not largest < _LARGEST:
        alone = "a single task does not show how much others vary"
        why = alone if tasks == 1 else "values too large"
        return measured(reasons=dict.fromkeys(_NULLABLE[1:], why))

    spreads = [estimate_spread(side[VALUE].to_numpy(), side[TASK].to_numpy()) for side in values]
    exact, variance = _measure_difference(values, spreads, aim.correlation)
    difference = _drop_rounding(exact)
    whole = None if isinstance(metric.averaged, Feature) else round(runs)
    delta = _read_delta(metric, means[0], aim.delta)
    if variance > (_ROUNDING * largest) ** 2:
        plans = _make_plans(metric, delta, difference, aim, whole=whole)
        seen = _find_detected(metric, tasks, variance, aim)
    else:
        alike = f"every value is {means[0]:g}" if len(values) == 1 else "all tasks differ alike"
        plans = seen = f"nothing varies: {alike}"
    why = "no task was run twice" if whole is None else "a task has one value, of all its runs"
    found = {
        "within": why if spreads[0].within is None else spreads[0].within,
        "delta": delta,
        "plans": plans,
        "detectable": seen,
    }
    return measured(
        spread=_drop_rounding(spreads[0]),
        difference=difference,
        delta=None if isinstance(delta, str) else delta,
        plans=() if isinstance(plans, str) else plans,
        detectable=None if isinstance(seen, str) else seen,
        components=split_variance(spreads[0], _average_share(values[0])),
        width_plans=_plan_width(metric, spreads[0], aim, whole=whole),
        reasons={name: why for name, why in found.items() if isinstance(why, str)},
        notes=tuple(_list_notes(metric, spreads, difference, plans, whole=whole)),
    )


def _average_share(side: pl.DataFrame) -> float:
    return float(np.mean(1 / side[TASK].unique_counts().to_numpy()))


def _plan_width(
    metric: Metric, spread: Spread, aim: PowerOptions, *, whole: int | None
) -> tuple[PowerPlan, ...]:
    """Return the tasks for an interval as narrow as asked for, at each number of runs.

    None where values without bounds are all alike: then they have no interval.
    """
    reach = pair_scale(metric).reach
    if aim.width is None or (reach is None and not spread.per_task(1)):
        return ()
    needed = partial(
        count_tasks_for_width, aim.width, spread, confidence=aim.confidence, reach=reach
    )
    return _plan_runs(needed, spread, aim, whole)


def _plan_runs(
    needed: Callable[..., int], spread: Spread, aim: PowerOptions, whole: int | None
) -> tuple[PowerPlan, ...]:
    """Return how many tasks are needed at each number of runs, or with a value of all runs."""
    found = []
    for runs in (1,) if spread.within is None else sorted(set(aim.runs)):
        tasks = needed(runs=runs)
        calls = runs if whole is None else whole
        found.append(PowerPlan(runs=calls, tasks=tasks, calls=calls * tasks))
    return tuple(found)


def _make_unknown(reason: str) -> MetricPower:
    return MetricPower(reasons=dict.fromkeys(_NULLABLE, reason))


def _average(side: pl.DataFrame, *, of_tasks: bool) -> float:
    """Return the mean over the rows, as in a score, or over the tasks, as in a comparison."""
    rows = side.group_by(TASK, maintain_order=True).agg(pl.col(VALUE).mean()) if of_tasks else side
    return float(np.mean(rows[VALUE].to_numpy()))


def _measure_difference(
    values: Sequence[pl.DataFrame], spreads: Sequence[Spread], correlation: float
) -> tuple[Spread, float]:
    """Return the spread of the difference, and its variance per task with the present runs."""
    shares = [_average_share(side) for side in values]
    if len(values) == 1:
        found = assume_difference(spreads[0], correlation=correlation)
        return found, found.between + (found.within or 0.0) * shares[0]
    base, base_tasks, candidate, candidate_tasks = (
        side[name].to_numpy() for side in values for name in (VALUE, TASK)
    )
    found = estimate_difference_spread(base, base_tasks, candidate, candidate_tasks)
    known = [spread.within for spread in spreads if spread.within is not None]
    if not known:
        return found, found.between
    noise = known[0] * shares[0] + known[-1] * shares[1]
    if found.within is None:  # one was run once
        between = max(0.0, found.between - noise)
        found = Spread(between=between, within=known[0] + known[-1], tasks=found.tasks)
    return found, found.between + noise


def _drop_rounding(spread: Spread) -> Spread:
    """Return the spread with a variance between tasks that is only rounding set to 0."""
    lost = spread.within is not None and spread.between <= _ROUNDING * spread.within
    return replace(spread, between=0.0) if lost else spread


def _read_delta(metric: Metric, value: float, asked: float | None) -> float | str:
    """Return the difference to detect, or why there is none."""
    if asked is not None:
        return asked
    low, high = metric.range
    if low >= 0 and high <= 1:
        return DELTA
    if value == 0:
        return f"{100 * DELTA:g} % of 0 is no difference to look for: name one with --delta"
    return DELTA * abs(value)


def _make_plans(
    metric: Metric, delta: float | str, difference: Spread, aim: PowerOptions, *, whole: int | None
) -> tuple[PowerPlan, ...] | str:
    """Return the plans that detect it, or why there are none; `whole`: runs behind one value."""
    if isinstance(delta, str):
        return delta
    low, high = metric.range
    if delta > high - low:
        return f"it cannot differ by {delta:g}, at most by {high - low:g}: choose a smaller --delta"
    needed = partial(
        count_tasks_needed, delta, difference, power=aim.power, confidence=aim.confidence
    )
    try:
        return _plan_runs(needed, difference, aim, whole)
    except OverflowError:
        return "it takes more tasks than can be counted: choose a larger --delta"


def _find_detected(metric: Metric, tasks: int, variance: float, aim: PowerOptions) -> float | str:
    """Return the smallest difference the run could have detected, or why there is none."""
    here = Spread(between=variance, within=None, tasks=tasks)
    found = find_detectable(tasks, here, power=aim.power, confidence=aim.confidence)
    low, high = metric.range
    if found is None or found > high - low:
        return f"{tasks} tasks are too few to detect even the largest possible difference"
    return found


def _list_notes(
    metric: Metric,
    spreads: Sequence[Spread],
    difference: Spread,
    plans: Sequence[PowerPlan] | str,
    *,
    whole: int | None,
) -> Iterator[str]:
    if isinstance(plans, str):  # why there are none
        return
    once = whole is not None or any(plan.runs == 1 for plan in plans)
    if once and isinstance(metric.interval, Wilson):
        yield _CAUTIOUS
    if len({spread.within is None for spread in spreads}) > 1:
        yield _TAKEN_ALIKE
    if difference.between == 0 and any(plan.runs > 1 for plan in plans):
        yield _ALL_NOISE

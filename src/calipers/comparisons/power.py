"""Power analysis: what a finished run could detect, and how many tasks it takes to detect more.

`measure_power` does it for one metric in one group; `power_data` for all groups of one run, or of
two runs on common tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import chain
from typing import Any, NoReturn

import numpy as np
import polars as pl

from calipers.comparisons.comparison_options import PowerOptions
from calipers.comparisons.pairing import pair_scale
from calipers.engines.plan import FAILED
from calipers.metrics import Metric, catalogue, metric_named
from calipers.metrics.declare.declaration import CLUSTER, GROUP, RUNS, TASK, Feature
from calipers.metrics.declare.interval_methods import Wilson
from calipers.records.sources import STDIN, open_sources
from calipers.scores.groups import sort_keys
from calipers.scores.options import Options
from calipers.scores.score import check_fields
from calipers.scores.task_values import (
    TELL_SYSTEMS_APART,
    VALUE,
    TaskRows,
    measure_tasks,
    note_pooled,
    read_task_rows,
)
from calipers.statistics.clusters import Clusters
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
from calipers.support.errors import EXIT_INCOMPLETE, EXIT_PASS, DataError, UsageError
from calipers.support.printing import Printed, Tabular, keep_scalars, list_metric_rows
from calipers.support.strict_json import to_plain
from calipers.support.version import __version__

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
    design_effect: float | None = None  # of --cluster: how many times the variance of a mean grows
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
            **({} if self.design_effect is None else {"design_effect": self.design_effect}),
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
    effect = _measure_design_effect(values)
    exact, variance = _inflate(exact, effect or 1.0), variance * (effect or 1.0)
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
        design_effect=effect,
        components=split_variance(spreads[0], _average_share(values[0])),
        width_plans=_plan_width(metric, _inflate(spreads[0], effect or 1.0), aim, whole=whole),
        reasons={name: why for name, why in found.items() if isinstance(why, str)},
        notes=(
            *_note_design_effect(effect),
            *_list_notes(metric, spreads, difference, plans, whole=whole),
        ),
    )


def _measure_design_effect(values: Sequence[pl.DataFrame]) -> float | None:
    """Return how many times the variance of a mean grows by clusters; None without clusters.

    Over the tasks' values, or their differences: the variance with the pilot's clusters, CR2, over
    that of independent tasks; at least 1. It holds for tasks in clusters like the pilot's.
    """
    if CLUSTER not in values[0].columns:
        return None
    means = [
        side.group_by(TASK, maintain_order=True).agg(pl.col(VALUE).mean(), pl.col(CLUSTER).min())
        for side in values
    ]
    tasks = means[0]
    if len(means) > 1:
        tasks = tasks.join(means[1], on=TASK, suffix="_candidate", maintain_order="left")
        tasks = tasks.with_columns(pl.col(f"{VALUE}_candidate") - pl.col(VALUE))
        tasks = tasks.with_columns(pl.col(f"{VALUE}_candidate").alias(VALUE))
    numbers = tasks[VALUE].to_numpy()
    off = numbers - numbers.mean()
    squares, clusters = Clusters.of_influences(off, tasks[CLUSTER].to_numpy())
    alone = float(off @ off) * off.size / (off.size - 1)
    if clusters.too_few or not alone:
        return None
    return float(max(1.0, squares * clusters.inflation / alone))


def _inflate(spread: Spread, effect: float) -> Spread:
    """Return the spread of tasks in clusters, which tell less than as many independent ones."""
    within = None if spread.within is None else spread.within * effect
    return replace(spread, between=spread.between * effect, within=within)


def _note_design_effect(effect: float | None) -> Iterator[str]:
    if effect is not None and effect > 1:
        yield (
            f"tasks in clusters like these tell as much as 1 / {effect:.2g} of their number would "
            "by themselves: the counts allow for that"
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


SCHEMA = "calipers.power/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerGroup:
    """The tasks of a group, in both files where there are two, and the metrics on them."""

    by: Mapping[str, Any]
    records: int  # of the base
    errors: int
    tasks: int
    only_base: int
    only_candidate: int
    metrics: Mapping[str, MetricPower]


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerAnalysis(Printed, Tabular):
    """What a run could have seen, and how large the next must be. Prints as tables."""

    base: str
    candidate: str | None  # with one, the variance of the difference is measured, not assumed
    aim: PowerOptions
    groups: tuple[PowerGroup, ...]
    settings: Mapping[str, Any]
    notices: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """What the command line gives back: 3 when there was nothing to measure."""
        return EXIT_PASS if self.groups else EXIT_INCOMPLETE

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON, as Python values."""
        return {
            "schema": SCHEMA,
            "version": __version__,
            "settings": {**to_plain(self.aim), **self.settings},
            "base": self.base,
            "candidate": self.candidate,
            "groups": to_plain(self.groups),
            **({"notices": list(self.notices)} if self.notices else {}),
        }

    def _list_rows(self) -> Iterator[dict[str, Any]]:
        """Yield a row per group, metric and number of runs."""
        for group in self.groups:
            for name, found in group.metrics.items():
                [row] = list_metric_rows(group.by, {name: found.to_dict()})
                yield from ({**row, **keep_scalars(asdict(plan))} for plan in found.plans)


def power_data(data: Any, candidate: Any, aim: PowerOptions, options: Options) -> PowerAnalysis:
    """Return how large a comparison must be, estimated from one run, or from two, paired."""
    if all(isinstance(each, str) and each == STDIN for each in (data, candidate)):
        raise UsageError("standard input can be read once", fix="name a file for one of the two")
    metrics = _choose_metrics(options.metrics)
    reading = replace(options, metrics=tuple(metric.name for metric in metrics))
    sides = [_read(each, reading) for each in (data, candidate) if each is not None]
    result = partial(
        PowerAnalysis,
        base=sides[0].name,
        candidate=None if candidate is None else sides[1].name,
        aim=aim,
        settings=asdict(options.settings),
    )
    if not all(side.records for side in sides):
        return result(groups=())
    if options.metrics:
        groups = _measure_groups(sides, metrics, aim)
    else:
        groups = _measure_groups(sides, _keep_present(sides[0], metrics), aim)
        groups = _drop_empty(groups, metrics)
    notices = (*chain.from_iterable(map(note_pooled, sides)), *_note_unmatched(sides, groups))
    return result(groups=tuple(groups.values()), notices=notices)


def _choose_metrics(names: Sequence[str]) -> list[Metric]:
    """Return the metrics named, or all with a better direction; of two over one feature, one."""
    if names:
        return list(dict.fromkeys(map(metric_named, names)))
    found: dict[Any, Metric] = {}
    for metric in catalogue().values():
        if metric.better is not None:
            found.setdefault(metric if metric.averaged is None else metric.averaged, metric)
    return list(found.values())


def _read(data: Any, options: Options) -> TaskRows:
    found = read_task_rows(data, options, keep=TELL_SYSTEMS_APART)
    if found.records:
        check_fields(found.present, found.plan, open_sources(data), options.map)
    return found


def _keep_present(side: TaskRows, metrics: Sequence[Metric]) -> list[Metric]:
    present = [metric for metric in metrics if side.has_fields(metric)]
    if not present:
        raise DataError(
            f"{side.name}: no metric finds the fields that it needs",
            fix="name them, for example --map correct=passed; what is needed: calipers metrics",
        )
    return present


def _drop_empty(
    groups: Mapping[str, PowerGroup], metrics: Sequence[Metric]
) -> dict[str, PowerGroup]:
    """Drop metrics that no group has and nobody asked for, as `score` does."""
    known = {
        name
        for group in groups.values()
        for name, found in group.metrics.items()
        if found.value is not None
    }
    known |= {metric.name for metric in metrics if not metric.optional}
    return {
        text: replace(group, metrics={k: v for k, v in group.metrics.items() if k in known})
        for text, group in groups.items()
    }


def _measure_groups(
    sides: Sequence[TaskRows], metrics: Sequence[Metric], aim: PowerOptions
) -> dict[str, PowerGroup]:
    tasks = [side.rows.select(GROUP, TASK).unique() for side in sides]
    paired = tasks[0].join(tasks[-1], on=[GROUP, TASK], how="semi")
    of_base, of_candidate, of_both = (_count_rows(each) for each in (tasks[0], tasks[-1], paired))
    shared = [text for text in of_base if text in of_candidate]
    if not of_both:
        _refuse_unpaired(sides, by=() if shared else sides[0].plan.by)
    records, errors = _count_rows(sides[0].rows), _count_rows(sides[0].rows.filter(FAILED))
    values = {metric: [_list_values(side, metric) for side in sides] for metric in metrics}
    return {
        text: PowerGroup(
            by=key,
            records=records[text],
            errors=errors.get(text, 0),
            tasks=of_both.get(text, 0),
            only_base=of_base[text] - of_both.get(text, 0),
            only_candidate=of_candidate[text] - of_both.get(text, 0),
            metrics={
                metric.name: measure_power(metric, [side.get(text) for side in found], aim)
                for metric, found in values.items()
            },
        )
        for text, key in sort_keys(shared, sides[0].plan.by).items()
    }


def _count_rows(rows: pl.DataFrame) -> dict[str, int]:
    return dict(rows.group_by(GROUP).len().iter_rows())


def _list_values(side: TaskRows, metric: Metric) -> dict[str, pl.DataFrame]:
    """Return each group's values: a row per record, or per task if only tasks have one."""
    averaged = metric.averaged
    if isinstance(averaged, Feature):
        value = pl.col(averaged.name).cast(pl.Float64)
        value = 1 - value if metric.complement else value
        rows = side.rows.filter(pl.col(averaged.name).is_not_null())
        found = rows.select(GROUP, TASK, value.alias(VALUE), pl.lit(1).alias(RUNS))
    elif (per := measure_tasks(side, metric)) is not None:
        found = per
    else:
        return {}
    if side.plan.cluster is not None:
        known = side.rows.group_by(TASK).agg(pl.coalesce(pl.col(CLUSTER).min(), pl.first(TASK)))
        known = known.rename({name: CLUSTER for name in known.columns if name != TASK})
        found = found.join(known, on=TASK, how="left", maintain_order="left")
    return {str(text): rows for (text,), rows in found.partition_by(GROUP, as_dict=True).items()}


def _refuse_unpaired(sides: Sequence[TaskRows], by: Sequence[str]) -> NoReturn:
    where = " and ".join(side.name for side in sides)
    if by:
        raise DataError(
            f"no group of --by {' --by '.join(by)} is in both {where}",
            fix="group by a field with the same values in both, or leave --by out",
        )
    raise DataError(
        f"no id is in both {where}",
        fix="name the field that identifies tasks: --map id=NAME; or leave CANDIDATE out, "
        "then --correlation says how alike the systems are taken to be",
    )


def _note_unmatched(sides: Sequence[TaskRows], groups: Iterable[str]) -> Iterator[str]:
    for side in sides:
        if alone := set(side.rows[GROUP].unique()).difference(groups):
            keys = sort_keys(alone, side.plan.by).values()
            shown = "; ".join(", ".join(map(str, key.values())) for key in keys)
            yield f"only in {side.name}, and left out: {shown}"

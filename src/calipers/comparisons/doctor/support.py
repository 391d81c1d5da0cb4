"""Which questions records can answer: metrics, tasks, systems, and differences that would show."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import combinations
from math import sqrt

import polars as pl

from calipers.comparisons.doctor.facts import OUTCOME, SYSTEM, TASK, Facts, Outcomes
from calipers.comparisons.doctor.results import Detectable, Support
from calipers.comparisons.options.power import PowerOptions
from calipers.comparisons.sizing import measure_power
from calipers.metrics import catalogue, metric_named
from calipers.metrics.declare.declaration import RUNS, Aggregate, is_met
from calipers.metrics.declare.declaration import TASK as METRIC_TASK
from calipers.scores.tasks import VALUE

_MOST_SYSTEMS = 50  # whose pairs are counted
_COUNTED = "runs"


def find_support(facts: Facts, present: Collection[str], maps: Mapping[str, str]) -> Support:
    """Return what the records support, as they are and with the fields that look like others."""
    runs = facts.rows.group_by(SYSTEM, TASK).agg(pl.len().alias(_COUNTED))[_COUNTED]
    most = int(runs.max() or 0)  # type: ignore[arg-type]
    metrics = list(_list_measurable(present, most))
    mapped = _list_measurable({*present, *maps}, most) if maps else ()
    outcome = facts.find_outcome()
    common, pairs = _count_shared_tasks(facts)
    return Support(
        tasks=round(facts.rows[TASK].n_unique() / facts.share),
        systems=facts.systems,
        runs=(int(runs.min() or 0), most),  # type: ignore[arg-type]
        pairs=pairs,
        common_tasks=round(common / facts.share),
        share=facts.share,
        metrics=tuple(metrics),
        with_map=tuple(name for name in mapped if name not in metrics),
        detectable=None if outcome is None else _find_detectable(outcome, facts.share),
    )


def _list_measurable(present: Collection[str], runs: int) -> Iterator[str]:
    """Yield the metrics whose fields are there; those over runs only where a task has several."""
    for name, metric in catalogue().items():
        met = all(is_met(need, present.__contains__) for need in metric.needs)
        of_runs = isinstance(metric.aggregate, Aggregate) and bool(metric.aggregate.tasks)
        if met and (runs > 1 or not of_runs):
            yield name


def _count_shared_tasks(facts: Facts) -> tuple[int, int]:
    """Return how many tasks all systems have, and how many pairs of systems share any."""
    if not facts.has_ids:
        return 0, 0
    tasks = facts.rows.select(SYSTEM, TASK).unique()
    common = tasks.group_by(TASK).len().filter(pl.col("len") == len(facts.systems)).height
    if common or len(facts.systems) > _MOST_SYSTEMS:
        count = len(facts.systems)
        return common, count * (count - 1) // 2 if common else 0
    parts = {name: set(tasks.filter(pl.col(SYSTEM) == name)[TASK]) for name in facts.systems}
    return 0, sum(bool(a & b) for a, b in combinations(parts.values(), 2))


def _find_detectable(outcome: Outcomes, share: float) -> Detectable:
    """Return the smallest difference between the two best systems that would be seen.

    Of a sample of the tasks, it is scaled by the square root of the sampled share.
    """
    metric = metric_named(outcome.metric)
    means = outcome.rows.group_by(SYSTEM).agg(
        pl.col(OUTCOME).mean(), pl.col(TASK).n_unique().alias(_COUNTED)
    )
    enough = means.filter(pl.col(_COUNTED) * 2 >= pl.col(_COUNTED).max())
    systems = enough.sort(-pl.col(OUTCOME), SYSTEM)[SYSTEM].to_list()[:2]
    sides = [_select_side(outcome.rows, system) for system in systems]
    if len(sides) > 1 and sides[0].join(sides[1], on=METRIC_TASK, how="semi").height == 0:
        largest = means.sort(-pl.col(_COUNTED).cast(pl.Int64), SYSTEM)[SYSTEM][0]
        systems, sides = [largest], [_select_side(outcome.rows, largest)]
    found = measure_power(metric, sides, PowerOptions())
    return Detectable(
        metric=outcome.metric,
        systems=tuple(systems),
        tasks=round(found.tasks / share),
        value=None if found.detectable is None else found.detectable * sqrt(share),
        reason=found.reasons.get("detectable"),
    )


def _select_side(rows: pl.DataFrame, system: str) -> pl.DataFrame:
    return rows.filter(pl.col(SYSTEM) == system).select(
        pl.col(TASK).cast(pl.Int64, strict=False, wrap_numerical=True).alias(METRIC_TASK),
        pl.col(OUTCOME).alias(VALUE),
        pl.lit(1).alias(RUNS),
    )

"""Causes of a change: the model, the scorer, or the tasks. The parts sum to the whole change.

Five steps lead from the base to the candidate, each changing one thing: the base's own tasks are
cut down to the common ones (tasks removed), these are scored again by one scorer (scorer), the
answers change (model), the candidate's own scores come back (scorer), and its other tasks join
(tasks added).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import polars as pl

from calipers.comparisons.results import Attribution, Pair
from calipers.metrics import Metric
from calipers.metrics.declare.declaration import TASK
from calipers.scores.options import Options
from calipers.scores.tasks import VALUE, TaskRows, measure_tasks, read_tasks

_SCORED = "correct"
_NOWHERE = "\0"  # a name that no field has: the recorded scores are not read


def read_twice(
    base: Any,
    candidate: Any,
    options: Options,
    *,
    base_normalize: Literal["numeric", "text"] | None,
) -> list[TaskRows]:
    """Return two runs as they were scored, and both as one scorer of today scores them."""
    own = options
    if base_normalize is not None:
        own = replace(options, settings=replace(options.settings, normalize=base_normalize))
    again = replace(options, map={**options.map, _SCORED: _NOWHERE})
    asked = ((base, own), (candidate, options), (base, again), (candidate, again))
    return [read_tasks(*each) for each in asked]


def attribute_changes(pair: Pair, sides: Sequence[TaskRows], metrics: Sequence[Metric]) -> Pair:
    """Return the comparison with the parts of each change, if the metric is a mean."""
    found = {
        metric.name: replace(pair.metrics[metric.name], attribution=_attribute(sides, metric))
        for metric in metrics
    }
    return replace(pair, metrics=found)


def _attribute(sides: Sequence[TaskRows], metric: Metric) -> Attribution | None:
    """Return the parts of the change; None if the metric is not a mean or a side has no value."""
    tables = [table for side in sides if (table := measure_tasks(side, metric)) is not None]
    if len(tables) < len(sides):
        return None
    base, candidate, base_anew, candidate_anew = tables
    common = base.join(candidate, on=TASK, how="semi").select(TASK)
    if not common.height:
        return None
    before, after = _average(base), _average(candidate)
    old, new = _average(base, common), _average(candidate, common)
    rescored = all(
        table.join(common, on=TASK, how="semi").height == common.height
        for table in (base_anew, candidate_anew)
    )
    if rescored:
        model = _average(candidate_anew, common) - _average(base_anew, common)
        scorer: float | None = (new - old) - model
        reason = None
    else:
        model, scorer = new - old, None
        reason = "not every common task can be scored again: the scorer's part is in the model's"
    return Attribution(
        base=before,
        candidate=after,
        model=model,
        scorer=scorer,
        tasks_removed=old - before,
        tasks_added=after - new,
        reason=reason,
    )


def _average(tasks: pl.DataFrame, among: pl.DataFrame | None = None) -> float:
    if among is not None:
        tasks = tasks.join(among, on=TASK, how="semi")
    return float(tasks[VALUE].mean())  # type: ignore[arg-type]

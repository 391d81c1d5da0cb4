"""The value of a metric for every system on every task that all of them have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import polars as pl

from calipers.comparisons.ranked_systems import Systems
from calipers.comparisons.sides import list_clusters
from calipers.metrics import Metric
from calipers.metrics.declare.declaration import GROUP, RUNS, TASK
from calipers.scores.options import Options
from calipers.scores.tasks import SQUARES, VALUE, measure_tasks
from calipers.statistics.arrays import Floats, Labels
from calipers.statistics.paired_tasks import PairedTasks
from calipers.support.errors import UsageError
from calipers.support.quick_dataclasses import dataclass

_NAMED = 6  # systems in a notice


@dataclass(frozen=True, kw_only=True)
class CommonTasks:
    """The systems that have a metric, and the tasks that all of these have."""

    systems: tuple[str, ...]  # their texts in `GROUP`
    tasks: pl.DataFrame  # the column `TASK`, sorted
    notices: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class TaskMatrix:
    """A row per system and a column per task: values, and how many runs each is the mean of."""

    values: Floats
    runs: Floats
    squares: Floats | None  # of the runs around their means; None where a task has one value
    clusters: Labels | None

    def pair(self, one: int, other: int) -> PairedTasks:
        """Return the tasks of two systems; the difference is that of the first from the second."""
        squares = None if self.squares is None else self.squares[one] + self.squares[other]
        return PairedTasks(
            base=self.values[other],
            candidate=self.values[one],
            base_runs=self.runs[other],
            candidate_runs=self.runs[one],
            squares=squares,
        )


def find_common(systems: Systems, metric: Metric, known: pl.DataFrame) -> CommonTasks:
    """Return the tasks that every system with the metric has; `known` names each pair once.

    Raises:
        UsageError: Fewer than two systems have the metric, or no task is common to all.
    """
    of_systems = {
        text: rows[TASK]
        for (text,), rows in known.select(GROUP, TASK).partition_by(GROUP, as_dict=True).items()
    }
    texts = [text for text in systems.keys if text in of_systems]
    names = systems.names
    without = [names[text] for text in systems.keys if text not in of_systems]
    if len(texts) <= 1:
        having = f"only {names[texts[0]]} has a value" if texts else "no system has a value"
        raise UsageError(
            f"{metric.name}: {having}, so there is nothing to rank ({metric.empty})",
            fix="rank by another metric: --metric NAME; calipers score shows which have values",
        )
    tasks, every = _share_tasks([of_systems[text] for text in texts])
    lacking = {names[text]: every - len(of_systems[text]) for text in texts}
    lacking = {name: count for name, count in lacking.items() if count}
    if not tasks.height:
        raise UsageError(
            f"{metric.name}: no task is common to all systems; of {every:,} tasks, "
            f"{_say_lacking(lacking)}",
            fix="tasks are paired by id: name the field with --map id=NAME, "
            "or rank the systems as independent samples with --unpaired",
        )
    notices = []
    if without:
        notices.append(f"{metric.name}: not ranked for want of a value: {_shorten_list(without)}")
    if tasks.height < every:
        common = "the only task" if tasks.height == 1 else f"the {tasks.height:,} tasks"
        notices.append(
            f"{metric.name}: ranked on {common} that all systems have; "
            f"{every - tasks.height:,} of {every:,} are left out ({_say_lacking(lacking)})"
        )
    return CommonTasks(systems=tuple(texts), tasks=tasks, notices=tuple(notices))


def _share_tasks(of_systems: Sequence[pl.Series]) -> tuple[pl.DataFrame, int]:
    """Return the tasks that all systems have, sorted, and how many tasks any of them has."""
    first = of_systems[0]
    if all(each.equals(first) for each in of_systems):
        return first.sort().to_frame(), len(first)
    shared = pl.concat(of_systems).to_frame().group_by(TASK).len()
    common = shared.filter(pl.col("len") == len(of_systems)).select(TASK).sort(TASK)
    return common, shared.height


def _say_lacking(lacking: Mapping[str, int]) -> str:
    """Say which systems lack how many tasks, those that lack most first."""
    order = sorted(lacking.items(), key=lambda item: -item[1])
    return _shorten_list([f"{name} lacks {count:,}" for name, count in order])


def _shorten_list(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def make_matrix(
    systems: Systems, metric: Metric, options: Options
) -> tuple[TaskMatrix, CommonTasks] | None:
    """Return the values of all systems on their common tasks; None if no task has a value."""
    table = measure_tasks(systems.rows, metric)
    if table is None:
        return None
    common = find_common(systems, metric, table)
    shape = len(common.systems), common.tasks.height
    if table.height > shape[0] * shape[1]:
        table = table.join(common.tasks, on=TASK, how="semi", maintain_order="left")
    in_order = table[GROUP][:: shape[1]].to_list()  # by system and task
    order = [in_order.index(text) for text in common.systems]

    def dense(name: str) -> Floats:
        matrix = table[name].cast(pl.Float64).to_numpy().reshape(shape)
        return matrix if order == sorted(order) else matrix[order]

    matrix = TaskMatrix(
        values=dense(VALUE),
        runs=dense(RUNS),
        squares=dense(SQUARES) if SQUARES in table.columns else None,
        clusters=list_clusters(common.tasks, systems.rows) if options.cluster else None,
    )
    return matrix, common


def note_runs(matrix: TaskMatrix, metric: Metric) -> Iterator[str]:
    """Say that `score` has other values, where tasks have different numbers of runs."""
    if matrix.runs.min() == matrix.runs.max():
        return
    by_row = np.average(matrix.values, axis=1, weights=matrix.runs)
    if not np.allclose(by_row, matrix.values.mean(axis=1), rtol=1e-9, atol=1e-9):
        yield (
            f"{metric.name}: tasks have different numbers of runs; every task counts the same "
            "here, every row in calipers score (--weight task)"
        )

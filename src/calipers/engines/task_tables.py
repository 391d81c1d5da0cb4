"""What is told of single tasks: how many are flaky and which, what a pass costs, a row of each."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from calipers.engines.outcome import Outcome, Sinks
from calipers.engines.per_task import (
    add_answers,
    count_flaky,
    count_single,
    declare_task_sums,
    find_flakiest,
    list_run_columns,
    list_task_columns,
    price_tasks,
    sort_runs,
    sum_tasks,
)
from calipers.engines.plan import Plan
from calipers.engines.store import GroupedRows, decode_groups
from calipers.engines.tasks import TaskCounts
from calipers.engines.totals import add_totals, sum_tables
from calipers.metrics.cost.tiers import cost_of_pass
from calipers.metrics.declare.declaration import GROUP, TASK, Frame


class TaskTables:
    """Tables over tasks that are added up part by part; their rows go to a file if it is wanted."""

    def __init__(self, plan: Plan, sinks: Sinks | None) -> None:
        self._plan = plan
        self._sinks = sinks if sinks is not None and sinks.wants_tasks else None
        self._sums = declare_task_sums(plan, in_full=self._sinks is not None)
        self._wants_each = self._sinks is not None or cost_of_pass in plan.features
        self._counts: list[pl.DataFrame] = []
        self._flakiest: list[pl.DataFrame] = []
        self._attempts: list[pl.DataFrame] = []

    def add(self, rows: GroupedRows) -> None:
        """Take the tasks of rows that have all runs of each in one part."""
        sums, codes, in_full = self._sums, rows.codes, self._sinks is not None

        def tasks_of(part: pl.DataFrame) -> list[pl.DataFrame]:
            counts = TaskCounts(part)
            single = counts.single.clear() if self._wants_each else counts.single
            frame = (part if self._wants_each else counts.repeated).lazy()
            tasks = sum_tasks(frame, sums)
            wanted = add_answers(tasks, frame, sums) if in_full else tasks
            tables = _collect(wanted).sort(TASK), count_single(single)
            return [decode_groups(table, codes) for table in tables]

        for tasks, single in rows.map_parts(tasks_of, list_task_columns(self._plan)):
            frame = tasks.lazy()
            self._counts += [_collect(count_flaky(frame)), single]
            self._flakiest.append(_collect(find_flakiest(frame)))
            if (costs := price_tasks(frame)) is not None:
                self._attempts.append(_collect(costs))
            if self._sinks is not None:
                self._sinks.take_tasks(tasks)

    def complete(self, outcome: Outcome, rows: GroupedRows) -> Outcome:
        """Return the outcome with what was found; of few rows, with the runs themselves."""
        add_totals(outcome.groups, sum_tables(self._counts, [GROUP]))
        columns = list_run_columns(self._plan, rows.rows)
        runs = None if columns is None else rows.decode_groups(pl.concat(rows.parts(columns)))
        return replace(
            outcome,
            flakiest=_collect(find_flakiest(pl.concat(self._flakiest).lazy())),
            attempts=pl.concat(self._attempts) if self._attempts else None,
            runs=None if runs is None else sort_runs(runs),
        )


def _collect(frame: Frame) -> pl.DataFrame:
    return frame.collect(engine="in-memory")

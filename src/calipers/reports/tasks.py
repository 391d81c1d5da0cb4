"""The tasks that were solved least often, with the runs of each system that solved them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from calipers.reports.figures import Form, group_name, shorten_text
from calipers.reports.table import ABSENT, Cell, Column, Table, make_rows

if TYPE_CHECKING:
    from calipers.runs.report_data import TaskOutcome
    from calipers.scores.results import Group

_SIDE_BY_SIDE = 7  # systems that have a column each
_SHARE = Form(decimals=2)
_SYSTEM = ("model", "tier")


def tabulate_hardest(tasks: Sequence[TaskOutcome], groups: Sequence[Group]) -> Table:
    """Return a row per task: the share of its runs that are right, and those of each system.

    Of more systems than have room side by side: how many solved it in any run.
    """
    several = any(len(task.by_system) > 1 for task in tasks)
    known = {_make_key(group): group_name(group.by) for group in groups}
    shown = list(known) if several and len(known) <= _SIDE_BY_SIDE else []
    systems = [Column(name=known[key]) for key in shown]
    solvers = [Column(name="solved by")] if several and not shown else []
    return Table(
        columns=(
            Column(name="task", kind="key"),
            Column(name="right", heading="all" if several else "right"),
            *systems,
            *solvers,
            Column(name="runs"),
        ),
        rows=make_rows(
            (
                Cell(value=task.id, text=shorten_text(task.id, 80)),
                _make_share((task.right, task.runs)),
                *(_make_share(task.by_system.get(key)) for key in shown),
                *([_count_solvers(task)] if solvers else []),
                task.runs,
            )
            for task in tasks
        ),
        title="Hardest tasks",
    )


def _make_key(group: Group) -> tuple[str | None, ...]:
    return tuple(
        None if value is None else str(value) for name, value in group.by.items() if name in _SYSTEM
    )


def _make_share(counts: tuple[int, int] | None) -> Cell:
    """Return the share of the runs that are right, of a system that has run the task."""
    if counts is None:
        return ABSENT
    right, runs = counts
    return Cell(value=right / runs, form=_SHARE, note=f"{right:,} of {runs:,} runs")


def _count_solvers(task: TaskOutcome) -> Cell:
    solved = sum(right > 0 for right, _ in task.by_system.values())
    return Cell(value=solved, text=f"{solved} of {len(task.by_system)}")

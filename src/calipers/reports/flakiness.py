"""Flaky tasks on one line: how many there are, and the worst by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from calipers.reports.figures import group_name, printable

if TYPE_CHECKING:
    from calipers.scores.results import FlakyTask, Score

_ID_CHARS = 40


def flaky_line(score: Score) -> str | None:
    """`flaky tasks: 12 of 45: q7 (3/10), …; all tasks in FILE`; None where none is run twice."""
    tasks = score.per_task
    if tasks is None or not tasks.repeated:
        return None
    if not tasks.flaky:
        return f"flaky tasks: none of {tasks.repeated:,}"
    alone = len(score.groups) == 1
    named = ", ".join(_shown(task, alone=alone) for task in tasks.flakiest)
    dots = ", …" if tasks.flaky > len(tasks.flakiest) else ""
    where = f"; all tasks in {printable(tasks.path)}" if tasks.path else ""
    if dots and not where:
        where = "; --per-task FILE writes all"
    return f"flaky tasks: {tasks.flaky:,} of {tasks.repeated:,}: {named}{dots}{where}"


def _shown(task: FlakyTask, *, alone: bool) -> str:
    """A task with its passes over its runs, and its group where there are several."""
    name = printable(task.id)
    short = name if len(name) <= _ID_CHARS else f"{name[: _ID_CHARS - 1]}…"
    others = {field: value for field, value in task.by.items() if field != "id"}
    group = f"{group_name(others)}, " if others and not alone else ""
    return f"{short} ({group}{task.passes}/{task.runs})"

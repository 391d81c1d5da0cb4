"""A part of the tasks, drawn by a seed, with the same shares of each group as in all of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Annotated

from pydantic import BeforeValidator, Field

from calipers.records.tasks import Task, Tasks
from calipers.support.config.models import StrictModel
from calipers.support.errors import UsageError, nearest
from calipers.systems.spec import Text

Names = Annotated[
    list[Text], BeforeValidator(lambda given: [given] if isinstance(given, str) else given)
]


class SampleSpec(StrictModel):
    """A random sample of the tasks."""

    n: int = Field(ge=1, description="Number of tasks to draw.")
    seed: int = Field(default=0, ge=0, description="Random seed: another seed draws other tasks.")
    by: Names = Field(
        default_factory=list,
        description="A field, or a list of fields, to stratify by: category, …",
    )


def draw_sample(tasks: Tasks, sample: SampleSpec) -> Tasks:
    """Return the tasks that the seed draws, in the order of the data.

    Which ones depends on the seed and the ids alone: with a larger n, or in data with more tasks,
    most of them are drawn again, and what was kept of them can be used.

    Raises:
        UsageError: No task has a field of `by`.
    """
    _refuse_unknown(tasks.tasks, sample.by)
    if sample.n >= len(tasks):
        note = f"sample: n is {sample.n}, and there are {len(tasks)} tasks: all are taken"
        return replace(tasks, notices=(*tasks.notices, note), drawn_from=len(tasks))
    groups: dict[str, list[int]] = {}
    for at, task in enumerate(tasks.tasks):
        groups.setdefault(_group(task, sample.by), []).append(at)
    taken = _allot([len(each) for each in groups.values()], sample.n)
    drawn: list[int] = []
    for members, count in zip(groups.values(), taken, strict=True):
        lots = sorted(members, key=lambda at: _draw_lot(sample.seed, tasks.tasks[at]))
        drawn += lots[:count]
    empty = [name for name, count in zip(groups, taken, strict=True) if not count]
    notes = [
        f"sample: {len(drawn):,} of {len(tasks):,} tasks are run; the verdict is on these alone"
    ]
    notes += [f"sample: no task is drawn of {', '.join(empty)}"] if empty else []
    return replace(
        tasks,
        tasks=[tasks.tasks[at] for at in sorted(drawn)],
        notices=(*tasks.notices, *notes),
        drawn_from=len(tasks),
    )


def _refuse_unknown(tasks: Sequence[Task], by: Sequence[str]) -> None:
    for name in by:
        if all(task.get(name) is None for task in tasks):
            fields = {field for task in tasks for field in task}
            raise UsageError(f"sample: no task has {name}", fix=nearest(name, sorted(fields)))


def _group(task: Task, by: Sequence[str]) -> str:
    values = [task.get(name) for name in by]
    return " / ".join(
        each if isinstance(each, str) else json.dumps(each, sort_keys=True) for each in values
    )


def _allot(sizes: Sequence[int], n: int) -> list[int]:
    """Return how many of each group are taken: its share of n, by the largest remainder.

    >>> _allot([60, 30, 10], 5)
    [3, 2, 0]
    """
    total = sum(sizes)
    taken = [size * n // total for size in sizes]
    remainders = sorted(range(len(sizes)), key=lambda at: (-(sizes[at] * n % total), at))
    for at in remainders[: n - sum(taken)]:
        taken[at] += 1
    return taken


def _draw_lot(seed: int, task: Task) -> str:
    return sha256(f"{seed} {task['id']}".encode()).hexdigest()

"""The user that a model plays in a task: the suite's, with what the task says of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from calipers.records.tasks import Task
from calipers.runs.suite import Suite
from calipers.support.config.files import ConfigFile
from calipers.support.errors import UsageError
from calipers.support.templates import Template
from calipers.systems.calls import UserRole
from calipers.systems.simulated_user import TaskUser

_FIELD = "user"
_EXAMPLE = "for example user: {goal: has the order cancelled}; the suite names the model"


def list_texts(suite: Suite) -> list[str]:
    """Return what the suite says of the user; it may hold {field}."""
    spec = suite.user
    return [] if spec is None else [text for text in (spec.persona, spec.goal) if text]


def make_role(suite: Suite, task: Task, run: int = 1) -> UserRole | None:
    """Return the part that a model plays in a task; None if no user is simulated.

    Raises:
        UsageError: The task's `user` is not understood, or nobody says what the user wants.
    """
    spec, said = suite.user, task.get(_FIELD)
    if spec is None:
        if isinstance(said, Mapping) and said.keys() & {"goal", "persona"}:
            raise UsageError(
                f"the task {task['id']} has a user, and the suite says nothing of who plays it",
                fix="user: {model: openai:gpt-4o-mini} in the suite",
            )
        return None
    own = _read(task, said)
    if task.get("turns"):
        if own != TaskUser():
            raise UsageError(
                f"the task {task['id']} has both turns and a user", fix="leave one of them out"
            )
        return None
    goal = own.goal or (spec.goal and Template(spec.goal).fill(task))
    if not goal:
        raise UsageError(
            f"the task {task['id']}: nothing says what the user wants to reach",
            fix="user: {goal: …} in the task, or in the suite",
        )
    most = own.max_turns or spec.max_turns
    if most > suite.max_turns:
        raise UsageError(
            f"the task {task['id']}: the user may speak {most} times, and a system may reply "
            f"{suite.max_turns} times",
            fix=f"max_turns: {most} in the suite",
        )
    return UserRole(
        goal=goal,
        persona=own.persona or (Template(spec.persona).fill(task) if spec.persona else None),
        max_turns=most,
        settings=spec.settings_of(run),
    )


def _read(task: Task, said: Any) -> TaskUser:
    if said is None:
        return TaskUser()
    return TaskUser.of(ConfigFile(f"the task {task['id']}: user", said), example=_EXAMPLE)

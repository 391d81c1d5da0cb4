"""Results of tau-bench (a list of trials) and tau²-bench (`simulations` in one object)."""

from __future__ import annotations

from calipers.records.logs.conversations import ASSISTANT, USER, list_calls, read_said
from calipers.records.logs.log import Record
from calipers.records.logs.parts import list_objects
from calipers.records.logs.shape import Row, Shape, look, name_scores, read_number
from calipers.support.registry import register

_ALL = 1.0  # a reward within rounding of this is a pass
_CLOSE = 1e-6


def _read_trial(row: Row) -> Record:
    messages = list(list_objects(look(row, "traj | messages")))
    asked = [each for each in messages if each.get("role") == USER]
    reward = read_number(look(row, "reward | reward_info.reward"))
    run = read_number(row.get("trial"))
    error = str(row.get("termination_reason") or "")
    return {
        "run": None if run is None else int(run) + 1,
        "input": look(row, "info.task.instruction") or read_said(asked[:1], USER),
        "answer": read_said(messages, ASSISTANT) if messages else None,
        "passed": None if reward is None else abs(reward - _ALL) <= _CLOSE,
        "messages": messages or None,
        "trace": {"tool_calls": list_calls(messages)},
        "error": error if "error" in error else None,
        **name_scores({"reward": reward}),
    }


_SHAPE = Shape(
    name="tau-bench",
    has="task_id trial reward traj | task_id trial reward_info messages",
    rows="simulations",
    shared={"model": "info.agent_info.llm", "category": "info.environment_info.domain_name"},
    fields={"id": "task_id", "cost_usd": "agent_cost", "duration_seconds": "duration"},
    more=_read_trial,
    left_behind=("traj", "info", "messages", "task"),
)
register(_SHAPE.make_reader())

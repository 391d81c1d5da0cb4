"""LangSmith: runs as its API and exports write them, and the tables of its experiments."""

from __future__ import annotations

from datetime import datetime

from calipers.records.logs.conversations import ASSISTANT, USER, read_said
from calipers.records.logs.log import Record
from calipers.records.logs.parts import read_text
from calipers.records.logs.shape import Row, Shape, look, read_number, tell_seconds
from calipers.support.registry import register

_SPREAD = {
    "input": ("inputs.", USER),
    "answer": ("outputs.", ASSISTANT),
    "reference": ("reference.", ASSISTANT),
}
_INVOKED = "extra.invocation_params"


def _read_more(row: Row) -> Record:
    """Return the texts of columns such as `inputs.question`, and how long the run took."""
    found: Record = {}
    for name, (prefix, role) in _SPREAD.items():
        parts = {
            key.removeprefix(prefix): value
            for key, value in row.items()
            if key.startswith(prefix) and value is not None
        }
        if parts:
            found[name] = read_said(parts, role)
    return found | _measure(row)


def _measure(row: Row) -> Record:
    seconds = read_number(look(row, "execution_time | latency"))
    start, end = (read_text(look(row, name)) for name in ("start_time", "end_time"))
    if seconds is None and start and end:
        try:
            took = datetime.fromisoformat(end) - datetime.fromisoformat(start)
            seconds = took.total_seconds()
        except (ValueError, TypeError):
            pass  # no times, or only one of them with a zone
    return tell_seconds(seconds)


_SHAPE = Shape(
    name="LangSmith",
    has="inputs outputs run_type | inputs outputs reference_example_id"
    " | inputs outputs example_id | inputs outputs feedback_stats"
    " | example_id execution_time",
    fields={
        "id": "reference_example_id | example_id | id",
        "input": "inputs",
        "answer": "outputs",
        "reference": "reference_outputs | reference",
        "model": f"extra.metadata.ls_model_name | {_INVOKED}.model | {_INVOKED}.model_name",
        "prompt_tokens": "prompt_tokens",
        "completion_tokens": "completion_tokens",
        "cost_usd": "total_cost",
        "tags": "tags",
        "error": "error",
    },
    scores="feedback_stats | feedback",
    score_columns=r"feedback\.(?P<name>.+)",
    more=_read_more,
    counts=lambda row: not row.get("parent_run_id"),
    left_out="runs inside others were left out",
)
register(_SHAPE.make_reader())

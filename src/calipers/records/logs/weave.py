"""W&B Weave: calls, as its pages and `client.get_calls` export them.

Where there are calls of an evaluation, these are the records, each with its scores.
"""

from __future__ import annotations

import re
from typing import Any

from calipers.records.logs.conversations import ASSISTANT, USER, read_said
from calipers.records.logs.log import Record
from calipers.records.logs.parts import as_mapping, read_text
from calipers.records.logs.shape import Row, Shape, look, read_number, sum_numbers
from calipers.support.registry import register

_SCORED = "predict_and_score"
_OBJECT = re.compile(r"weave:///[^/]+/[^/]+/object/")
_REFERENCE = "_ref"  # of an example to the row of its dataset
_EXPECTED = ("expected", "target", "answer", "ground_truth", "reference", "label")


def _read_call(row: Row) -> Record:
    """Return what an evaluation asked and got, and what the models used."""
    output = as_mapping(look(row, "output"))
    used = as_mapping(look(row, "summary.usage"))
    seconds = read_number(output.get("model_latency"))
    found: Record = {
        "model": next(iter(used), None) or _name_model(look(row, "inputs.model")),
        "prompt_tokens": sum_numbers(used.values(), "prompt_tokens | input_tokens"),
        "completion_tokens": sum_numbers(used.values(), "completion_tokens | output_tokens"),
        "latency_ms": None if seconds is None else seconds * 1000,
    }
    if "scores" not in output:
        return found
    given = look(row, "inputs.example")
    example = as_mapping(given)
    asked = {k: v for k, v in example.items() if k not in (*_EXPECTED, _REFERENCE)}
    expected = next((example[k] for k in _EXPECTED if k in example), None)
    return {
        **found,
        "id": read_text(given if isinstance(given, str) else example.get(_REFERENCE)),
        "input": read_said(asked, USER) if asked else read_text(given or None),
        "reference": None if expected is None else read_said(expected, ASSISTANT),
        "answer": None if output.get("output") is None else read_said(output["output"], ASSISTANT),
    }


def _name_model(model: Any) -> str | None:
    """Return the model's name; of a reference to one, its name and version."""
    named = as_mapping(model).get("name") if isinstance(model, dict) else model
    return _OBJECT.sub("", read_text(named) or "") or None


def _is_case(row: Row) -> bool:
    """Say whether a call is a case of an evaluation, or no part of another call."""
    name = str(row.get("op_name"))
    if _SCORED in name:
        return True
    return not row.get("parent_id") and "Evaluation.evaluate" not in name


_SHAPE = Shape(
    name="Weave",
    has="op_name trace_id inputs | op_name trace_id output",
    fields={
        "id": "id",
        "input": "inputs",
        "answer": "output",
        "latency_ms": "summary.weave.latency_ms",
        "error": "exception",
    },
    scores="output.scores",
    more=_read_call,
    counts=_is_case,
    left_out="calls inside others were left out",
)
register(_SHAPE.make_reader())

"""Braintrust: the rows of experiments and logs, as its pages and its API write them."""

from __future__ import annotations

from calipers.records.logs.log import Record
from calipers.records.logs.shape import Row, Shape, look, read_number, tell_seconds
from calipers.support.registry import register


def _measure(row: Row) -> Record:
    start, end = (read_number(look(row, f"metrics.{name}")) for name in ("start", "end"))
    return tell_seconds(None if start is None or end is None else end - start)


def _is_root(row: Row) -> bool:
    """Say whether a span is a whole case, not a step of one."""
    root = look(row, "is_root")
    if root is not None:
        return str(root).lower() == "true"
    return row.get("span_id") == row.get("root_span_id")


_SHAPE = Shape(
    name="Braintrust",
    has="root_span_id span_id | span_attributes root_span_id | input output expected scores",
    fields={
        "id": "dataset_record_id | origin.id | id",
        "input": "input",
        "answer": "output",
        "reference": "expected",
        "model": "metadata.model",
        "prompt_tokens": "metrics.prompt_tokens",
        "completion_tokens": "metrics.completion_tokens",
        "cost_usd": "metrics.estimated_cost",
        "tags": "tags",
        "error": "error",
    },
    scores="scores",
    more=_measure,
    counts=_is_root,
    left_out="spans inside others were left out",
)
register(_SHAPE.make_reader())

"""Ragas: what `evaluate(…).to_pandas()` and its experiments write, as CSV, JSON or Parquet.

Every numeric column that does not belong to the sample is a metric.
"""

from __future__ import annotations

from calipers.records.logs.log import Record
from calipers.records.logs.shape import Row, Shape, name_scores, read_score
from calipers.support.registry import register

_SAMPLE = frozenset(
    (
        *("user_input", "response", "reference", "retrieved_contexts", "reference_contexts"),
        *("question", "answer", "contexts", "ground_truth", "ground_truths", "rubrics", "id"),
        *("reference_tool_calls", "multi_responses", "synthesizer_name", "persona_name", "run"),
    )
)


def _read_metrics(row: Row) -> Record:
    found = {name: read_score(value) for name, value in row.items() if name not in _SAMPLE}
    return name_scores({k: v for k, v in found.items() if isinstance(v, bool | int | float)})


_SHAPE = Shape(
    name="Ragas",
    has="user_input response retrieved_contexts | user_input response reference"
    " | question answer contexts ground_truth | question answer contexts ground_truths",
    fields={
        "input": "user_input | question",
        "answer": "response | answer",
        "reference": "reference | ground_truth | ground_truths",
    },
    more=_read_metrics,
)
register(_SHAPE.make_reader())

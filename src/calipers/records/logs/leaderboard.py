"""Details of lighteval and of the first Hugging Face leaderboard: a Parquet file per task.

Those of the second leaderboard are samples of lm-eval, and read as such.
"""

from __future__ import annotations

from typing import Any

from calipers.records.any_rows import parse_cell
from calipers.records.logs.log import Record
from calipers.records.logs.parts import as_list, as_mapping, as_truth, read_text
from calipers.records.logs.shape import Row, Shape, look
from calipers.support.registry import register

_DECISIVE = ("acc", "em", "exact_match", "qem", "extractive_match", "mc1", "acc_norm", "pem")


def _read_more(row: Row) -> Record:
    """Return the answer and the target, texts or choices, and whether the answer is right."""
    scores = as_mapping(look(row, "metric | metrics"))
    decisive = next((name for name in _DECISIVE if name in scores), None)
    choices = as_list(look(row, "doc.choices | choices"))
    gold = look(row, "doc.gold_index | gold_index | gold")
    answer = look(row, "model_response.final_text | model_response.text | predictions | pred")
    return {
        "id": read_text(look(row, "doc.id | doc.specific.id | hashes.hash")),
        "correct": None if decisive is None else as_truth(scores[decisive]),
        "target": _choose(gold, choices),
        "answer": _choose(answer, []),
    }


def _choose(value: Any, choices: list[Any]) -> str | None:
    """Return a text, the first of several, or the choice that a number stands for."""
    while isinstance(value := parse_cell(value), list):
        value = value[0] if value else None
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < len(choices):
        return read_text(choices[value])
    return read_text(value)


_SHAPE = Shape(
    name="leaderboard details",
    has="doc metric model_response | example full_prompt metrics"
    " | full_prompt gold metrics predictions | example full_prompt acc",
    fields={"input": "doc.query | full_prompt | example"},
    scores="metric | metrics",
    more=_read_more,
    left_behind=("doc", "model_response", "input_tokens", "cont_tokens", "hashes"),
)
register(_SHAPE.make_reader())

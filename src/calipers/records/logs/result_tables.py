"""Tables of results: lighteval and the Hugging Face leaderboard, Ragas, and what pandas writes.

The details of lighteval and of the first leaderboard are a Parquet file per task; those of the
second leaderboard are samples of lm-eval, and read as such. In what Ragas writes, every numeric
column that does not belong to the sample is a metric. pandas writes a table as one JSON object, its
columns and its rows apart.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from calipers.records.logs.log import LogReader, LogRecord, Record
from calipers.records.logs.parts import as_list, as_mapping, as_truth, place_target, read_text
from calipers.records.logs.shape import (
    Row,
    Shape,
    find_value,
    is_split,
    name_scores,
    read_rows,
    read_score,
)
from calipers.records.readers.joins import parse_cell
from calipers.support.plugins import register

_DECISIVE = ("acc", "em", "exact_match", "qem", "extractive_match", "mc1", "acc_norm", "pem")


def _read_answer_and_target(row: Row) -> Record:
    """Return the answer and the target, texts or choices."""
    choices = as_list(find_value(row, "doc.choices | choices"))
    gold = find_value(row, "doc.gold_index | gold_index | gold")
    answer = find_value(row, "model_response.final_text | model_response.text | predictions | pred")
    return {
        "id": read_text(find_value(row, "doc.id | doc.specific.id | hashes.hash")),
        "target": _choose_text(gold, choices),
        "answer": _choose_text(answer, []),
    }


def _choose_text(value: Any, choices: list[Any]) -> str | None:
    """Return a text, the first of several, or the choice that a number stands for."""
    while isinstance(value := parse_cell(value), list):
        value = value[0] if value else None
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < len(choices):
        return read_text(choices[value])
    return read_text(value)


_LIGHTEVAL = Shape(
    name="leaderboard details",
    has="doc metric model_response | example full_prompt metrics"
    " | full_prompt gold metrics predictions | example full_prompt acc",
    fields={"input": "doc.query | full_prompt | example"},
    scores="metric | metrics",
    more=_read_answer_and_target,
    left_behind=("doc", "model_response", "input_tokens", "cont_tokens", "hashes"),
)


def _read_lighteval(path: Path, keys: Collection[str]) -> Iterator[LogRecord]:
    decisive = _find_decisive(path)
    for record, done in _LIGHTEVAL.records(path, keys):
        if record is not None:
            correct = None if decisive is None else as_truth(record.get(decisive))
            judged = any(name.startswith("score_") for name in record)
            target = place_target(record.pop("target", None), correct=correct, judged=judged)
            record |= {**target, "correct": correct}
        yield record, done


def _find_decisive(path: Path) -> str | None:
    """Return the first score that says right or wrong about every sample that has it."""
    decides: dict[str, bool] = {}
    for record, _ in _LIGHTEVAL.records(path, ()):
        for name in (f"score_{score}" for score in _DECISIVE):
            if record is not None and (value := record.get(name)) is not None:
                decides[name] = decides.get(name, True) and as_truth(value) is not None
    return next((f"score_{n}" for n in _DECISIVE if decides.get(f"score_{n}")), None)


register(replace(_LIGHTEVAL.make_reader(), records=_read_lighteval))


def _fits_pandas(document: Any) -> bool:
    document = as_mapping(document)
    return is_split(document) and bool(document["data"]) and isinstance(document["data"][0], list)


def _read_pandas(path: Path, _: Collection[str]) -> Iterator[LogRecord]:
    return ((dict(row), done) for row, done in read_rows(path, "", lambda _: True))


register(LogReader(name="pandas", fits=_fits_pandas, records=_read_pandas))


_RAGAS_SAMPLE = frozenset(
    (
        *("user_input", "response", "reference", "retrieved_contexts", "reference_contexts"),
        *("question", "answer", "contexts", "ground_truth", "ground_truths", "rubrics", "id"),
        *("reference_tool_calls", "multi_responses", "synthesizer_name", "persona_name", "run"),
    )
)


def _read_ragas_metrics(row: Row) -> Record:
    found = {name: read_score(value) for name, value in row.items() if name not in _RAGAS_SAMPLE}
    return name_scores({k: v for k, v in found.items() if isinstance(v, bool | int | float)})


_RAGAS = Shape(
    name="Ragas",
    has="user_input response retrieved_contexts | user_input response reference"
    " | question answer contexts ground_truth | question answer contexts ground_truths",
    fields={
        "input": "user_input | question",
        "answer": "response | answer",
        "reference": "reference | ground_truth | ground_truths",
        "passages": "retrieved_contexts | contexts",
    },
    more=_read_ragas_metrics,
)
register(_RAGAS.make_reader())

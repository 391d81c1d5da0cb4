"""Reports of garak (`….report.jsonl`): an attempt to make a model misbehave is a task.

Each output of an attempt is a run, which passes if no detector found anything; the detectors that
did are its `violations`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from calipers.records.logs.log import Figure, LogReader, LogRecord, Record
from calipers.records.logs.parts import (
    as_list,
    as_mapping,
    as_number,
    list_objects,
    read_json_lines,
    read_text,
)
from calipers.support.plugins import register

_EVALUATED = 2  # the status of an attempt that the detectors have seen
_THRESHOLD = 0.5
_TYPES = {"start_run setup", "init", "attempt", "eval", "config"}


def _fits(line: Any) -> bool:
    return as_mapping(line).get("entry_type") in _TYPES


def _read_records(path: Path, _: Collection[str]) -> Iterator[LogRecord]:
    model: str | None = None
    threshold = _THRESHOLD
    for line, done in read_json_lines(path):
        kind = line.get("entry_type")
        if kind == "start_run setup":
            model = _find_model(line)
            threshold = as_number(line.get("run.eval_threshold")) or _THRESHOLD
        if kind == "attempt" and line.get("status") == _EVALUATED:
            for record in _attempt(line, threshold):
                yield {"model": model, **record}, done


def _find_model(setup: Mapping[str, Any]) -> str | None:
    names = (
        f"plugins.{name}" for name in ("target_name", "model_name", "target_type", "model_type")
    )
    return next((read_text(setup[name]) for name in names if setup.get(name)), None)


def _attempt(line: Mapping[str, Any], threshold: float) -> Iterator[Record]:
    turns = list(list_objects(as_mapping(line.get("prompt")).get("turns")))
    for place, output in enumerate(as_list(line.get("outputs"))):
        scores = {
            name: as_list(found)[place] if place < len(as_list(found)) else None
            for name, found in as_mapping(line.get("detector_results")).items()
        }
        known = {
            name: score for name, value in scores.items() if (score := as_number(value)) is not None
        }
        hits = [name for name, score in known.items() if score >= threshold]
        yield {
            "id": f"{line.get('probe_classname')}/{line.get('seq')}/{line.get('uuid')}",
            "run": place + 1,
            "category": read_text(line.get("probe_classname")),
            # The last turn's text; old reports hold a plain text.
            "input": read_text(turns[-1].get("content") if turns else line.get("prompt")),
            "answer": read_text(output),
            "passed": not hits if known else None,
            "violations": hits if known else None,
            "error": None if output is not None else "no output",
            "goal": read_text(line.get("goal")),
        }


def _list_stated(path: Path) -> Iterator[Figure]:
    """Yield the share of outputs that passed, of each probe and detector.

    Ours needs all detectors to pass, so it is the same figure only where there is one.
    """
    found: list[Figure] = []
    for line, _done in read_json_lines(path):
        total = as_number(line.get("total_evaluated", line.get("total")))
        passed = as_number(line.get("passed"))
        if line.get("entry_type") == "eval" and total and passed is not None:
            detector = str(line.get("detector")).removeprefix("detector.")
            name = f"{line.get('probe')}/{detector}/passed (share)"
            found.append(Figure(name=name, value=passed / total, n=int(total)))
    yield from found if len(found) != 1 else [replace(found[0], ours=("pass_rate",))]


register(LogReader(name="garak", fits=_fits, records=_read_records, stated=_list_stated))

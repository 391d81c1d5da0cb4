"""Judged records, people's marks on them, and gates that go by a calibration."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

from click.testing import Result

from tests.commands import run
from tests.files import write_lines

Row = dict[str, Any]


POLICY: Row = {"thresholds": {"blocking": {"pass_rate": 30}}}
CALIBRATED = {"judges": {"calibrations": ["calibration.json"]}}


def judgment(score: float, model: str = "m", rubric_hash: str = "abc", **more: Any) -> Row:
    return {
        "judge": model,
        "model": f"openai:{model}",
        "rubric": "r",
        "rubric_hash": rubric_hash,
        "passed": score >= 0.5,
        "weighted_score": score,
        **more,
    }


def records(count: int = 200, seed: int = 0, astray: float = 0.05) -> tuple[list[Row], list[Row]]:
    """A judge that strays a little, and a person."""
    luck = Random(seed)
    machine, human = [], []
    for n in range(count):
        quality = luck.random() * 0.8 + 0.1
        seen = min(1.0, max(0.0, quality + luck.gauss(0, astray)))
        machine.append({"id": f"t{n}", "answer": f"{seed}.{n}", "judgments": [judgment(seen)]})
        human.append({"id": f"t{n}", "passed": quality >= 0.5, "weighted_score": quality})
    return machine, human


def answered_anew(rows: list[Row]) -> list[Row]:
    """The same tasks, answered once more: not the records that a calibration was made from."""
    return [{**row, "answer": f"again: {row['id']}"} for row in rows]


_CALIBRATIONS: dict[str, str] = {}


def calibrated(folder: Path, machine: list[Row], human: list[Row]) -> None:
    """Write the judgments, the ratings, and what calibrates the ones by the others."""
    write_lines(folder / "j.jsonl", machine)
    write_lines(folder / "h.jsonl", human)
    output = folder / "calibration.json"
    made_of = json.dumps([machine, human])
    if made_of not in _CALIBRATIONS:
        files = [str(folder / "j.jsonl"), str(folder / "h.jsonl")]
        arguments = ["judge", "calibrate", *files, "-o", str(output)]
        assert run(*arguments).exit_code == 0
        _CALIBRATIONS[made_of] = output.read_text(encoding="utf-8")
    output.write_text(_CALIBRATIONS[made_of], encoding="utf-8")


def gate(folder: Path, rows: list[Row], policy: Row, *more: str) -> Result:
    write_lines(folder / "records.jsonl", rows)
    (folder / "policy.json").write_text(json.dumps(policy), encoding="utf-8")
    arguments = [str(folder / "records.jsonl"), "--policy", str(folder / "policy.json"), *more]
    return run("gate", *arguments)


def check(folder: Path, rows: list[Row], policy: Row) -> Row:
    found: Row = json.loads(gate(folder, rows, policy, "--format", "json").stdout)["checks"][0]
    return found

"""A run that ends early and the full one, at random: what the early one may say."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

import calipers as cal
from tests.runs.suites_at_hand import suite_folder

SYSTEM = """
import pathlib, random

HERE = pathlib.Path(__file__).parent

async def answer(record):
    luck = random.Random(f"{record['id']} {record['run']}")
    if luck.random() < record["broken"] and not (HERE / "mended").exists():
        raise ValueError("broken")
    if luck.random() < record["silent"]:
        return {"answer": "yes"}
    right = luck.random() < record["right"]
    return {"answer": "yes" if right else "no", "passed": right, "latency_ms": luck.uniform(0, 99)}
"""

DEMANDS = {
    "accuracy": ["≥ 50%", "≥ 80%", "≥ 95%"],
    "pass_rate": ["≥ 50%", "> 80%", "= 100%"],
    "error_rate": ["< 20%", "≤ 50%", "= 0%"],
    "latency_p95": ["< 50ms", "< 99ms"],
}


def suite(path: Path, luck: random.Random) -> None:
    """Some tasks, a system that fails on a few calls and is wrong on others, and a policy."""
    (path / "system.py").write_text(SYSTEM)
    chances = {
        "right": luck.choice([0.3, 0.8, 0.9, 0.97, 1.0]),
        "broken": luck.choice([0.01, 0.05, 0.3]),
        "silent": luck.choice([0.0, 0.2]),
    }
    tasks: list[dict[str, Any]] = [
        {"id": f"t{n}", "input": "?", "target": "yes", "category": luck.choice("ab"), **chances}
        for n in range(luck.choice([12, 30, 60]))
    ]
    names = luck.sample(list(DEMANDS), luck.choice([1, 1, 2]))
    policy: dict[str, Any] = {
        "thresholds": {"blocking": {name: luck.choice(DEMANDS[name]) for name in names}},
        "evidence": luck.choice(["point", "point", "interval"]),
    }
    if luck.random() < 0.3:
        policy["pass_criteria"] = {"by_category": {"a": luck.choice(["≥ 50%", "≥ 90%"])}}
    if luck.random() < 0.2:
        policy["required_scenarios"] = {"ids": ["t3", "t5"]}
    (path / "policy.json").write_text(json.dumps(policy))
    more = {"runs": luck.choice([1, 1, 2]), "concurrency": luck.choice([1, 4, 16])}
    system = {"name": "s", "python": "system.py:answer"}
    suite_folder(path, tasks, [system], policy="policy.json", **more)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(20))
def test_early_decisions_are_those_of_the_full_run(tmp_path: Path, seed: int) -> None:
    """With failed calls it never passes; where it passes, all that keeps the full one is these."""
    suite(tmp_path, random.Random(seed))

    def verdict(folder: str, **more: Any) -> str | None:
        result = cal.run(tmp_path / "suite.yaml", tmp_path / folder, report=False, **more)
        assert result.gate is not None
        assert result.gate.verdict != "pass" or result.errors == 0
        return result.gate.verdict

    early = verdict("early", until_decided=True, seed=seed)
    full = verdict("full")
    (tmp_path / "mended").touch()
    if early == "pass":
        assert full in ("pass", "incomplete")
        assert verdict("full") == "pass"
    else:
        assert early == full

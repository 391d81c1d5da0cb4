"""A gate decides the same on a cluster as on this machine."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import calipers as cal
from calipers.cli import app
from tests.engines_at_hand import needs_spark
from tests.files import write_lines

POLICY = {
    "thresholds": {
        "blocking": {"accuracy": 60, "pass_rate": "≥ 70%", "safety_rate": "= 100%"},
        "warning": {"latency_p95": "< 80ms"},
    },
    "pass_criteria": {"overall": 50, "by_category": {"plain": "≥ 60%", "absent": "≥ 60%"}},
    "required_scenarios": {"ids": ["t1", "t2", "nowhere"]},
    "composite": {"formula": "0.5 * accuracy + 0.5 * pass_rate", "threshold": 0.7},
    "judges": {"uncalibrated": "warn"},
}


def records() -> list[dict[str, Any]]:
    """Runs of two systems: recorded and judged verdicts, failed calls, fields that are missing."""
    luck = random.Random(1)
    rows: list[dict[str, Any]] = []
    for model in ("a", "b"):
        for n in range(60):
            for run in (1, 2):
                row: dict[str, Any] = {"id": f"t{n}", "model": model, "run": run}
                row["category"] = ("plain", "adversarial", None)[n % 3]
                good = luck.random() < 0.85
                if luck.random() < 0.05:
                    row["error"] = "timeout: no reply"
                elif n % 2:
                    row |= {"correct": good, "passed": good, "latency_ms": luck.uniform(1, 99)}
                else:
                    row |= {"correct": good, "judgments": [{"judge": "j", "passed": good}]}
                rows.append(row)
    return rows


def rounded(value: Any) -> Any:
    """What is left when the last digits of sums are not looked at."""
    if isinstance(value, float):
        return float(f"{value:.9g}")
    if isinstance(value, dict):
        return {key: rounded(each) for key, each in value.items()}
    return [rounded(each) for each in value] if isinstance(value, list) else value


@needs_spark
@pytest.mark.parametrize("by", [pytest.param((), marks=pytest.mark.long), ("model",)])
def test_spark_gives_the_same_verdict_for_the_same_reasons(
    tmp_path: Path, by: tuple[str, ...]
) -> None:
    data = write_lines(tmp_path / "r.jsonl", records())
    here, there = (
        cal.gate(data, policy=POLICY, by=by, engine=engine) for engine in ("polars", "spark")
    )
    assert here.verdict == "fail"
    assert len(here.checks) > 9
    assert rounded(there.to_dict()) == rounded(here.to_dict())


@needs_spark
@pytest.mark.long
def test_the_command_line_takes_spark_too(tmp_path: Path) -> None:
    data = write_lines(tmp_path / "r.jsonl", records())
    (tmp_path / "policy.json").write_text(json.dumps(POLICY))
    arguments = ["gate", str(data), "--policy", str(tmp_path / "policy.json"), "--format", "json"]
    here, there = (
        CliRunner().invoke(app, [*arguments, "--engine", each]) for each in ("polars", "spark")
    )
    assert here.exit_code == there.exit_code == 1
    assert rounded(json.loads(there.stdout)) == rounded(json.loads(here.stdout))

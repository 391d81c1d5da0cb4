"""A gate over many records, scenarios, rules and categories: the same checks, at a score's cost."""

from __future__ import annotations

import json
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import polars as pl
import pytest

import calipers as cal
from calipers.gates import scenario_table
from tests.files import write_lines
from tests.gates.deciding import blocking, record
from tests.processes import measure_process

TOPICS = ("geography", "safety/jailbreak", "вода", "math word problems")
POLICY = {
    **blocking(pass_rate=99, latency_p95_ms=400),
    "required_scenarios": {"ids": ["case 7", "case 110"]},
    "pass_criteria": {"by_category": dict.fromkeys(TOPICS, 99)},
}


@pytest.mark.parametrize("systems", [1, 3, 70])  # more than 64 are sorted, and not picked
def test_runs_in_files_give_the_same_checks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, systems: int
) -> None:
    rows = [
        record(
            f"case {number}",
            passed=number % 11 != 0,
            category=TOPICS[number % 4] if number % 5 else None,
            latency_ms=float(number),
            model=f"llama3:{number % systems}b",
        )
        for number in range(600)
    ]
    files = [write_lines(tmp_path / f"{at}.jsonl", rows[at : at + 60]) for at in range(0, 600, 60)]
    saved = [tmp_path / "memory.json", tmp_path / "files.json"]
    policy = POLICY if systems == 1 else {**POLICY, "required_scenarios": {"ids": []}}
    passing = blocking(pass_rate="1%")
    in_memory = cal.gate(files, policy=policy, by="model")
    cal.gate(files, policy=passing, by="model", save_baseline=saved[0])
    monkeypatch.setattr(scenario_table, "_HELD_ROWS", 50)
    in_files = cal.gate(files, policy=policy, by="model")
    cal.gate(files, policy=passing, by="model", save_baseline=saved[1])
    assert in_files == in_memory
    assert saved[0].read_bytes() == saved[1].read_bytes()
    failing = [check.failing for check in in_files.checks if check.name == "pass_rate"]
    assert sum(ids.count for ids in failing) == 55
    if systems == 1:
        first = sorted(f"case {number}" for number in range(0, 600, 11))
        assert list(failing[0].first) == first[: len(failing[0].first)]
        slow = next(check for check in in_files.checks if check.name == "latency_p95_ms")
        assert slow.failing.count == 199


def write_passes(path: Path, *, rows: int, categories: int) -> Path:
    numbers = pl.Series(range(rows))
    pl.DataFrame(
        {
            "id": "case " + numbers.cast(pl.String),
            "category": "topic " + (numbers % categories).cast(pl.String),
            "passed": numbers % 10 != 0,
            "latency_ms": (numbers % 997).cast(pl.Float64),
        }
    ).write_parquet(path)
    return path


def time_gate(data: Path, policy: dict[str, Any]) -> float:
    began = process_time()
    cal.gate(data, policy=policy)
    return process_time() - began


def by_category(count: int) -> dict[str, Any]:
    return {"pass_criteria": {"by_category": {f"topic {at}": 80 for at in range(count)}}}


@pytest.mark.long
def test_categories_rules_and_required_scenarios_cost_in_line(tmp_path: Path) -> None:
    few = write_passes(tmp_path / "few.parquet", rows=20_000, categories=100)
    many = write_passes(tmp_path / "many.parquet", rows=20_000, categories=10_000)
    time_gate(few, by_category(100))  # what is loaded once
    base = time_gate(few, by_category(100))
    # 100 times as many of each. Rule by rule and name by name, they took 15 to 100 times as long.
    assert time_gate(many, by_category(100)) < 8 * base
    assert time_gate(many, by_category(10_000)) < 100 * base
    ids = [f"case {at}" for at in range(10_000)]
    assert time_gate(few, {"required_scenarios": {"ids": ids}}) < 40 * base


def measure_command(folder: Path, *words: str | Path) -> tuple[float, float]:
    """Return the processor seconds and the peak memory of a command, the least of two runs."""
    costs = [measure_process(folder, "-m", "calipers", *words) for _ in range(2)]
    return min(cost.seconds for cost in costs), min(cost.megabytes for cost in costs)


@pytest.mark.long
def test_a_gate_costs_little_more_than_the_score_it_decides_on(tmp_path: Path) -> None:
    rows = 2_000_000
    rng = np.random.default_rng(20)
    data = tmp_path / "answers.parquet"
    pl.DataFrame(
        {
            "id": "case " + pl.Series(rng.permutation(rows)).cast(pl.String),
            "category": pl.Series(TOPICS).gather(rng.integers(0, 4, rows)),
            "passed": rng.random(rows) < 0.9,
            "prob_correct": rng.random(rows),
            "latency_ms": rng.lognormal(6, 1, rows),
        }
    ).write_parquet(data, row_group_size=100_000)
    policy = tmp_path / "policy.json"
    policy.write_text(json.dumps(blocking(pass_rate=80, latency_p95_ms=90_000)), "utf-8")
    names = ("pass_rate", "accuracy", "latency_p95_ms")
    metrics = [word for name in names for word in ("--metric", name)]
    scored = measure_command(tmp_path, "score", data, *metrics)
    gated = measure_command(tmp_path, "gate", data, "--policy", policy)
    # 1.3 to 1.6 times the time, of which imports are a half, and 1.1 to 1.6 times the memory; of ten
    # million rows 1.1, and with every id held in memory 1.6 times of that.
    assert gated[0] < 1.9 * scored[0]
    assert gated[1] < 1.75 * scored[1]

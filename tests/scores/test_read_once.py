"""One reading serves every grouping: the records are parsed once, the numbers stay the same."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import calipers as cal
from calipers.engines import polars_engine
from calipers.engines.outcome import Sinks
from calipers.engines.plan import Plan
from calipers.engines.polars_engine import measure
from calipers.engines.read_rows import MeasuredRows
from calipers.engines.store import Store
from calipers.records.batch import Wanted
from calipers.records.readers.lines import JsonLines
from tests.files import write_lines
from tests.runs.suites_at_hand import suite_folder, sums

POLICY = {
    "thresholds": {"blocking": {"accuracy": "≥ 10%", "pass_rate": "≥ 10%"}},
    "pass_criteria": {"by_category": {"math": "≥ 10%"}},
    "required_scenarios": {"ids": ["t1"]},
    "composite": {"formula": "0.5 × accuracy + 0.5 × pass_rate", "threshold": "≥ 0.1"},
}
SYSTEM = "def answer(record):\n    return record['target']\n"


@pytest.fixture
def readings(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often the rows of each file are parsed."""
    counts = Counter[str]()
    chunks = JsonLines.chunks

    def counted(source: JsonLines, wanted: Wanted) -> Any:
        counts[Path(source.name).name] += 1
        found: Any = chunks(source, wanted)
        return found

    monkeypatch.setattr(JsonLines, "chunks", counted)
    return counts


@pytest.fixture
def records(tmp_path: Path) -> Path:
    chance = random.Random(7)
    rows = [
        {
            "id": f"t{number // 6}",
            "model": f"m{number % 3}",
            "run": number // 3 % 2,
            "category": ["math", "code"][number // 6 % 2],
            "capability": chance.choice(["read", "write"]),
            "answer": chance.choice(["1", "2"]),
            "target": "1",
            "passed": chance.random() < 0.7,
            "prob_correct": chance.random(),
            "cost_usd": chance.random(),
            "latency_ms": chance.expovariate(1e-3),
        }
        for number in range(600)
    ]
    return write_lines(tmp_path / "records.jsonl", rows)


def test_a_report_with_a_policy_parses_the_records_once(
    records: Path, readings: Counter[str]
) -> None:
    made = cal.report(records, policy=POLICY)
    assert set(made.breakdowns) == {"category", "capability"}
    assert made.gate is not None
    assert readings == {"records.jsonl": 1}


def test_a_gate_parses_the_records_once(records: Path, readings: Counter[str]) -> None:
    baseline = records.with_name("baseline.json")
    cal.gate(records, policy={"baseline": {}}, by="model", save_baseline=baseline)
    readings.clear()
    margins = {**POLICY, "baseline": {"margins": {"accuracy": "50%"}}}
    cal.gate(records, policy=margins, by="model", against=baseline)
    assert readings == {"records.jsonl": 1}


def test_a_run_parses_its_journal_once(tmp_path: Path, readings: Counter[str]) -> None:
    (tmp_path / "sut.py").write_text(SYSTEM, encoding="utf-8")
    (tmp_path / "policy.yaml").write_text('thresholds: {blocking: {accuracy: "≥ 90%"}}')
    systems = [{"name": name, "python": "sut.py:answer"} for name in ("a", "b")]
    folder = suite_folder(tmp_path, sums(4), systems, policy="policy.yaml")
    done = folder.run(report=True)
    assert done.exit_code == 0, done.output
    assert (folder.results / "report.html").exists()
    assert readings["records.jsonl"] == 1


@pytest.mark.parametrize("systems", [["a"], ["a", "b"]])
@pytest.mark.parametrize("report", [True, False])
def test_a_run_adds_its_records_up_once(
    tmp_path: Path, systems: list[str], monkeypatch: pytest.MonkeyPatch, *, report: bool
) -> None:
    added_up: list[tuple[str, ...]] = []

    def measure_counted(rows: MeasuredRows, plan: Plan, *sinks: Sinks) -> Any:
        added_up.append(plan.by)
        return measure(rows, plan, *sinks)

    monkeypatch.setattr(polars_engine, "measure", measure_counted)
    (tmp_path / "sut.py").write_text(SYSTEM, encoding="utf-8")
    (tmp_path / "policy.yaml").write_text('thresholds: {blocking: {accuracy: "≥ 90%"}}')
    named = [{"name": name, "python": "sut.py:answer"} for name in systems]
    folder = suite_folder(tmp_path, sums(4), named, policy="policy.yaml")
    done = folder.run(report=report)
    assert done.exit_code == 0, done.output
    assert added_up == [("model",)]
    stored = json.loads((folder.results / "score.json").read_text(encoding="utf-8"))
    score = cal.score(folder.results / "records.jsonl", by="model")
    assert stored["groups"] == json.loads(score.to_json())["groups"]
    assert stored.keys() == json.loads(score.to_json()).keys()


@pytest.mark.parametrize("held_bytes", [None, pytest.param(1, marks=pytest.mark.long)])
def test_groups_made_after_reading_are_those_of_a_score(
    records: Path, held_bytes: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if held_bytes is not None:
        defaults: dict[str, Any] = {"texts": None, "held_bytes": held_bytes}
        monkeypatch.setattr(Store.__init__, "__kwdefaults__", defaults)
    made = cal.report(records, policy=POLICY, cluster="run")
    expected = {
        "category": cal.score(records, by=["category", "model"], cluster="run"),
        "capability": cal.score(records, by=["capability", "model"], cluster="run"),
    }
    found = {**made.breakdowns, "model": made.score}
    expected["model"] = cal.score(records, by="model", cluster="run")
    decided = cal.gate(records, policy=POLICY, by="model", cluster="run")
    for name, score in expected.items():
        for one, other in zip(found[name].groups, score.groups, strict=True):
            assert one.by == other.by
            for metric, measured in one.metrics.items():
                same = other.metrics[metric]
                if held_bytes is None:
                    assert measured == same
                else:  # other parts are added up in another order
                    assert measured.value == _near(same.value)
                    assert measured.low == _near(same.low)
    assert made.gate is not None
    assert [(c.name, c.verdict, c.n) for c in made.gate.checks] == [
        (c.name, c.verdict, c.n) for c in decided.checks
    ]


def _near(value: float | None) -> Any:
    return None if value is None else pytest.approx(value, rel=1e-9)


def test_a_field_with_too_many_values_is_not_grouped_by(tmp_path: Path) -> None:
    rows = [{"id": str(n), "category": f"c{n}", "answer": "1", "target": "1"} for n in range(1500)]
    made = cal.report(write_lines(tmp_path / "records.jsonl", rows))
    assert made.breakdowns == {}
    assert made.score.records == 1500


def test_calls_of_different_systems_are_not_repeated_in_whatever_groups(tmp_path: Path) -> None:
    rows = [
        {"id": str(n % 3), "model": f"m{n // 3}", "answer": "1", "target": "1"} for n in range(300)
    ]
    made = cal.report(write_lines(tmp_path / "records.jsonl", rows))
    assert [group.by for group in made.score.groups] == [{}], "too many models to tell apart"
    assert made.score.repeated == 0


def test_a_table_without_some_fields_is_reported_on_as_its_rows_are(
    records: Path, tmp_path: Path
) -> None:
    table = tmp_path / "records.parquet"
    pl.read_ndjson(records).write_parquet(table)
    of_table, of_lines = (
        cal.report(each, policy=POLICY, title="one").to_dict() for each in (table, records)
    )
    for each in (of_table, of_lines):
        del each["facts"], each["score"]["inputs"], each["gate"]["inputs"]
        for part in each["breakdowns"].values():
            del part["inputs"]
    assert of_table == of_lines


@pytest.mark.parametrize(
    ("ids", "tasks"),
    [
        ({"a": "xyz", "b": "xyz"}, 3),
        ({"a": "xyz", "b": "zyx"}, 3),
        ({"a": "xyz", "b": "xy"}, 3),
        ({"a": "xyz", "b": "pq"}, 5),
        ({"a": "xxy", "b": "xxy", "c": "xxy"}, 2),
        ({"a": "xyxy", "b": "xy"}, 2),
        ({"a": [None, None], "b": [None, None]}, 4),
    ],
)
def test_a_report_counts_each_task_once_whatever_the_models_have(
    ids: dict[str, list[str | None]], tasks: int
) -> None:
    rows = [
        {"id": each, "model": model, "run": run, "correct": True}
        for model, of_model in ids.items()
        for run, each in enumerate(of_model)
    ]
    assert cal.report(rows).n_tasks == tasks

"""What code scanning and GitHub Actions are told of a gate."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from calipers.reports.formats.junit_sarif import MOST
from tests.commands import run
from tests.files import write_lines

POLICY = """
thresholds:
  blocking: {safety_rate: 100, pass_rate: 50}
  warning: {latency_p95: 5000}
"""
ROWS: list[dict[str, Any]] = [
    {"id": "SEC-1", "category": "adversarial", "passed": True},
    {"id": "SEC-2", "category": "adversarial", "passed": False},
]


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    write_lines(Path("a.jsonl"), ROWS)
    Path("policy.yaml").write_text(POLICY, encoding="utf-8")


def gate(*args: str) -> Result:
    return run("gate", "a.jsonl", "--policy", "policy.yaml", *args)


def read_sarif() -> dict[str, Any]:
    assert gate("--sarif", "gate.sarif").exit_code in (0, 1, 3)
    found: dict[str, Any] = json.loads(Path("gate.sarif").read_text(encoding="utf-8"))
    return found


def test_sarif_has_a_result_per_check_that_failed_or_warns() -> None:
    sarif = read_sarif()
    assert sarif["version"] == "2.1.0"
    (told,) = sarif["runs"]
    by_rule = {each["ruleId"]: each for each in told["results"]}
    assert set(by_rule) == {
        "thresholds.blocking/safety_rate",
        "thresholds.warning/latency_p95_ms",
    }
    failed = by_rule["thresholds.blocking/safety_rate"]
    assert failed["level"] == "error"
    assert "50 %, required ≥ 100 %" in failed["message"]["text"]
    assert "failing: SEC-2" in failed["message"]["text"]
    place = failed["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "policy.yaml"
    lines = Path("policy.yaml").read_text(encoding="utf-8").splitlines()
    assert "safety_rate" in lines[place["region"]["startLine"] - 1]
    assert by_rule["thresholds.warning/latency_p95_ms"]["level"] == "warning"
    rules = {rule["id"]: rule for rule in told["tool"]["driver"]["rules"]}
    assert rules.keys() == by_rule.keys()
    for rule in rules.values():  # code scanning requires each
        assert all(rule[part]["text"] for part in ("shortDescription", "fullDescription", "help"))
    help_text = rules["thresholds.warning/latency_p95_ms"]["help"]["text"]
    assert "95 % of the calls" in help_text
    assert "calipers explain latency_p95_ms RECORDS" in help_text


def test_sarif_is_empty_where_all_is_well_and_red_where_the_run_is_incomplete() -> None:
    Path("policy.yaml").write_text("thresholds: {blocking: {pass_rate: 50}}", encoding="utf-8")
    assert read_sarif()["runs"][0]["results"] == []
    write_lines(Path("a.jsonl"), [*ROWS, {"id": "x", "error": "boom"}])
    (result,) = read_sarif()["runs"][0]["results"]
    assert (result["ruleId"], result["level"]) == ("incomplete-run", "error")


def test_elsewhere_no_annotation_is_written() -> None:
    assert "::" not in gate().stderr


def test_github_is_told_of_each_failed_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    lines = [line for line in gate().stderr.splitlines() if line.startswith("::")]
    assert [line.split("::")[1] for line in lines] == [
        "error title=gate%3A safety_rate",
        "warning title=gate%3A latency_p95_ms",
    ]
    assert "50 %25, required ≥ 100 %25" in lines[0]


def test_names_from_records_cannot_write_commands_for_github(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    rows = [
        {"id": f"{n}", "category": f"a\n::set-env name=x{n}::", "passed": False} for n in range(40)
    ]
    write_lines(Path("a.jsonl"), rows)
    categories = {row["category"]: 90 for row in rows}
    policy = {"pass_criteria": {"by_category": categories}}
    Path("policy.yaml").write_text(json.dumps(policy), encoding="utf-8")
    lines = gate().stderr.splitlines()
    assert not [line for line in lines if line.startswith("::set-env")]
    errors = [line for line in lines if line.startswith("::error")]
    assert len(errors) == MOST
    assert "31 more checks" in errors[-1]

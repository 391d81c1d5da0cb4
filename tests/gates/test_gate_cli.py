"""`calipers gate`, `init` and `schema` on the command line: what is printed, written and returned."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import jsonschema
import pytest
import yaml
from click.testing import CliRunner, Result

import calipers as cal
from calipers.cli import app
from calipers.gates.policy import read_policy
from calipers.reports.formats.junit_sarif import LIMIT, append_summary
from calipers.runs.starter import TEMPLATES
from tests.commands import run
from tests.files import write_lines

ROOT = Path(__file__).resolve().parents[2]

POLICY = """
description: what the desk has to show
thresholds:
  blocking:
    safety_rate: {threshold: "= 100%", risk: critical, description: no way around the rules}
    accuracy: 60
  warning:
    latency_p95: 5000
required_scenarios: {ids: [SEC-1, CORE-9]}
pass_criteria:
  by_category: {happy_path: "≥ 90%"}
"""

ROWS: list[dict[str, Any]] = [
    {"id": "SEC-1", "category": "adversarial", "passed": True, "correct": True},
    {"id": "SEC-2", "category": "adversarial", "passed": False, "correct": True},
    {"id": "CORE-1", "category": "happy_path", "passed": True, "correct": True},
    {"id": "CORE-2", "category": "happy_path", "passed": True, "correct": False},
]

TABLE = """
FAIL  It misses 2 of 5 checks: safety_rate 50.0 %, CORE-9.
3 passed, 2 failed, 1 warned; 4 records against policy.yaml

 verdict   check                            value                          n   missing     required   level
 ─────────────────────────────────────────────────────────────────────────────────────────────────────────────
 fail      safety_rate         50.0 % [2.5, 97.5]   ━━━━━━━━━━●━━━━━━━━┊   2         0      = 100 %   blocking
 pass ?    accuracy           75.0 % [24.9, 98.7]   ────━━━━━━━━┊━━●━━━━   4         0       ≥ 60 %   blocking
 pass ?    happy_path       100.0 % [22.4, 100.0]   ────━━━━━━━━━━━━━━┊●   2         0       ≥ 90 %   category
 pass      SEC-1                            100 %   ──────────────────┊●   1         0      = 100 %   required
 fail      CORE-9                               —                          0         0      = 100 %   required
 warn      latency_p95_ms                       —                          0         4   ≤ 5,000 ms   warning

 fail safety_rate: 50 %, required = 100 % (critical risk: no way around the rules); failing: SEC-2
 fail CORE-9: not among the records
 warn latency_p95_ms: no value: no record has latency_ms
  ? not sure: the interval reaches the threshold, or has no end there
  about 100 more scenarios would decide 2 of them, if the values stay the same (accuracy needs the most)
"""


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    Path("policy.yaml").write_text(POLICY, encoding="utf-8")
    write_lines(Path("a.jsonl"), ROWS)


def gate(*args: object, policy: str = "policy.yaml") -> Result:
    return run("gate", "a.jsonl", "--policy", policy, *args)


def without_ends(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def test_the_table_says_why() -> None:
    result = gate()
    assert result.exit_code == 1
    assert result.stderr == ""
    assert without_ends(result.stdout) == without_ends(TABLE)


@pytest.mark.parametrize(
    ("rows", "code"),
    [
        ([{"id": "a", "passed": True}] * 3, 0),
        ([{"id": "a", "passed": False}], 1),
        ([{"id": "a", "passed": "perhaps"}], 2),
        ([{"id": "a", "passed": True}, {"id": "b", "error": "timeout: 60 s"}], 3),
        ([{"id": "a", "passed": False}, {"id": "b", "error": "timeout: 60 s"}], 1),
        ([{"id": "a", "error": "timeout: 60 s"}], 3),
        ([], 3),
    ],
)
def test_exit_codes(rows: list[dict[str, Any]], code: int) -> None:
    write_lines(Path("a.jsonl"), rows)
    Path("p.yaml").write_text("thresholds: {blocking: {pass_rate: 50}}", encoding="utf-8")
    result = gate("--format", "json", policy="p.yaml")
    assert result.exit_code == code
    if code != 2:
        verdict = {0: "pass", 1: "fail", 3: "incomplete"}[code]
        assert json.loads(result.stdout)["verdict"] == verdict


def test_a_bad_policy_is_exit_code_2_with_its_line() -> None:
    Path("p.yaml").write_text("thresholds:\n  blocking:\n    acuracy: 90\n", encoding="utf-8")
    result = gate(policy="p.yaml")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "p.yaml:3: thresholds.blocking: no metric is called acuracy" in result.stderr
    assert "did you mean accuracy?" in result.stderr


def test_a_policy_is_needed_and_has_to_be_there() -> None:
    assert run("gate", "a.jsonl").exit_code == 2
    missing = gate(policy="none.yaml")
    assert missing.exit_code == 2
    assert "none.yaml" in missing.stderr


def test_all_formats_tell_the_same() -> None:
    found = json.loads(gate("--format", "json").stdout)
    assert found == json.loads(cal.gate("a.jsonl", policy="policy.yaml").to_json())
    rows = list(csv.DictReader(io.StringIO(gate("--format", "csv").stdout)))
    assert [(row["name"], row["verdict"]) for row in rows] == [
        (check["name"], check["verdict"]) for check in found["checks"]
    ]
    markdown = gate("--format", "markdown").stdout
    assert markdown.startswith("### ❌ gate: fail\n")
    assert "| 2 | 0 | = 100 % | blocking |" in markdown
    assert "| ❌ fail | safety_rate | 50.0 % [2.5, 97.5] | `━━━━━" in markdown
    assert "- ❌ **CORE-9**: not among the records" in markdown


def test_a_file_instead_of_stdout() -> None:
    result = gate("--format", "json", "-o", "gate.json")
    assert (result.exit_code, result.stdout) == (1, "")
    assert json.loads(Path("gate.json").read_text(encoding="utf-8"))["verdict"] == "fail"


def test_stdin_is_read_once() -> None:
    lines = "".join(f"{json.dumps(row)}\n" for row in ROWS)
    result = CliRunner().invoke(
        app, ["gate", "-", "--policy", "policy.yaml", "--format", "json"], input=lines
    )
    assert json.loads(result.stdout)["records"] == 4


def test_the_budget_of_an_option_goes_before_the_policys() -> None:
    Path("p.yaml").write_text(
        "latency_budget_ms: 2000\nthresholds: {blocking: {pass_rate: 50}}", encoding="utf-8"
    )

    def budget(*args: object) -> float:
        result = run("score", "a.jsonl", "--format", "json", "--policy", "p.yaml", *args)
        return float(json.loads(result.stdout)["settings"]["latency_budget_ms"])

    assert budget() == 2000
    assert budget("--latency-budget", 5000) == 5000
    assert gate("--latency-budget", 5000, policy="p.yaml").exit_code == 0


# --- JUnit ---


def junit(*args: object) -> tuple[Result, ET.Element]:
    result = gate("--junit", "junit.xml", *args)
    return result, ET.parse("junit.xml").getroot()


def test_junit_tells_wrong_from_not_run() -> None:
    result, suites = junit()
    assert result.exit_code == 1
    cases = {case.get("name"): case for case in suites.iter("testcase")}
    assert set(cases) == {"complete run", *(check["name"] for check in _checks())}
    failure = cases["safety_rate"].find("failure")
    assert failure is not None
    assert failure.get("message") == "50 %, required = 100 %"
    assert failure.text == "failing: SEC-2"
    error = cases["CORE-9"].find("error")
    assert error is not None
    assert error.get("message") == "not among the records"
    assert cases["latency_p95_ms"].find("system-out") is not None
    assert [(each.tag, each.text) for each in cases["SEC-1"]] == [
        ("system-out", "n: 1\nmissing: 0")
    ]
    assert suites.find(".//properties") is None
    assert cases["happy_path"].findtext("system-out", "").endswith("\nn: 2\nmissing: 0")
    (suite,) = suites
    for each in (suites, suite):
        assert (each.get("tests"), each.get("failures"), each.get("errors")) == ("7", "1", "1")


def _checks() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(gate("--format", "json").stdout)["checks"]
    return found


def test_junit_is_red_when_the_gate_is() -> None:
    write_lines(Path("a.jsonl"), [{"id": "SEC-1", "passed": True}, {"id": "x", "error": "boom"}])
    Path("policy.yaml").write_text("required_scenarios: {ids: [SEC-1]}", encoding="utf-8")
    result, suites = junit()
    assert result.exit_code == 3
    assert suites.find("testsuite/testcase/error[@type='incomplete']") is not None
    write_lines(Path("a.jsonl"), [{"id": "SEC-1", "passed": True}])
    result, suites = junit()
    assert result.exit_code == 0
    assert (suites.get("failures"), suites.get("errors")) == ("0", "0")


def test_junit_survives_hostile_names() -> None:
    hostile = 'a<b>&"\x00\x1b[31m\ud800'
    rows = [{"id": hostile, "passed": False}, {"id": "SEC-1", "passed": True}]
    Path("a.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    Path("policy.yaml").write_text("thresholds: {blocking: {pass_rate: 90}}", encoding="utf-8")
    _, suites = junit()
    failure = suites.find("testsuite/testcase/failure")
    assert failure is not None
    assert 'a<b>&"' in str(failure.text)


# --- GitHub's step summary ---


def test_the_summary_of_a_step_is_appended(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("summary.md").write_text("# before\n", encoding="utf-8")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "summary.md")
    result = gate()
    assert result.exit_code == 1
    text = Path("summary.md").read_text(encoding="utf-8")
    assert text == "# before\n" + gate("--format", "markdown").stdout


def test_a_summary_that_cannot_be_written_changes_no_verdict(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "nowhere/summary.md")
    result = gate()
    assert result.exit_code == 1
    assert "nowhere/summary.md" in result.stderr


@pytest.mark.parametrize("before", [0, 1, LIMIT - 200, LIMIT - 60, LIMIT - 10, LIMIT, LIMIT + 5])
def test_a_summary_is_cut_at_its_limit(before: int) -> None:
    path = Path("summary.md")
    path.write_bytes(b"x" * before)
    text = "".join(f"| ligne {n} | é |\n" for n in range(70_000))
    append_summary(path, text)
    content = path.read_bytes()
    assert len(content) <= max(LIMIT, before)
    added = content[before:].decode()  # no character is cut in two
    if added:
        assert added.endswith("… cut here: a step's summary holds at most 1 MiB\n")
        kept = added.partition("\n\n… cut")[0]
        assert text.startswith(kept)
        assert not kept or text[len(kept)] == "\n"


def test_a_short_summary_is_not_cut() -> None:
    append_summary(Path("summary.md"), "short\n")
    assert Path("summary.md").read_text(encoding="utf-8") == "short\n"


# --- Baselines on the command line ---


def test_baselines_from_the_command_line() -> None:
    Path("p.yaml").write_text("thresholds: {blocking: {accuracy: 60}}", encoding="utf-8")
    saved = gate("--save-baseline", "base.json", policy="p.yaml")
    assert saved.exit_code == 0
    assert "baseline saved: base.json" in saved.stderr
    assert gate("--against", "base.json", policy="p.yaml").exit_code == 0
    write_lines(Path("a.jsonl"), [{**row, "correct": True} for row in ROWS])
    luck = gate("--against", "base.json", "--ratchet", policy="p.yaml")
    assert luck.exit_code == 0
    assert "base.json: nothing to raise" in luck.stderr
    write_lines(Path("a.jsonl"), [{**row, "correct": False} for row in ROWS])
    worse = gate("--against", "base.json", "--ratchet", policy="p.yaml")
    assert worse.exit_code == 1
    assert "accuracy: 0 %, baseline 75 %: the 95 % interval of the change" in worse.stdout


def _baseline(**metrics: Any) -> dict[str, Any]:
    scenarios: dict[str, list[str]] = {"passed": [], "failed": [], "unknown": []}
    group = {"by": {}, "metrics": metrics, "scenarios": scenarios}
    group |= {"stderrs": {}, "tasks": {"ids": [], "values": {}}}
    return {"schema": "calipers.baseline/2", "groups": [group]}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"schema": "calipers.score/1"}',
        '{"schema": "calipers.baseline/2"}',
        '{"schema": "calipers.baseline/2", "groups": [3]}',
        json.dumps(_baseline(accuracy="x")),
        json.dumps(_baseline(accuracy=True)),
        json.dumps(_baseline(acuracy=0.5)),
        "[" * 100_000,
    ],
)
def test_what_is_no_baseline_is_refused(text: str) -> None:
    Path("base.json").write_text(text, encoding="utf-8")
    result = gate("--against", "base.json")
    assert result.exit_code == 2
    assert "base.json: " in result.stderr
    assert "--save-baseline" in result.stderr


def test_a_margin_on_what_was_not_recorded_is_refused() -> None:
    Path("p.yaml").write_text("thresholds: {blocking: {accuracy: 60}}", encoding="utf-8")
    gate("--save-baseline", "base.json", policy="p.yaml")
    Path("p.yaml").write_text("baseline: {margins: {brier: 0}}", encoding="utf-8")
    result = gate("--against", "base.json", policy="p.yaml")
    assert result.exit_code == 2
    assert "the baseline has no brier" in result.stderr


# --- schema ---


def _schema(what: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run("schema", what).stdout)
    jsonschema.Draft202012Validator.check_schema(found)
    return found


def test_the_schemas_accept_what_is_accepted_and_refuse_what_is_refused() -> None:
    policy, suite = map(jsonschema.Draft202012Validator, (_schema("policy"), _schema("suite")))
    for template in TEMPLATES:
        run("init", template, "--template", template)
        for name, schema in (("policy", policy), ("suite", suite)):
            written = Path(f"{template}/{name}.yaml").read_text(encoding="utf-8")
            schema.validate(yaml.safe_load(written))
    example = ROOT / "examples/arithmetic/suite.yaml"
    suite.validate(yaml.safe_load(example.read_text(encoding="utf-8")))
    good: list[dict[str, Any]] = [
        {"thresholds": {"blocking": {"accuracy": 90, "latency_p95": "< 5s", "pass_hat_3": 50}}},
        {"progressive": {"release": "v1", "v1": {"accuracy": {"threshold": 80, "risk": "low"}}}},
        {"baseline": {"margins": {"accuracy": "1%"}}},
        {
            "metrics": [{"name": "schema_tone", "field": "tone"}],
            "thresholds": {"blocking": {"schema_tone": "≥ 1", "mean(a.b)": "≥ 1"}},
        },
        {"composite": {"formula": "accuracy", "threshold": 0.5, "requires": {}}},
    ]
    for each in good:
        policy.validate(each)
        read_policy(each)
    bad: list[dict[str, Any]] = [
        {"thresholds": {"blocking": {"accuracy": [90]}}},
        {"thresolds": {}},
        {"evidence": "maybe"},
        {"weights": {"by_category": {"a": -1}}},
        {"required_scenarios": {"id": []}},
    ]
    for each in bad:
        with pytest.raises(jsonschema.ValidationError):
            policy.validate(each)


def test_every_metric_can_be_completed_in_an_editor() -> None:
    blocking = _schema("policy")["$defs"]["Thresholds"]["properties"]["blocking"]
    named = set(blocking["properties"])
    assert {*cal_metrics(), "latency_p95", "description"} == named


def cal_metrics() -> set[str]:
    return {each["name"] for each in json.loads(run("metrics", "--format", "json").stdout)}

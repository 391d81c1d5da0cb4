"""Verdicts of a gate that must not be green."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import calipers as cal
from tests.commands import run
from tests.engines_at_hand import ENGINES, ENGINES_AT_LENGTH
from tests.files import write_lines
from tests.red_stays_red.cases import Row, adversarial, blocking, gate_of, vote
from tests.runs.suites_at_hand import suite_folder

LEAKED = {"expected_behaviors": ["help"], "observed_behaviors": ["help"], "violations": ["leak"]}


@pytest.mark.parametrize(
    ("says", "engine"),
    [
        *(pytest.param({"passed": True}, *each.values, marks=each.marks) for each in ENGINES),
        *(
            pytest.param({"judgments": [vote(passed=True)] * 3}, *each.values, marks=each.marks)
            for each in ENGINES_AT_LENGTH
        ),
    ],
    ids=["passed, polars", "passed, spark", "judged, polars", "judged, spark"],
)
def test_a_violation_fails_whatever_a_judge_or_the_record_says(says: Row, engine: str) -> None:
    rows = [adversarial(n, **LEAKED, **says) for n in range(3)]
    rules = blocking(pass_rate=50, safety_rate=50, weighted_pass_rate=50, pass_at_1=50)
    found = gate_of(rows, rules, engine=engine)
    assert {(check.verdict, check.value) for check in found.checks} == {("fail", 0.0)}
    assert gate_of(rows, {"required_scenarios": {"ids": ["SEC-1"]}}).verdict == "fail"
    assert gate_of(rows, {"pass_criteria": {"by_category": {"adversarial": 50}}}).exit_code == 1
    told = any("3 records have `passed: true` beside a violation" in n for n in found.notices)
    assert told == ("passed" in says)


@pytest.mark.parametrize(
    "rule",
    [
        blocking(safety_rate=100),
        blocking(pass_rate=50),
        blocking(weighted_pass_rate=50),
        blocking(pass_at_1=50),
        blocking(behavior_coverage=50),
        {"pass_criteria": {"overall": 50}},
        {"pass_criteria": {"by_category": {"adversarial": "100%"}}},
        {"progressive": {"release": "v1", "v1": {"safety_rate": 100}}},
        {"composite": {"formula": "pass_rate", "threshold": 0.5, "requires": {}}},
    ],
)
def test_nine_undecided_scenarios_of_ten_are_no_pass(rule: Row) -> None:
    behaviors = {"expected_behaviors": ["refuse"], "violations": []}
    rows = [adversarial(n, **behaviors, observed_behaviors=None) for n in range(9)]
    rows.append(adversarial(9, **behaviors, observed_behaviors=["refuse"]))
    found = gate_of(rows, rule)
    assert (found.verdict, found.exit_code) == ("incomplete", 3)
    assert (found.checks[0].n, found.checks[0].missing) == (1, 9)
    assert "9 of 10 records are undecided" in found.incomplete[0]
    assert gate_of(rows, {**rule, "undecided": "ignore"}).verdict == "pass"
    rows[9] |= {"observed_behaviors": [], "passed": False}
    assert gate_of(rows, rule).exit_code == 1  # failed goes before incomplete


@pytest.mark.parametrize("option", [["--until-decided"], []])
@pytest.mark.parametrize("threshold", ["= 100%", "≥ 50%"])
def test_a_run_is_as_strict_as_a_gate(tmp_path: Path, option: list[str], threshold: str) -> None:
    (tmp_path / "system.py").write_text(
        "def answer(record):\n"
        "    seen = ['refuse'] if record['id'] == 'SEC-0' else None\n"
        "    return {'answer': 'no', 'observed_behaviors': seen, 'violations': []}\n"
    )
    tasks = [adversarial(n, input="?", expected_behaviors=["refuse"]) for n in range(10)]
    policy = tmp_path / "policy.json"
    policy.write_text(json.dumps(blocking(safety_rate=threshold)), encoding="utf-8")
    system = {"name": "s", "python": "system.py:answer"}
    trust = ["observed_behaviors", "violations"]
    folder = suite_folder(tmp_path, tasks, [system], policy="policy.json", trust=trust)
    assert folder.run(*option).exit_code == 3
    assert cal.gate(folder.records(), policy=policy).exit_code == 3


@pytest.mark.parametrize(
    "open_",
    [
        {"expected_behaviors": ["refuse"], "observed_behaviors": None},
        {"judgments": [vote(passed=None)]},
    ],
)
def test_a_right_answer_does_not_pass_an_undecided_scenario(open_: Row) -> None:
    rows = [adversarial(1, correct=True, **open_)]
    assert gate_of(rows, {"required_scenarios": {"ids": ["SEC-1"]}}).exit_code == 3
    assert gate_of(
        [adversarial(1, correct=True)], {"required_scenarios": {"ids": ["SEC-1"]}}
    ).passed


def test_a_report_does_not_show_the_verdict_of_other_records(tmp_path: Path) -> None:
    (tmp_path / "system.py").write_text("def answer(record):\n    return {'answer': '4'}\n")
    (tmp_path / "policy.json").write_text(json.dumps(blocking(accuracy=90)), encoding="utf-8")
    system = {"name": "s", "python": "system.py:answer"}
    tasks = [{"id": "a", "input": "2 + 2", "target": "4"}]
    folder = suite_folder(tmp_path, tasks, [system], policy="policy.json")
    assert folder.run().exit_code == 0
    told = cal.report(folder.results)
    assert told.gate is not None
    [record] = folder.records()
    wrong = {**record, "id": "b", "answer": "5"}
    write_lines(folder.results / "records.jsonl", [record, wrong])
    told = cal.report(folder.results)
    assert told.gate is None
    assert any("gate.json was decided on 1 records" in notice for notice in told.notices)


def test_a_lost_list_of_expectations_is_undecided() -> None:
    """Else a field that is spelled wrong would pass every scenario."""
    lost = {"expected_behaviours": ["refuse"], "observed_behaviors": [], "violations": []}
    rows = [adversarial(n, **lost) for n in range(5)]
    assert gate_of(rows, blocking(safety_rate=100)).exit_code == 1
    rows.append(adversarial(5, passed=True))
    assert gate_of(rows, blocking(safety_rate=100)).exit_code == 3


def test_optional_scenarios_never_block() -> None:
    rows: list[Row] = [{"id": "a", "passed": True}, {"id": "b"}]
    optional = {"optional_scenarios": {"ids": ["b"]}}
    assert gate_of(rows, blocking(pass_rate=50)).exit_code == 3
    assert gate_of(rows, blocking(pass_rate=50) | optional).exit_code == 0


@pytest.mark.parametrize("lost", [{"judgments": [vote(passed=None)]}, {"judgments": None}, {}])
@pytest.mark.parametrize("engine", ENGINES_AT_LENGTH)
def test_judges_that_failed_on_eight_answers_of_ten_are_no_pass(lost: Row, engine: str) -> None:
    rows = [adversarial(n, **lost) for n in range(8)]
    rows += [adversarial(n, judgments=[vote(passed=True)]) for n in (8, 9)]
    found = gate_of(rows, blocking(safety_rate=100, pass_rate=50), engine=engine)
    assert found.exit_code == 3
    for check in found.checks:
        assert "8 of 10 records are undecided: judgments failed or are absent" in str(check.reason)


@pytest.mark.parametrize("lost", [[vote(passed=None)], []])
def test_a_polite_judge_does_not_stand_in_for_one_of_safety(lost: list[Row]) -> None:
    polite = vote(passed=True, rubric="politeness")
    rows = [adversarial(n, judgments=[polite, *lost]) for n in range(8)]
    rows += [adversarial(n, judgments=[polite, vote(passed=True)]) for n in (8, 9)]
    for rule in (blocking(safety_rate=100), {"required_scenarios": {"ids": ["SEC-1"]}}):
        found = gate_of(rows, rule)
        assert found.exit_code == 3, rule
    whole = gate_of(rows[8:], blocking(safety_rate=100))
    assert whole.exit_code == 0


def test_a_judge_that_failed_on_every_answer_is_missed() -> None:
    rows = [
        adversarial(n, judgments=[vote(passed=True, rubric="politeness"), vote(passed=None)])
        for n in range(10)
    ]
    assert gate_of(rows, blocking(safety_rate=100)).exit_code == 3


def test_who_is_silent_in_a_panel_of_one_rubric_is_not_missed() -> None:
    pair = [vote(passed=True), vote(passed=None) | {"model": "n"}]
    rows = [adversarial(n, judgments=pair) for n in range(10)]
    assert gate_of(rows, blocking(safety_rate=100)).exit_code == 0


def test_failed_judges_of_scores_are_no_pass() -> None:
    good = dict.fromkeys(("logical_flow", "decision_quality", "resource_efficiency"), 5)
    judged = {"judge": "j", "model": "m", "rubric_hash": "p"}
    rows: list[Row] = [{"id": "a", "judgments": [{**judged, "scores": good}]}]
    rows += [{"id": "b", "judgments": [{**judged, "scores": None, "reason": "refused"}]}]
    assert gate_of(rows, blocking(planning_rationality=0.9)).exit_code == 3
    assert gate_of(rows[:1], blocking(planning_rationality=0.9)).exit_code == 0


@pytest.mark.parametrize("name", ["Adversarial", " adversarial", "ADVERSARIAL "])
@pytest.mark.parametrize(
    "rule",
    [
        blocking(safety_rate=100),
        {"pass_criteria": {"by_category": {"adversarial": "100%"}}},
        {"composite": {"formula": "pass_rate", "threshold": 0.1}},
    ],
)
def test_a_category_that_is_spelled_otherwise_does_not_hide_a_failure(name: str, rule: Row) -> None:
    rows = [adversarial(n, passed=True) for n in range(3)]
    rows += [{"id": "SEC-9", "category": name, "passed": False}]
    found = gate_of(rows, rule)
    assert found.exit_code == 3
    assert f"1 record of the category {name!r} do not count" in found.incomplete[0]


def test_a_run_without_its_category_does_not_hide_a_failure() -> None:
    rows = [adversarial(1, passed=True, run=1), {"id": "SEC-1", "passed": False, "run": 2}]
    with pytest.raises(cal.DataError, match="of none in another"):
        gate_of(rows, blocking(safety_rate=100))


def test_no_check_is_no_pass(tmp_path: Path) -> None:
    """A baseline of another system demands nothing of this one."""
    base = tmp_path / "baseline.json"
    rows = [{"id": "a", "model": "m", "passed": True}]
    cal.gate(rows, policy={}, by="model", save_baseline=base)
    other = [{**row, "model": "n"} for row in rows]
    found = cal.gate(other, policy={}, by="model", against=base)
    assert found.verdict == "incomplete"
    assert found.incomplete[0] == "no check applies to n"
    assert found.incomplete[1].startswith("nothing was compared with the baseline")


def test_a_policy_that_only_warns_says_so() -> None:
    found = gate_of([{"id": "a", "passed": False}], {"thresholds": {"warning": {"pass_rate": 50}}})
    assert "the policy only warns: nothing in it can fail the gate" in found.notices


@pytest.mark.parametrize("engine", ENGINES_AT_LENGTH)
def test_weights_for_names_that_no_record_has_are_reported(tmp_path: Path, engine: str) -> None:
    rows = [adversarial(1, passed=True, capability="core"), {"id": "b", "passed": True}]
    weights = {"by_category": {"adversrial": 3}, "by_capability": {"core": 2, "cor": 1}}
    policy = {**blocking(weighted_pass_rate=50), "weights": weights}
    said = [
        "weights.by_category: no record is of the category 'adversrial'; did you mean adversarial?",
        "weights.by_capability: no record is of the capability 'cor'; did you mean core?",
    ]
    assert [n for n in gate_of(rows, policy, engine=engine).notices if "weights" in n] == said
    path = tmp_path / "policy.json"
    path.write_text(json.dumps(policy), encoding="utf-8")
    score = cal.score(rows, policy=path, profile="scenarios")
    assert [n for n in score.notices if "weights" in n] == said


def test_every_format_shows_n_and_missing(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", [adversarial(1, passed=True), adversarial(2)])
    policy = tmp_path / "policy.json"
    policy.write_text(json.dumps(blocking(safety_rate=100)), encoding="utf-8")
    shown = {
        kind: run("gate", path, "--policy", policy, "--junit", tmp_path / "j.xml", "--format", kind)
        for kind in ("json", "table", "markdown", "csv")
    }
    assert {result.exit_code for result in shown.values()} == {3}
    [check] = json.loads(shown["json"].stdout)["checks"]
    assert (check["n"], check["missing"], check["undecided"]) == (1, 1, 1)
    assert re.search(r" n +missing ", shown["table"].stdout)
    assert "| n | missing |" in shown["markdown"].stdout
    assert "n,missing" in shown["csv"].stdout
    assert "n: 1\nmissing: 1" in (tmp_path / "j.xml").read_text()
    page = tmp_path / "page.html"
    cal.report(str(path), page, policy=policy)
    assert 'data-label="missing">1<' in page.read_text(encoding="utf-8")


@pytest.mark.parametrize("observed", [None, ["help"]], ids=["undecided", "violated"])
def test_a_right_answer_does_not_decide_a_scenario_by_pass_at_k(observed: list[str] | None) -> None:
    """`pass_at_k` falls back to `correct`: not where behaviors decide, or are yet to."""
    scenario = LEAKED if observed else {"expected_behaviors": ["help"], "observed_behaviors": None}
    rows = [adversarial(n, run=run_, correct=True, **scenario) for n in range(9) for run_ in (1, 2)]
    found = gate_of(rows, blocking(pass_at_2=50))
    assert found.exit_code == (1 if observed else 3)


@pytest.mark.parametrize("metric", ["pass_at_2", "pass_hat_2"])
def test_right_answers_decide_pass_at_k_where_nothing_else_was_to(metric: str) -> None:
    rows: list[Row] = [
        {"id": f"t{n}", "run": run_, "correct": n > 1} for n in range(9) for run_ in (1, 2)
    ]
    found = gate_of(rows, blocking(**{metric: 50}))
    assert (found.exit_code, found.checks[0].undecided.count) == (0, 0)
    assert gate_of(rows, blocking(**{metric: 90})).exit_code == 1
    assert gate_of(rows, blocking(pass_rate=50)).exit_code != 0  # a right answer passes no scenario
    rows[0] |= {"judgments": [vote(passed=None)]}
    assert gate_of(rows, blocking(**{metric: 50})).exit_code == 3
    rows[0] = {"id": "t0", "run": 1, "correct": False}
    rows.append({"id": "t0", "run": 3})
    assert gate_of(rows, blocking(**{metric: 50})).exit_code == 3

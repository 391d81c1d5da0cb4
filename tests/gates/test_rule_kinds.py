"""A kind of rule is one class: a new one is seen wherever rules are."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar
from xml.etree import ElementTree as ET

import polars as pl
import pytest

import calipers as cal
from calipers.gates import rules
from calipers.gates.policy import make_model, read_policy
from calipers.gates.policy_fields import Rule, Share
from calipers.gates.result import Check
from calipers.gates.rule_kind import Given, RuleChecker, RuleKind
from calipers.gates.sequential_checks import Demand, PlannedGroup
from calipers.metrics.families.scenarios import passed
from calipers.support.errors import UsageError
from calipers.support.strict_model import StrictModel
from tests.commands import run
from tests.files import write_lines
from tests.runs.suites_at_hand import suite_folder


class FailureBudget(RuleKind, StrictModel):
    """How many runs may fail."""

    key: ClassVar[str] = "failure_budget"
    label: ClassVar[str] = " (budget)"

    passing: Share

    def list_metrics(self, _given: Given) -> Iterator[str]:
        yield "pass_rate"

    def _rule(self) -> Rule:
        return Rule(name="runs", threshold=self.passing.threshold)

    def list_checks(self, judge: RuleChecker) -> Iterator[Check]:
        measured = judge.run.group.metrics["pass_rate"]
        yield judge.check_value(self._rule(), measured, "blocking", self.key, of="pass_rate")

    def list_demands(self, _ahead: PlannedGroup) -> Iterator[Demand]:
        value = pl.col(passed.name).cast(pl.Float64)
        yield Demand(name="runs", on=self.passing.threshold, value=value, metrics=("pass_rate",))


class NothingLost(RuleKind, StrictModel):
    """No scenario that passed in the baseline fails now."""

    key: ClassVar[str] = "nothing_lost"

    needs_baseline: ClassVar[bool] = True

    def list_metrics(self, _given: Given) -> Iterator[str]:
        yield "pass_rate"

    def list_checks(self, judge: RuleChecker) -> Iterator[Check]:
        if judge.before is not None:
            lost = sorted({*judge.before.passed} & {*judge.run.now.failed})
            yield Check(
                name="lost",
                level="baseline",
                source=self.key,
                verdict="fail" if lost else "pass",
                value=float(len(lost)),
                n=len(judge.before.passed),
                missing=0,
                reason=f"lost: {', '.join(lost)}" if lost else None,
            )

    def list_demands(self, _ahead: PlannedGroup) -> Iterator[Demand]:
        yield Demand(name="lost", why_not="compared with the baseline at the end")


POLICY: dict[str, Any] = {"failure_budget": {"passing": "≥ 80%"}}


@pytest.fixture(autouse=True)
def _with_the_new_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "KINDS", (*rules.KINDS, FailureBudget, NothingLost))


def records(good: int, bad: int, **fields: Any) -> list[dict[str, Any]]:
    return [{"id": f"t{n}", "passed": n < good, **fields} for n in range(good + bad)]


def test_every_kind_has_a_key_of_its_own() -> None:
    keys = [kind.key for kind in rules.KINDS]
    assert len({*keys}) == len(keys)
    assert {*keys} < {*make_model().model_fields}


def test_the_policy_and_its_schema_know_it(tmp_path: Path) -> None:
    found = read_policy(POLICY).find(FailureBudget)
    assert found is not None
    assert str(found.passing.threshold) == "≥ 80 %"
    assert read_policy({"evidence": "point"}).find(FailureBudget) is None
    schema = make_model().model_json_schema()
    assert schema["properties"]["failure_budget"] == {"$ref": "#/$defs/FailureBudget"}
    printed = run("schema", "policy").stdout
    assert json.loads(printed)["$defs"]["FailureBudget"] == schema["$defs"]["FailureBudget"]
    path = tmp_path / "policy.yaml"
    path.write_text("evidence: point\nfailure_budget:\n  pasing: 80\n")
    with pytest.raises(UsageError, match=r"policy\.yaml:3: failure_budget: pasing is not a known"):
        read_policy(path)


def test_it_decides_and_is_reported(tmp_path: Path) -> None:
    data = write_lines(tmp_path / "records.jsonl", records(7, 3))
    policy, junit = tmp_path / "policy.json", tmp_path / "junit.xml"
    policy.write_text(json.dumps(POLICY))
    result = run("gate", data, "--policy", policy, "--junit", junit)
    assert result.exit_code == 1, result.output
    assert "runs: 70 %, required ≥ 80 %" in " ".join(result.stdout.split())
    assert "blocking (budget)" in result.stdout
    (case,) = ET.parse(junit).findall(".//testcase[failure]")
    assert case.attrib == {"name": "runs", "classname": "calipers.failure_budget"}
    assert cal.gate(records(9, 1), policy=POLICY).passed


def test_a_judge_behind_it_needs_a_licence() -> None:
    said = {"judge": "m", "passed": True, "scores": {}, "rubric_hash": "1"}
    judged = [{"id": f"t{n}", "judgments": [said]} for n in range(10)]
    (check,) = cal.gate(judged, policy=POLICY).checks
    assert (check.value, check.verdict) == (1.0, "fail")
    assert "no licence" in str(check.reason)


def test_it_ends_a_run_that_it_has_decided(tmp_path: Path) -> None:
    (tmp_path / "system.py").write_text("def answer(record):\n    return {'passed': False}\n")
    (tmp_path / "policy.json").write_text(json.dumps(POLICY))
    tasks = [{"id": f"t{n}", "input": "?"} for n in range(200)]
    systems = [{"name": "s", "python": "system.py:answer"}]
    more: dict[str, Any] = {"concurrency": 1, "trust": ["passed"]}
    folder = suite_folder(tmp_path, tasks, systems, policy="policy.json", **more)
    result = folder.run("--until-decided")
    assert result.exit_code == 1, result.output
    gate = folder.json("gate.json")
    assert gate["until_decided"]["stopped"] is True
    (check,) = gate["checks"]
    assert (check["name"], check["sequence"]["decided"]) == ("runs", "fail")
    assert check["sequence"]["tasks"] < 100


def test_a_check_of_a_kind_that_is_gone_is_shown_by_its_level() -> None:
    assert rules.get_label("failure_budget") == " (budget)"
    assert rules.get_label("no_such_kind") == ""


def test_a_kind_that_needs_a_baseline_is_one_class_too(tmp_path: Path) -> None:
    policy: dict[str, Any] = {"nothing_lost": {}, "baseline": None}
    with pytest.raises(UsageError, match="compares runs with a baseline, but none is given"):
        cal.gate(records(9, 1), policy=policy)
    baseline = tmp_path / "baseline.json"
    assert cal.gate(records(8, 2), policy=policy, save_baseline=baseline).passed
    assert cal.gate(records(9, 1), policy=policy, against=baseline).passed
    (check,) = cal.gate(records(6, 4), policy=policy, against=baseline).checks
    assert (check.name, check.verdict, check.reason) == ("lost", "fail", "lost: t6, t7")


def test_checks_of_every_recorded_metric_can_be_switched_off(tmp_path: Path) -> None:
    baseline = tmp_path / "baseline.json"
    rule = {"thresholds": {"blocking": {"pass_rate": "≥ 50%"}}}
    assert cal.gate(records(9, 1), policy=rule, save_baseline=baseline).passed
    worse = records(6, 4)
    assert not cal.gate(worse, policy=rule, against=baseline).passed
    without = cal.gate(worse, policy={**rule, "baseline": None}, against=baseline)
    assert [check.name for check in without.checks] == ["pass_rate"]
    assert without.passed
    assert without.changes[0].broken.count == 3  # what has changed is reported all the same

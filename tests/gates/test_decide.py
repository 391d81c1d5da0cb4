"""Gates end to end: every mechanism of the document, and everything that must never pass."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import calipers as cal
from calipers.gates import scenario_table
from calipers.gates.baseline_files import read_baseline
from calipers.gates.result import Check, GateResult
from calipers.support.errors import DataError, UsageError
from tests.files import write_lines

Record = dict[str, Any]


def record(name: str, *, passed: bool | None = True, **fields: Any) -> Record:
    return {"id": name, "passed": passed, **fields}


def runs(passed: int, failed: int, **fields: Any) -> list[Record]:
    return [
        record(f"{fields.get('category', 's')}-{n}", passed=n < passed, **fields)
        for n in range(passed + failed)
    ]


def blocking(**thresholds: Any) -> dict[str, Any]:
    return {"thresholds": {"blocking": thresholds}}


def only(result: GateResult) -> Check:
    (check,) = result.checks
    return check


def verdicts(result: GateResult) -> dict[str, str]:
    return {check.name: check.verdict for check in result.checks}


# --- Blocking and warning ---


def test_a_blocking_threshold_fails_and_names_the_scenarios() -> None:
    result = cal.gate(runs(17, 3), policy=blocking(pass_rate="≥ 90%"))
    assert (result.verdict, result.exit_code) == ("fail", 1)
    check = only(result)
    assert (check.name, check.level, check.verdict) == ("pass_rate", "blocking", "fail")
    assert check.value == 0.85
    assert check.failing.first == ("s-17", "s-18", "s-19")
    assert str(check.reason).startswith("85 %, required ≥ 90 %")


def test_a_warning_never_blocks() -> None:
    policy = {"thresholds": {"warning": {"pass_rate": 90, "latency_p95": 5000}}}
    result = cal.gate(runs(17, 3), policy=policy)
    assert (result.verdict, result.exit_code) == ("pass", 0)
    assert verdicts(result) == {"pass_rate": "warn", "latency_p95_ms": "warn"}
    assert "no record has latency_ms" in str(result.checks[1].reason)


def test_a_null_under_a_blocking_rule_fails() -> None:
    result = cal.gate(runs(20, 0), policy=blocking(safety_rate=100))
    assert (result.verdict, result.exit_code) == ("fail", 1)
    assert "no value" in str(only(result).reason)
    assert only(result).value is None


def test_safety_is_compared_as_counts() -> None:
    safe = runs(200, 0, category="adversarial")
    assert cal.gate(safe, policy=blocking(safety_rate="= 100%")).passed
    for threshold in ("= 100%", 100, 1.0, "100%"):
        for evidence in ("point", "interval"):
            policy = {**blocking(safety_rate=threshold), "evidence": evidence}
            broken = runs(1999, 1, category="adversarial")
            assert cal.gate(safe, policy=policy).verdict == "pass"
            assert cal.gate(broken, policy=policy).verdict == "fail"


def test_a_risk_and_its_reason_are_carried_along() -> None:
    rule = {"threshold": "100%", "risk": "critical", "description": "No security compromises"}
    found = only(cal.gate(runs(2, 1), policy=blocking(pass_rate=rule))).to_dict()
    assert (found["risk"], found["description"]) == ("critical", "No security compromises")


@pytest.mark.parametrize(
    ("metric", "threshold", "failing"),
    [
        ("latency_p95", "< 100ms", ("slow",)),
        ("accuracy", "≥ 90%", ("slow", "wrong")),
        ("error_rate", "≤ 10%", ("slow", "wrong")),
        ("behavior_coverage", "≥ 95%", ("half",)),
        ("precision", "≥ 90%", ("wrong",)),
        ("weighted_pass_rate", "≥ 90%", ("half",)),
    ],
)
def test_the_scenarios_behind_a_red_line(
    metric: str, threshold: str, failing: tuple[str, ...]
) -> None:
    seen = {"expected_behaviors": ["a", "b"], "observed_behaviors": ["a", "b"], "category": "c"}
    good = {
        **seen,
        "answer": "4",
        "target": "4",
        "latency_ms": 5,
        "predicted": True,
        "actual": True,
    }
    data = [
        *({"id": f"good-{n}", **good} for n in range(3)),
        {"id": "slow", **good, "latency_ms": 500, "correct": False},
        {"id": "half", **good, "observed_behaviors": ["a"]},
        {"id": "wrong", **good, "answer": "5", "actual": False},
    ]
    check = only(cal.gate(data, policy=blocking(**{metric: threshold})))
    assert check.verdict == "fail"
    assert check.failing.first == failing


# --- Evidence ---


def test_on_points_thin_evidence_is_said_with_what_would_settle_it() -> None:
    check = only(cal.gate(runs(10, 0), policy=blocking(pass_rate="≥ 90%")))
    assert check.verdict == "pass"
    assert check.thin
    assert check.further_scenarios == 25
    assert check.further_range is not None
    assert check.further_range[0] == 25
    assert "about 25 more scenarios would decide it if the value stays" in str(check.reason)
    clear = only(cal.gate(runs(100, 0), policy=blocking(pass_rate="≥ 90%")))
    assert (clear.thin, clear.reason) == (False, None)


@pytest.mark.parametrize(
    ("ask", "verdict", "of_check", "code"),
    [
        (None, "inconclusive", "inconclusive", 1),
        ("fail", "inconclusive", "inconclusive", 1),
        ("warn", "pass", "warn", 0),
        ("pass", "pass", "pass", 0),
    ],
)
def test_on_intervals_doubt_is_a_verdict(
    ask: str | None, verdict: str, of_check: str, code: int
) -> None:
    policy = {**blocking(pass_rate="≥ 90%"), "evidence": "interval"}
    policy |= {} if ask is None else {"on_inconclusive": ask}
    result = cal.gate(runs(10, 0), policy=policy)
    assert (result.verdict, result.exit_code) == (verdict, code)
    assert only(result).verdict == of_check
    assert str(only(result).reason).startswith(
        "inconclusive: the 95 % interval includes the threshold"
    )
    assert cal.gate(runs(100, 0), policy=policy).verdict == "pass"
    assert cal.gate(runs(50, 50), policy=policy).verdict == "fail"


def test_a_warning_in_doubt_only_warns() -> None:
    policy = {"thresholds": {"warning": {"pass_rate": 90}}, "evidence": "interval"}
    result = cal.gate(runs(10, 0), policy=policy)
    assert (result.verdict, only(result).verdict) == ("pass", "warn")


def test_the_verdict_fits_the_interval_that_is_shown() -> None:
    """Where Wilson's interval alone would decide too soon, the exact one is shown and decides."""
    policy = {**blocking(pass_rate="≥ 99%"), "evidence": "interval"}
    check = only(cal.gate(runs(97, 3), policy=policy))
    assert check.verdict == "inconclusive"
    assert check.high is not None
    assert check.high > 0.99


# --- Required, optional, categories ---


def test_required_scenarios_must_be_there_and_pass_in_all_their_runs() -> None:
    data = [
        record("good", run=1),
        record("good", run=2),
        record("flaky", run=1),
        record("flaky", run=2, passed=False),
        record("unknown", passed=None),
    ]
    ids = ["good", "flaky", "unknown", "absent"]
    result = cal.gate(data, policy={"required_scenarios": {"ids": ids}})
    assert verdicts(result) == {
        "good": "pass",
        "flaky": "fail",
        "unknown": "fail",
        "absent": "fail",
    }
    assert [check.reason for check in result.checks] == [
        None,
        "1 of 2 runs failed",
        "it gave no verdict",
        "not among the records",
    ]
    assert {check.level for check in result.checks} == {"required"}


def test_a_required_scenario_that_did_not_run_fails() -> None:
    data = [record("a"), {"id": "b", "error": "timeout: 60 s"}]
    result = cal.gate(data, policy={"required_scenarios": {"ids": ["a", "b"]}})
    assert verdicts(result) == {"a": "pass", "b": "fail"}
    assert result.exit_code == 1
    assert result.checks[1].reason == "it did not run"


def test_where_nobody_says_who_passed_the_right_answer_does() -> None:
    data = [
        {"id": "a", "answer": "4.0", "target": "4"},
        {"id": "b", "answer": "5", "target": "4"},
    ]
    result = cal.gate(data, policy={"required_scenarios": {"ids": ["a", "b"]}})
    assert verdicts(result) == {"a": "pass", "b": "fail"}


def test_ids_that_are_numbers_are_texts() -> None:
    result = cal.gate([{"id": 7, "passed": True}], policy={"required_scenarios": {"ids": [7]}})
    assert verdicts(result) == {"7": "pass"}


def test_optional_scenarios_count_and_never_block() -> None:
    policy = {**blocking(pass_rate=50), "optional_scenarios": {"ids": ["s-0", "s-2", "nowhere"]}}
    result = cal.gate(runs(2, 1), policy=policy)
    assert result.verdict == "pass"
    assert verdicts(result) == {
        "pass_rate": "pass",
        "s-0": "pass",
        "s-2": "warn",
        "nowhere": "warn",
    }
    assert result.checks[0].value == pytest.approx(2 / 3)


def test_category_criteria() -> None:
    data = [
        *runs(10, 0, category="adversarial"),
        *runs(17, 3, category="happy_path"),
        *runs(7, 3, category="edge_case"),
    ]
    policy = {
        "pass_criteria": {
            "overall": "≥ 80%",
            "by_category": {
                "adversarial": "100%",
                "happy_path": "≥ 90%",
                "edge_case": "≥ 70%",
                "nothing": "≥ 1%",
            },
        }
    }
    result = cal.gate(data, policy=policy)
    assert verdicts(result) == {
        "overall": "pass",
        "adversarial": "pass",
        "happy_path": "fail",
        "edge_case": "pass",
        "nothing": "fail",
    }
    by_name = {check.name: check for check in result.checks}
    assert by_name["overall"].value == 34 / 40
    assert by_name["happy_path"].failing.first == (
        "happy_path-17",
        "happy_path-18",
        "happy_path-19",
    )
    assert by_name["nothing"].reason == "no value: no scenario has this category"
    assert {check.level for check in result.checks} == {"category"}


@pytest.mark.parametrize("cluster", [None, "topic"])
def test_a_categorys_rate_is_what_score_gives(cluster: str | None) -> None:
    data = [
        record(
            f"{category}-{n}", passed=(n * run) % 3 != 1, run=run, category=category, topic=n % 4
        )
        for category in ("adversarial", "edge_case")
        for n in range(12)
        for run in range(1, 4)
    ]
    criteria = {"adversarial": "≥ 50%", "edge_case": "≥ 50%"}
    result = cal.gate(data, policy={"pass_criteria": {"by_category": criteria}}, cluster=cluster)
    score = cal.score(data, by="category", metrics=["pass_rate"], cluster=cluster)
    measured = {group.by["category"]: group.metrics["pass_rate"] for group in score.groups}
    for check in result.checks:
        expected = measured[check.name]
        assert check.value == expected.value
        assert (check.low, check.high) == pytest.approx((expected.low, expected.high), rel=1e-12)


def test_weights_count_in_the_weighted_pass_rate() -> None:
    data = [*runs(0, 1, category="adversarial"), *runs(3, 0, category="happy_path")]
    policy = {**blocking(weighted_pass_rate=50), "weights": {"by_category": {"adversarial": 3}}}
    assert only(cal.gate(data, policy=policy)).value == 0.5


# --- Composite ---

SEEN = {"expected_behaviors": ["a", "b"], "observed_behaviors": ["a", "b"], "latency_ms": 500}


def scenarios(*, unsafe: int = 0, wrong: int = 0) -> list[Record]:
    adversarial = [
        {"id": f"A-{n}", "category": "adversarial", "passed": n >= unsafe, "correct": True, **SEEN}
        for n in range(50)
    ]
    happy = [
        {"id": f"H-{n}", "category": "happy_path", "passed": True, "correct": n >= wrong, **SEEN}
        for n in range(50)
    ]
    return adversarial + happy


def test_the_composite_of_the_document() -> None:
    result = cal.gate(scenarios(wrong=10), policy={"composite": {}})
    check = only(result)
    assert (check.name, check.level, check.verdict) == ("final_score", "composite", "pass")
    assert check.value == pytest.approx(0.3 * 0.9 + 0.4 + 0.2 + 0.1 * 0.9)


def test_the_composite_needs_both_parts_of_its_rule() -> None:
    """0.982 is far above 0.85, and one adversarial scenario failed."""
    policies: list[dict[str, Any]] = [{"composite": {}}, blocking(final_score=85)]
    for policy in policies:
        check = only(cal.gate(scenarios(unsafe=1), policy=policy))
        assert check.value == pytest.approx(0.3 + 0.4 * 0.98 + 0.2 + 0.1 * 0.9)
        assert check.verdict == "fail"
        assert check.reason == "safety_rate: 98 %, required = 100 %"
        assert check.failing.first == ("A-0",)
    warned = cal.gate(scenarios(unsafe=1), policy={"thresholds": {"warning": {"final_score": 85}}})
    assert only(warned).verdict == "pass"


def test_a_composite_with_a_part_missing_fails() -> None:
    data = [
        {key: value for key, value in each.items() if key != "latency_ms"} for each in scenarios()
    ]
    check = only(cal.gate(data, policy={"composite": {}}))
    assert check.verdict == "fail"
    assert "latency" in str(check.reason)


def test_a_formula_of_the_users_own() -> None:
    formula = "min(accuracy, safety_rate) × 0.5 + (1 − normalized_latency) ÷ 2"
    policy = {"composite": {"formula": formula, "threshold": "≥ 0.9", "requires": {}}}
    check = only(cal.gate(scenarios(wrong=10), policy={**policy, "latency_budget_ms": 1000}))
    assert check.value == pytest.approx(0.9 * 0.5 + (1 - 0.5) / 2)
    assert check.verdict == "fail"
    assert check.low is not None
    assert check.high is not None
    assert check.low < 0.7 < check.high


@pytest.mark.parametrize(
    ("formula", "why"),
    [
        ("accuracy / (1 − accuracy)", "divides by zero"),
        ("precision + 1", "precision has none: no record has predicted and actual"),
    ],
)
def test_a_formula_without_a_value_fails(formula: str, why: str) -> None:
    policy = {"composite": {"formula": formula, "requires": {}}}
    check = only(cal.gate(scenarios(), policy=policy))
    assert (check.verdict, check.value) == ("fail", None)
    assert why in str(check.reason)


def test_the_latency_budget_is_the_policys_unless_another_is_named() -> None:
    policy = {
        "composite": {"formula": "normalized_latency", "threshold": 0, "requires": {}},
        "latency_budget_ms": 1000,
    }
    assert only(cal.gate(scenarios(), policy=policy)).value == 0.5
    assert only(cal.gate(scenarios(), policy=policy, latency_budget_ms=2000)).value == 0.25


# --- Progressive, baseline ---


def test_thresholds_rise_from_release_to_release() -> None:
    rows = {"v1.0": {"accuracy": 80}, "v2.0": {"accuracy": 85}, "target": {"accuracy": 95}}
    data = [{"id": str(n), "correct": n < 84} for n in range(100)]
    assert cal.gate(data, policy={"progressive": rows}, release="v1.0").verdict == "pass"
    later = cal.gate(data, policy={"progressive": rows}, release="v2.0")
    assert (later.verdict, later.release) == ("fail", "v2.0")
    assert only(later).source == "progressive"
    with pytest.raises(UsageError, match="--release"):
        cal.gate(data, policy={"progressive": rows})
    current = {"progressive": {"release": "v1.0", **rows}}
    assert cal.gate(data, policy=current).verdict == "pass"
    assert cal.gate(data, policy=current, release="target").verdict == "fail"


def test_a_baseline_is_recorded_and_held_against(tmp_path: Path) -> None:
    path = tmp_path / "base.json"
    policy = {**blocking(pass_rate=50), "baseline": {"margins": {"pass_rate": "5%"}}}
    first = cal.gate(runs(80, 20), policy=policy, save_baseline=path)
    assert first.passed
    assert json.loads(path.read_text())["groups"][0]["metrics"]["pass_rate"] == 0.8
    worse = cal.gate(runs(60, 40), policy=policy, against=path)
    assert [check.verdict for check in worse.checks] == ["pass", "fail"]
    check = worse.checks[1]
    assert check.level == "baseline"
    assert check.threshold is not None
    assert check.threshold.value == pytest.approx(0.75)
    assert check.change is not None
    assert (check.change["difference"], check.change["n_pairs"]) == (pytest.approx(-0.2), 100)
    assert check.reason is not None
    assert check.reason.startswith("60 %, baseline 80 %: the 95 % interval of the change")
    assert cal.gate(runs(80, 20), policy=policy, against=path).passed
    assert cal.gate(runs(82, 18), policy=policy, against=path).passed


def test_a_margin_that_the_data_cannot_resolve_is_inconclusive(tmp_path: Path) -> None:
    path = tmp_path / "base.json"
    policy = {"baseline": {"margins": {"pass_rate": "2%"}}}
    cal.gate(runs(80, 20), policy=policy, save_baseline=path)
    result = cal.gate(runs(79, 21), policy=policy, against=path)
    check = only(result)
    assert (result.verdict, check.verdict) == ("inconclusive", "inconclusive")
    assert check.reason is not None
    assert "can be resolved with 100 tasks; this margin takes about" in check.reason
    assert check.further_scenarios is not None
    assert cal.gate(runs(79, 21), policy={**policy, "on_inconclusive": "warn"}, against=path).passed


def test_a_negative_margin_demands_an_improvement(tmp_path: Path) -> None:
    path = tmp_path / "base.json"
    policy = {"baseline": {"margins": {"pass_rate": "-5%"}}}
    cal.gate(runs(80, 20), policy=policy, save_baseline=path)
    assert cal.gate(runs(80, 20), policy=policy, against=path).verdict == "fail"
    assert cal.gate(runs(95, 5), policy=policy, against=path).passed


def test_what_has_not_changed_in_any_task_passes_without_a_margin(tmp_path: Path) -> None:
    path = tmp_path / "base.json"
    policy = {"baseline": {"margins": {"pass_rate": 0}}}
    cal.gate(runs(8, 2), policy=policy, save_baseline=path)
    check = only(cal.gate(runs(8, 2), policy=policy, against=path))
    assert (check.verdict, check.reason) == ("pass", "unchanged: the same value in all 10 tasks")
    better = only(cal.gate(runs(9, 1), policy=policy, against=path))
    assert (better.verdict, better.reason) == (
        "pass",
        "no task is worse: 1 of 10 better, the others the same",
    )
    strangers = [{**each, "id": f"x{each['id']}"} for each in runs(8, 2)]
    other = only(cal.gate(strangers, policy=policy, against=path))
    assert other.verdict == "fail"
    assert "no task in common" in (other.reason or "")


def test_a_baseline_of_an_older_version_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "base.json"
    old = {"schema": "calipers.baseline/1", "version": "0.1.0", "groups": []}
    path.write_text(json.dumps(old), encoding="utf-8")
    with pytest.raises(UsageError, match="kept no values of tasks") as refused:
        cal.gate(runs(8, 2), policy=blocking(pass_rate=50), against=path)
    assert "--save-baseline" in str(refused.value.fix)


def test_a_baseline_keeps_the_runs_of_tasks(tmp_path: Path) -> None:
    path = tmp_path / "base.json"
    data = [*runs(8, 2), record("s-0", passed=False), record("s-0", passed=True)]
    cal.gate(data, policy=blocking(pass_rate=10), save_baseline=path)
    kept = json.loads(path.read_text())["groups"][0]["tasks"]
    of_passed = dict(zip(kept["ids"], kept["values"]["passed"]["runs"], strict=True))
    assert (of_passed["s-0"], of_passed["s-1"]) == (3, 1)
    at = kept["ids"].index("s-0")
    assert kept["values"]["passed"]["means"][at] == pytest.approx(2 / 3)
    assert kept["values"]["passed"]["squares"][at] == pytest.approx(2 / 3)
    again = read_baseline(path)
    assert (
        json.loads(path.read_text())["groups"][0]["tasks"] == again.to_dict()["groups"][0]["tasks"]
    )


def test_without_margins_every_recorded_metric_holds(tmp_path: Path) -> None:
    path = tmp_path / "base.json"
    data = [{"id": str(n), "correct": n < 8, "latency_ms": 100} for n in range(10)]
    policy = {"thresholds": {"warning": {"latency_p95": 5000, "accuracy": 50}}}
    cal.gate(data, policy=policy, save_baseline=path)
    assert cal.gate(data, policy=policy, against=path).passed
    slower = [{**each, "latency_ms": 101} for each in data]
    result = cal.gate(slower, policy=policy, against=path)
    open_ones = [(check.name, check.verdict) for check in result.checks if check.verdict != "pass"]
    assert open_ones == [("latency_p95_ms", "inconclusive")]
    assert "no standard error" in str(result)


def test_the_ratchet_raises_and_never_lowers(tmp_path: Path) -> None:
    path = tmp_path / "base.json"
    policy = {"baseline": {"margins": {"pass_rate": "10%"}}}

    def kept() -> float:
        return float(json.loads(path.read_text())["groups"][0]["metrics"]["pass_rate"])

    cal.gate(runs(80, 20), policy=policy, save_baseline=path)
    cal.gate(runs(85, 15), policy=policy, against=path)
    assert kept() == 0.8  # only where it is asked for
    luck = cal.gate(runs(83, 17), policy=policy, against=path, ratchet=True)
    assert kept() == 0.8  # three tasks of a hundred may be luck
    assert any("nothing to raise" in notice for notice in luck.notices)
    raised = cal.gate(runs(88, 12), policy=policy, against=path, ratchet=True)
    assert kept() == 0.88
    assert any("raised: pass_rate" in notice for notice in raised.notices)
    assert cal.gate(runs(87, 13), policy=policy, against=path, ratchet=True).passed
    assert kept() == 0.88
    failing = {**policy, **blocking(pass_rate=99)}
    assert not cal.gate(runs(98, 2), policy=failing, against=path, ratchet=True).passed
    assert kept() == 0.88  # a run that fails raises nothing


def test_a_baseline_alone_is_a_demand(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    weights = {"weights": {"by_category": {"adversarial": 2.0}}}
    cal.gate(runs(80, 20), policy=weights, save_baseline=path)
    assert cal.gate(runs(80, 20), policy=weights, against=path).verdict == "pass"
    assert cal.gate(runs(70, 30), policy=weights, against=path).verdict == "fail"
    with pytest.raises(UsageError, match="it has no rules"):
        cal.gate(runs(80, 20), policy=weights)


def test_optional_scenarios_alone_never_block() -> None:
    records = [{"id": "a", "passed": True}, {"id": "b", "passed": False}]
    decided = cal.gate(records, policy={"optional_scenarios": {"ids": ["b", "gone"]}})
    assert (decided.verdict, decided.exit_code) == ("pass", 0)
    assert [check.verdict for check in decided.checks if check.name == "b"] == ["warn"]


@pytest.mark.parametrize("policy", [None, 5, ["accuracy"]])
def test_what_is_no_policy_is_refused(policy: Any) -> None:
    with pytest.raises(UsageError, match="expected a file or a mapping"):
        cal.gate(runs(8, 2), policy=policy)


def test_an_incomplete_run_is_no_baseline(tmp_path: Path) -> None:
    path = tmp_path / "base.json"
    data = [*runs(9, 0), {"id": "x", "error": "timeout: 60 s"}]
    result = cal.gate(data, policy=blocking(pass_rate=50), save_baseline=path)
    assert result.verdict == "incomplete"
    assert not path.exists()
    assert any("stays as it is" in notice for notice in result.notices)


def test_scenarios_that_came_and_went_are_told(tmp_path: Path) -> None:
    path = tmp_path / "base.json"
    policy = blocking(pass_rate=10)
    before = [record("kept"), record("gone"), record("breaks"), record("mends", passed=False)]
    after = [record("kept"), record("new"), record("breaks", passed=False), record("mends")]
    cal.gate(before, policy=policy, save_baseline=path)
    result = cal.gate(after, policy=policy, against=path)
    (changes,) = result.to_dict()["changes"]
    assert {name: found["ids"] for name, found in changes.items()} == {
        "added": ["new"],
        "removed": ["gone"],
        "broken": ["breaks"],
        "mended": ["mends"],
    }


def test_a_baseline_that_is_demanded_has_to_be_named(tmp_path: Path) -> None:
    policy = {"baseline": {"margins": {"pass_rate": 0}}}
    with pytest.raises(UsageError, match="--against FILE"):
        cal.gate(runs(1, 0), policy=policy)
    with pytest.raises(UsageError, match="--save-baseline"):
        cal.gate(runs(1, 0), policy=policy, against=tmp_path / "none.json")
    with pytest.raises(UsageError, match="--against FILE"):
        cal.gate(runs(1, 0), policy=blocking(pass_rate=1.0), ratchet=True)


def test_the_policy_can_name_the_baseline(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text("baseline: {file: base.json, margins: {pass_rate: 0}}", encoding="utf-8")
    with pytest.raises(UsageError, match=r"base\.json"):
        cal.gate(runs(8, 2), policy=path)
    assert cal.gate(runs(8, 2), policy=path, save_baseline=tmp_path / "base.json").passed
    assert cal.gate(runs(8, 2), policy=path).passed
    assert cal.gate(runs(7, 3), policy=path).verdict == "inconclusive"
    assert cal.gate(runs(0, 10), policy=path).verdict == "fail"


# --- What never passes ---


@pytest.mark.parametrize(
    "policy",
    [
        blocking(pass_rate=0.0),
        {"thresholds": {"warning": {"pass_rate": 90}}},
        {"required_scenarios": {"ids": ["a"]}},
        {"pass_criteria": {"overall": 80, "by_category": {"a": 90}}},
        {"composite": {}},
    ],
)
def test_an_empty_run_never_passes(policy: dict[str, Any]) -> None:
    result = cal.gate([], policy=policy)
    assert (result.verdict, result.exit_code) == ("incomplete", 3)
    assert result.incomplete == ("there are no records",)


def test_a_run_with_errors_is_incomplete_however_good() -> None:
    data = [*runs(99, 0), {"id": "x", "error": "timeout: 60 s"}]
    result = cal.gate(data, policy=blocking(pass_rate=90))
    assert (result.verdict, result.exit_code) == ("incomplete", 3)
    assert result.incomplete == ("1 of 100 calls failed",)
    assert only(result).verdict == "pass"


def test_a_failed_check_goes_before_an_incomplete_run() -> None:
    data = [*runs(9, 90), {"id": "x", "error": "timeout: 60 s"}]
    result = cal.gate(data, policy=blocking(pass_rate=90))
    assert (result.verdict, result.exit_code) == ("fail", 1)
    assert result.incomplete


def test_an_incomplete_run_goes_before_doubt() -> None:
    data = [*runs(10, 0), {"id": "x", "error": "timeout: 60 s"}]
    policy = {**blocking(pass_rate=90), "evidence": "interval"}
    assert cal.gate(data, policy=policy).exit_code == 3


def test_where_every_call_failed_nothing_is_judged() -> None:
    data = [{"id": str(n), "error": "server: 500"} for n in range(3)]
    result = cal.gate(data, policy=blocking(pass_rate=90))
    assert (result.verdict, result.exit_code, result.checks) == ("incomplete", 3, ())
    assert result.incomplete == ("3 of 3 calls failed",)


def test_bad_rows_that_are_left_out_make_it_incomplete(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"id": "a", "passed": true}\n{"id": "b", "passed": "maybe"}\n')
    with pytest.raises(DataError):
        cal.gate(path, policy=blocking(pass_rate=50))
    result = cal.gate(path, policy=blocking(pass_rate=50), on_bad="skip")
    assert result.exit_code == 3
    assert result.incomplete == ("bad rows left out: 1",)


def test_a_policy_that_demands_nothing_is_refused() -> None:
    for policy in ({}, {"weights": {"by_category": {"a": 2}}}):
        with pytest.raises(UsageError, match="nothing can fail"):
            cal.gate(runs(1, 0), policy=policy)


def test_a_scenario_of_two_categories_is_refused() -> None:
    data = [record("a", category="happy_path"), record("a", category="adversarial", run=2)]
    with pytest.raises(DataError, match="the scenario a is of the category adversarial in one"):
        cal.gate(data, policy=blocking(pass_rate=50))


# --- Groups, identity, size ---


def test_every_group_has_to_pass() -> None:
    data = [{**each, "model": "good"} for each in runs(10, 0)]
    data += [{**each, "model": "bad"} for each in runs(1, 9)]
    result = cal.gate(data, policy=blocking(pass_rate=50), by="model")
    assert [(check.by["model"], check.verdict) for check in result.checks] == [
        ("bad", "fail"),
        ("good", "pass"),
    ]
    assert result.verdict == "fail"
    pooled = cal.gate(data, policy=blocking(pass_rate=50))
    assert any("several models" in notice for notice in pooled.notices)
    assert not any("several models" in notice for notice in result.notices)


def test_a_baseline_keeps_groups_apart(tmp_path: Path) -> None:
    path = tmp_path / "base.json"
    data = [{**each, "model": "m1"} for each in runs(9, 1)]
    data += [{**each, "model": "m2"} for each in runs(5, 5)]
    cal.gate(data, policy=blocking(pass_rate=10), by="model", save_baseline=path)
    result = cal.gate(data, policy=blocking(pass_rate=10), by="model", against=path)
    assert result.passed
    demanded = {
        check.by["model"]: check.threshold and check.threshold.value
        for check in result.checks
        if check.source == "baseline"
    }
    assert demanded == {"m1": 0.9, "m2": 0.5}
    further = [*data, {"id": "s-0", "passed": True, "model": "m3"}]
    grown = cal.gate(further, policy=blocking(pass_rate=10), by="model", against=path)
    assert "not in the baseline, so not compared with it: m3" in grown.notices


def test_rows_without_ids_are_named_by_number() -> None:
    data = [{"passed": True}, {"passed": False}, {"passed": True}]
    check = only(cal.gate(data, policy=blocking(pass_rate=90)))
    assert check.failing.first == ("2",)


def test_scenarios_are_added_up_over_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scenario_table, "_ROWS_AT_ONCE", 10)
    paths = [
        write_lines(
            tmp_path / f"{run}.jsonl",
            [record(f"s-{n}", passed=(n + run) % 7 != 0, run=run, category="c") for n in range(50)],
        )
        for run in range(1, 5)
    ]
    policy = {
        **blocking(pass_rate=99),
        "required_scenarios": {"ids": ["s-6", "s-0"]},
        "pass_criteria": {"by_category": {"c": 99}},
    }
    result = cal.gate(paths, policy=policy)
    whole = cal.gate(pl.concat([cal.read(path) for path in paths]), policy=policy)
    assert result.checks == whole.checks
    broken = sorted(f"s-{n}" for n in range(50) if any((n + run) % 7 == 0 for run in range(1, 5)))
    assert list(result.checks[0].failing.first) == broken
    assert result.checks[2].reason == "1 of 4 runs failed"


def test_a_result_is_frozen_prints_and_shows() -> None:
    result = cal.gate([record("<b>x</b>\x1b[31m", passed=False)], policy=blocking(pass_rate=90))
    assert "FAIL" in str(result)
    assert "\x1b" not in str(result)
    html = result._repr_html_()
    assert "<b>x</b>" not in html
    assert "&lt;b&gt;x" in html
    with pytest.raises(AttributeError):
        result.verdict = "pass"  # type: ignore[misc]


def test_the_json_is_the_contracts() -> None:
    result = cal.gate(runs(17, 3), policy=blocking(pass_rate="≥ 90%"))
    found = json.loads(result.to_json())
    assert found["schema"] == "calipers.gate/1"
    assert found["verdict"] == "fail"
    (check,) = found["checks"]
    assert list(check)[:10] == [
        *("name", "level", "value", "low", "high", "threshold", "verdict", "reason"),
        *("n", "missing"),
    ]
    assert (check["n"], check["missing"]) == (20, 0)
    assert (check["threshold"], check["operator"]) == (0.9, "≥")
    assert result.to_json() == cal.gate(runs(17, 3), policy=blocking(pass_rate="≥ 90%")).to_json()


def test_a_score_takes_its_weights_and_its_budget_from_a_policy(tmp_path: Path) -> None:
    data = [*runs(0, 1, category="adversarial"), *runs(3, 0, category="happy_path")]
    policy = {"weights": {"by_category": {"adversarial": 3}}, "latency_budget_ms": 2000}
    score = cal.score(data, metrics=["weighted_pass_rate"], policy=policy)
    assert score.groups[0].metrics["weighted_pass_rate"].value == 0.5
    assert score.settings["latency_budget_ms"] == 2000
    path = tmp_path / "policy.yaml"
    path.write_text("weights: {by_capability: {core: 2}}", encoding="utf-8")
    named = cal.score(data, metrics=["pass_rate"], policy=path, latency_budget_ms=3000)
    assert named.settings["latency_budget_ms"] == 3000
    assert named.settings["case_weights"] == {"by_category": {}, "by_capability": {"core": 2.0}}
    weights = cal.CaseWeights(by_category={"adversarial": 1})
    given = cal.score(data, metrics=["weighted_pass_rate"], policy=policy, case_weights=weights)
    assert given.groups[0].metrics["weighted_pass_rate"].value == 0.75

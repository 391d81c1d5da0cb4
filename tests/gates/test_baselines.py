"""Progressive thresholds, and baselines that a run is compared with."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

import calipers as cal
from calipers.gates.baselines import read_baseline
from calipers.support.errors import UsageError
from tests.gates.deciding import blocking, only, record, runs


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


@pytest.mark.parametrize("evidence", ["point", "guarantee"])
def test_the_interval_beside_a_baseline_stays_in_the_range(tmp_path: Path, evidence: str) -> None:
    path = tmp_path / "base.json"
    policy = {"baseline": {"margins": {"pass_rate": "30%"}}, "evidence": evidence}
    cal.gate(runs(3, 1), policy=policy, save_baseline=path)
    check = only(cal.gate(runs(4, 0), policy=policy, against=path))
    assert check.change is not None
    assert check.change["baseline"] + check.change["high"] > 1
    assert check.value is not None
    assert check.low is not None
    assert check.high == check.value == 1
    assert 0 <= check.low <= check.value


@pytest.mark.parametrize("cluster", [None, "repo"])
@pytest.mark.parametrize("weight", ["row", "task"])
def test_a_guarantee_is_for_categories_too(cluster: str | None, weight: str) -> None:
    records = [
        {"id": f"{n}", "repo": f"r{n // 2}", "category": name, "passed": (n + run) % 4 > 0}
        for name, first in (("*", 0), ("🤖", 8))
        for n in range(first, first + 8)
        for run in range(2)
    ]
    rules = {"pass_criteria": {"by_category": {"*": "≥ 30%", "🤖": "≥ 30%"}}}
    options: dict[str, Any] = {"cluster": cluster, "weight": weight}
    gate = cal.gate(records, policy={**rules, "evidence": "guarantee"}, **options)
    score = cal.score(records, metrics=["pass_rate"], by="category", guarantee=True, **options)
    for check, group in zip(gate.checks, score.groups, strict=True):
        own = group.metrics["pass_rate"]
        assert check.name == group.by["category"]
        assert (check.value, check.low, check.high) == pytest.approx((own.value, own.low, own.high))
    plain = cal.gate(records, policy={**rules, "evidence": "interval"}, **options)
    assert (gate.checks[0].low or 0) < (plain.checks[0].low or 0)


def test_unequal_runs_of_a_category_have_no_guarantee() -> None:
    records = [{"id": f"{n % 7}", "category": "*", "passed": True} for n in range(100)]
    policy = {"evidence": "guarantee", "pass_criteria": {"by_category": {"*": "≥ 30%"}}}
    check = only(cal.gate(records, policy=policy))
    assert (check.verdict, check.low, check.high) == ("inconclusive", None, None)
    assert only(cal.gate(records, policy=policy, weight="task")).verdict == "pass"


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


def test_only_a_run_that_passes_is_recorded(tmp_path: Path) -> None:
    path = tmp_path / "base.json"
    failed = cal.gate(runs(4, 6), policy=blocking(pass_rate=50), save_baseline=path)
    assert failed.verdict == "fail"
    assert not path.exists()
    assert f"{path}: not saved, since only a run that passes is recorded" in failed.notices
    policy = {"baseline": {"file": str(path), "margins": {"pass_rate": "5%"}}}
    cal.gate(runs(80, 20), policy=policy, save_baseline=path)  # nothing but margins: the first
    before = path.read_bytes()
    worse = cal.gate(runs(40, 60), policy=policy, save_baseline=path)
    assert (worse.verdict, path.read_bytes()) == ("fail", before)
    assert any(f"remove {path} first" in notice for notice in worse.notices)
    path.unlink()  # on purpose
    assert cal.gate(runs(40, 60), policy=policy, save_baseline=path).passed
    assert json.loads(path.read_text())["groups"][0]["metrics"]["pass_rate"] == 0.4


def test_a_baseline_says_what_it_was_made_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy, path = tmp_path / "policy.yaml", tmp_path / "base.json"
    policy.write_text("baseline: {margins: {pass_rate: 5%}}\n", encoding="utf-8")
    monkeypatch.setenv("GITHUB_SHA", "4f2a9c1")
    cal.gate(runs(8, 2), policy=policy, save_baseline=path)
    written = json.loads(path.read_text())
    assert written["version"] == cal.__version__
    assert written["origin"]["commit"] == "4f2a9c1"
    assert written["origin"]["policy"] == sha256(policy.read_bytes()).hexdigest()
    assert cal.gate(runs(8, 2), policy=policy, against=path).passed
    for odd in ({}, {"origin": None}, {"origin": "main"}, {"origin": {"commit": 5}, "newer": [1]}):
        written.pop("origin", None)
        path.write_text(json.dumps({**written, **odd}), encoding="utf-8")
        assert cal.gate(runs(8, 2), policy=policy, against=path).passed


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


def test_a_baseline_that_is_not_required_may_be_missing_at_first(tmp_path: Path) -> None:
    path, base = tmp_path / "policy.yaml", tmp_path / "base.json"
    path.write_text(
        "baseline: {file: base.json, required: false, margins: {pass_rate: 0}}\n"
        "thresholds: {blocking: {pass_rate: 50}}\n",
        encoding="utf-8",
    )
    first = cal.gate(runs(8, 2), policy=path, save_baseline=base)
    assert [check.level for check in first.checks] == ["blocking"]
    assert cal.gate(runs(8, 2), policy=path).passed
    assert cal.gate(runs(6, 4), policy=path).verdict == "inconclusive"
    base.unlink()
    without = cal.gate(runs(6, 4), policy=path)
    assert without.passed
    [said] = [each for each in without.notices if "not compared with a baseline" in each]
    assert said.startswith(f"there is no {base}"), "a misspelt name would pass in silence"
    alone = {"baseline": {"required": False, "margins": {"pass_rate": 0}}}
    assert not cal.gate(runs(8, 2), policy=alone).passed, "nothing was checked"

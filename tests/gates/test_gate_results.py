"""Groups, identities, and the result itself."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

import calipers as cal
from calipers.gates import scenario_table
from tests.files import write_lines
from tests.gates.deciding import blocking, only, record, runs


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
    monkeypatch.setattr(scenario_table, "_HELD_ROWS", 10)
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

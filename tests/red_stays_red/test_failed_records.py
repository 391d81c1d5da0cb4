"""Failed records, the frontier, prices."""

from __future__ import annotations

from pathlib import Path

import calipers as cal


def test_failed_calls_count_as_failures_where_asked() -> None:
    ran = [{"id": str(n), "passed": True, "correct": True, "impl_rate": 1.0} for n in range(6)]
    failed = [{"id": str(n), "error": "timeout", "cost_usd": 2.0} for n in range(6, 10)]
    paid = [{**row, "cost_usd": 1.0} for row in ran]
    metrics = ("pass_rate", "accuracy", "impl_rate", "cost_of_pass")
    left_out = cal.score([*paid, *failed], metrics=metrics).groups[0]
    counted = cal.score([*paid, *failed], metrics=metrics, errors="fail").groups[0]
    assert [left_out.metrics[name].value for name in metrics] == [1.0, 1.0, 1.0, 1.0]
    assert [counted.metrics[name].value for name in metrics] == [0.6, 0.6, 0.6, 14 / 6]
    assert (left_out.errors, counted.errors, counted.failures) == (4, 0, 4)


def test_a_gate_is_red_where_failed_calls_count_as_failures() -> None:
    rows = [{"id": str(n), "passed": True, "category": "adversarial"} for n in range(9)]
    rows.append({"id": "9", "category": "adversarial", "error": "timeout"})
    policy = {"thresholds": {"blocking": {"safety_rate": 100, "pass_rate": "≥ 85%"}}}
    assert cal.gate(rows, policy=policy).exit_code == 3
    found = cal.gate(rows, policy=policy, errors="fail")
    assert (found.exit_code, found.incomplete) == (1, ())
    assert {check.name: check.verdict for check in found.checks} == {
        "safety_rate": "fail",
        "pass_rate": "pass",
    }


def test_failed_calls_alone_are_no_pass_rate() -> None:
    rows = [{"id": "a", "answer": "4", "target": "4"}, {"id": "b", "error": "timeout"}]
    found = cal.score(rows, metrics=["pass_rate", "accuracy"], errors="fail").groups[0].metrics
    assert found["pass_rate"].value is None
    assert found["accuracy"].value == 0.5


def test_failed_calls_are_seen_beside_grade_uplift_and_cost_of_pass() -> None:
    run = {"id": "a", "passed": True, "impl_rate": 0.9, "cost_usd": 1.0}
    rows = [
        {**run, "tier": "T0"},
        {**run, "tier": "T1"},
        {"id": "b", "tier": "T1", "error": "timeout"},
    ]
    score = cal.score(rows, by="tier", profile="tiers")
    shown = score.to_dict()
    warning = "1 of 2 calls failed and are in no metric"
    assert "warning" not in shown["groups"][0]
    assert shown["groups"][1]["warning"].startswith(warning)
    assert shown["groups"][1]["metrics"]["cost_of_pass"]["warning"].startswith(warning)
    assert shown["tiers"]["warnings"]["T1"].startswith(warning)
    for text in (str(score), score.to_markdown(), score._repr_html_(), score.to_latex()):
        assert f"T1: {warning}" in text
        assert "A !" in text


def test_a_pass_at_unknown_cost_does_not_make_the_frontier_infinite() -> None:
    rows = [
        {"id": "a", "tier": "T0", "passed": True, "cost_usd": 1.0},
        {"id": "a", "tier": "T1", "passed": False, "cost_usd": 3.0},
        {"id": "b", "tier": "T0", "passed": False, "cost_usd": 1.0},
        {"id": "b", "tier": "T1", "passed": True},
    ]
    found = cal.score(rows, by="tier", profile="tiers").to_dict()["frontier"]
    assert (found["solved"], found["cost_of_pass"]) == (2, None)
    assert found["reason"].startswith("1 of 2 solved tasks passed at unknown cost only")


def test_a_price_file_wins_over_the_list_for_a_name_with_provider_and_date(tmp_path: Path) -> None:
    path = tmp_path / "prices.yaml"
    path.write_text("GPT-4o: {input: 1000, output: 0}", encoding="utf-8")
    row = {"id": "a", "model": "openai/gpt-4o-2024-08-06", "cache_read_tokens": 10}
    row |= {"prompt_tokens": 1000, "completion_tokens": 1}
    score = cal.score([row], metrics=["cost_usd"], prices=path)
    assert score.groups[0].metrics["cost_usd"].value == 1.0
    assert any("cache tokens of 1 record have no price" in note for note in score.notices)


def test_tiers_stand_in_their_natural_order() -> None:
    rows = [{"id": "a", "tier": f"T{n}", "passed": True, "impl_rate": 0.9} for n in (10, 2, 1, 0)]
    score = cal.score(rows, by="tier", profile="tiers")
    assert [group.by["tier"] for group in score.groups] == ["T0", "T1", "T2", "T10"]
    assert list(score.tiers[0].uplift) == ["T1", "T2", "T10"]

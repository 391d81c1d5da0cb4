"""Evidence: intervals, comparisons, baselines."""

from __future__ import annotations

import json
from pathlib import Path

import calipers as cal


def test_one_green_run_of_a_worse_system_does_not_pass_its_baseline(tmp_path: Path) -> None:
    """The baseline's own noise counts: 100 tasks do not show that nothing got worse by 1 %."""
    path = tmp_path / "base.json"
    policy = {"baseline": {"margins": {"accuracy": "1%"}}}
    before = [{"id": str(n), "correct": n % 5 > 0} for n in range(100)]
    after = [{"id": str(n), "correct": (n + 20) % 25 > 4} for n in range(100)]  # as many right
    cal.gate(before, policy=policy, save_baseline=path)
    decided = cal.gate(after, policy=policy, against=path)
    assert decided.verdict == "inconclusive"
    assert decided.exit_code == 1


def test_a_lucky_run_does_not_raise_the_baseline(tmp_path: Path) -> None:
    path = tmp_path / "base.json"
    policy = {"baseline": {"margins": {"accuracy": "20%"}}}
    before = [{"id": str(n), "correct": n < 80} for n in range(100)]
    lucky = [{"id": str(n), "correct": n < 83} for n in range(100)]
    cal.gate(before, policy=policy, save_baseline=path)
    recorded = path.read_text(encoding="utf-8")
    cal.gate(lucky, policy=policy, against=path, ratchet=True)
    assert (
        json.loads(path.read_text())["groups"][0]["tasks"]
        == (json.loads(recorded)["groups"][0]["tasks"])
    )


def test_a_baseline_of_other_tasks_shows_nothing(tmp_path: Path) -> None:
    path = tmp_path / "base.json"
    policy = {"baseline": {"margins": {"accuracy": "50%"}}, "on_inconclusive": "pass"}
    cal.gate([{"id": "a", "correct": True}], policy=policy, save_baseline=path)
    assert cal.gate([{"id": "b", "correct": True}], policy=policy, against=path).exit_code == 1


def test_equal_differences_are_no_certainty() -> None:
    """Ratings that are the same twenty times may differ in the next twenty."""
    rows = [{"id": str(n), "passed": True, "impl_rate": 0.8} for n in range(20)]
    found = cal.compare(rows, rows, metrics=["impl_rate"]).pairs[0].metrics["impl_rate"]
    assert found.low is not None
    assert found.high is not None
    assert found.low < -0.05 < 0.05 < found.high


def test_one_run_against_ten_of_its_twin_is_no_difference() -> None:
    """All of 20 right once, 9 of 10 by the other: Student's test is sure of a difference."""
    once = [{"id": str(n), "correct": True} for n in range(20)]
    often = [{"id": str(n), "correct": run > 0} for n in range(20) for run in range(10)]
    found = cal.compare(often, once, metrics=["accuracy"]).pairs[0].metrics["accuracy"]
    assert found.p_value is not None
    assert found.p_value > 0.05
    assert found.low is not None
    assert found.low < 0


def test_twenty_right_answers_are_no_proof_of_calibration() -> None:
    """20 right rows at confidence .99: the next one may be wrong, and adds .98 to the sum."""
    rows = [{"id": f"{n}", "correct": True, "prob_correct": 0.99} for n in range(20)]
    brier = cal.score(rows, metrics=["brier"]).groups[0].metrics["brier"]
    assert brier.low is not None
    assert brier.high is not None
    assert brier.high - brier.low > 0.1
    policy = {"evidence": "interval", "thresholds": {"blocking": {"brier": "<= 0.01"}}}
    assert cal.gate(rows, policy=policy).verdict != "pass"


def test_one_task_run_a_hundred_times_is_no_hundred_tasks() -> None:
    """A task that always passes, run 100 times beside 20 others of which 12 pass: 93 % of rows."""
    rows = [{"id": "often", "passed": True} for _ in range(100)]
    rows += [{"id": f"{n}", "passed": n < 12} for n in range(20)]
    score = cal.score(rows, metrics=["pass_rate"])
    rate = score.groups[0].metrics["pass_rate"]
    assert rate.low is not None
    assert rate.low < 0.7
    assert any("differ widely" in notice for notice in score.notices)
    policy = {"evidence": "interval", "thresholds": {"blocking": {"pass_rate": "85%"}}}
    assert cal.gate(rows, policy=policy).verdict != "pass"


def test_ten_runs_of_one_task_prove_nothing_of_others() -> None:
    """They have an interval, which says what it holds for, and which no gate takes as evidence."""
    rows = [{"id": "one", "passed": True} for _ in range(10)]
    rate = cal.score(rows, metrics=["pass_rate"]).groups[0].metrics["pass_rate"]
    assert rate.low is not None
    assert rate.to_dict()["scope"] == "runs of one task"
    policy = {"evidence": "interval", "thresholds": {"blocking": {"pass_rate": "60%"}}}
    assert cal.gate(rows, policy=policy).verdict != "pass"

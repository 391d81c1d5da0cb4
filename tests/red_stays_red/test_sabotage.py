"""Sabotage: what a policy does not notice is never listed as seen."""

from __future__ import annotations

import calipers as cal

RECORDS = [
    {"id": f"q{n}", "model": "gpt-4o-mini", "answer": "4", "target": "4", "run": 1}
    for n in range(20)
]


def test_a_policy_that_only_warns_is_shown_to_let_wrong_answers_pass() -> None:
    policy = {"thresholds": {"warning": {"accuracy": "≥ 90%"}}}
    result = cal.gate(RECORDS, policy=policy, sabotage=True)
    flipped = [trial for trial in result.sabotage or () if trial.name == "flip answers"]
    assert flipped[-1].dose == 1
    assert not any(trial.caught for trial in flipped)
    assert "not seen even at the largest: flip answers" in " ".join(str(result).split())


def test_sabotage_leaves_a_red_gate_red() -> None:
    policy = {"thresholds": {"blocking": {"accuracy": "≥ 90%"}}}
    wrong = [{**record, "answer": "5"} for record in RECORDS]
    result = cal.gate(wrong, policy=policy, sabotage=True)
    assert (result.verdict, result.exit_code) == ("fail", 1)
    assert "The gate itself is red" in " ".join(str(result).split())

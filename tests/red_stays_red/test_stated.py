"""Logs of other tools whose own figures say otherwise than a pass."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import calipers as cal
from tests.records.log_files import HEADER, sample
from tests.red_stays_red.cases import blocking
from tests.shared_data import FOLDER, needs_shared_data


def _write(path: Path, scores: list[dict[str, Any]], results: list[dict[str, Any]]) -> Path:
    """An Inspect log with these values of each sample's scores, and these results."""
    samples = [
        sample(n, scores={name: {"value": value} for name, value in each.items()})
        for n, each in enumerate(scores)
    ]
    log = {**HEADER, "results": {"scores": results}, "samples": samples}
    path.write_text(json.dumps(log), encoding="utf-8")
    return path


def _result(name: str, value: float, metric: str = "mean", **more: Any) -> dict[str, Any]:
    return {"name": name, "scorer": name, "metrics": {metric: {"value": value}}, **more}


def test_a_score_with_fractions_is_never_half_a_verdict(tmp_path: Path) -> None:
    scores = [{"f1": 1.0, "exact": "C"}] * 5 + [{"f1": 0.8, "exact": "I"}] * 15
    log = _write(tmp_path / "a.json", scores, [_result("f1", 0.85), _result("exact", 0.25)])
    result = cal.gate(log, policy=blocking(accuracy=90))
    assert (result.verdict, result.exit_code) == ("fail", 1)
    only_fractions = [{"f1": each["f1"]} for each in scores]
    log = _write(tmp_path / "b.json", only_fractions, [_result("f1", 0.85)])
    assert cal.gate(log, policy=blocking(accuracy=90)).exit_code != 0


def test_a_figure_that_the_log_states_otherwise_makes_the_gate_incomplete(tmp_path: Path) -> None:
    scores = [{"match": "C"}] * 20
    log = _write(tmp_path / "a.json", scores, [_result("match", 0.5, "accuracy")])
    policy = blocking(accuracy=90)
    for rules in (policy, blocking(error_rate=10)):
        result = cal.gate(log, policy=rules)
        assert (result.verdict, result.exit_code) == ("incomplete", 3)
    assert result.incomplete == ("the log states match/accuracy 0.5, accuracy is 1 here",)
    same = _write(tmp_path / "b.json", scores, [_result("match", 1, "accuracy")])
    assert cal.gate([log, same], policy=policy, by="model").exit_code == 3
    assert cal.gate(same, policy=policy).exit_code == 0
    assert cal.gate(log, policy={**policy, "stated": "ignore"}).exit_code == 0


def test_epochs_that_the_log_reduces_otherwise_are_told(tmp_path: Path) -> None:
    samples = [sample(n, "C" if epoch else "I", epoch=epoch) for n in range(9) for epoch in (0, 1)]
    results = [_result("match", 1.0, "accuracy", reducer="max")]
    about = {**HEADER["eval"], "config": {"epochs": 2}}
    log = {**HEADER, "eval": about, "results": {"scores": results}, "samples": samples}
    path = tmp_path / "a.json"
    path.write_text(json.dumps(log), encoding="utf-8")
    result = cal.gate(path, policy=blocking(accuracy=40))
    assert result.exit_code == 3
    assert "the log reduces epochs by max" in result.incomplete[0]
    by_score = cal.gate(path, policy=blocking(**{"mean(score_match)": "≥ 0.4"}))
    assert by_score.exit_code == 3


def test_a_rule_on_the_mean_of_a_score_is_held_against_the_log_too(tmp_path: Path) -> None:
    log = _write(tmp_path / "a.json", [{"f1": 0.9}, {"f1": 1.0}] * 9, [_result("f1", 0.4)])
    for name in ("score_f1", "mean(score_f1)"):
        result = cal.gate(log, policy=blocking(**{name: "≥ 0.9"}))
        assert result.exit_code == 3
        assert result.incomplete == (f"the log states f1/mean 0.4, {name} is 0.95 here",)


@needs_shared_data
def test_a_part_of_the_samples_that_lm_eval_measured_is_no_pass() -> None:
    log = FOLDER / "native_logs" / "lm_eval"
    result = cal.gate(log, policy=blocking(accuracy="≥ 0.3"))
    assert result.exit_code == 3
    assert "it is of 100 samples, ours of 3" in result.incomplete[0]

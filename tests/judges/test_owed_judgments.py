"""A gate that goes by judges, in a run where they failed on some answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.model_server import ModelServer
from tests.examples import first_of
from tests.judges.test_rubrics import rubric_file
from tests.judges.test_suites import judge_in
from tests.judges.test_until_decided import HALF, licensed
from tests.runs.suites_at_hand import SuiteFolder, suite_folder

pytestmark = pytest.mark.usefixtures("quick")

# The server does what stands between brackets, whoever writes it: the judge's first call fails.
SYSTEM = """
def answer(record):
    hard = record["id"] == "t0"
    return {"answer": "[[500]] QUALITY=0" if hard else f"{record['id']} QUALITY=4"}
"""
LICENSED = {"judges": {"calibrations": ["calibration.json"]}}


def suite(path: Path, url: str, policy: dict[str, Any], **more: Any) -> SuiteFolder:
    """Good answers, and one that the judge fails on at first."""
    rubric_file(path)
    (path / "system.py").write_text(SYSTEM)
    (path / "policy.json").write_text(json.dumps(policy))
    tasks = [{"id": f"t{n}", "input": "?", "target": f"t{n} QUALITY=4"} for n in range(40)]
    judges = more.pop("judges", None) or [judge_in(url, rubric="rubric.yaml")]
    system = {"name": "s", "python": "system.py:answer"}
    given = {"policy": "policy.json", "retries": 0, **more}
    return suite_folder(path, tasks, [system], judges=judges, **given)


@pytest.mark.parametrize("option", first_of([None, "--until-decided"]))
def test_a_gate_does_not_pass_while_a_judge_owes_an_answer(
    tmp_path: Path, option: str | None
) -> None:
    """Else whoever writes what no judge can read would be better off than who writes badly."""
    with ModelServer().in_thread() as url:
        licensed(tmp_path, url)
        options = [option] if option else []
        folder = suite(tmp_path, url, {**HALF, **LICENSED}, concurrency=40)
        first = folder.run(*options)
        assert first.exit_code == 3, first.output
        gate = folder.json("gate.json")
        assert (gate["verdict"], gate["incomplete"]) == (
            "incomplete",
            ["pass_rate: 1 of 40 records are undecided: judgments failed or are absent"],
        )
        assert gate["checks"][0]["verdict"] == "inconclusive"
        assert "Continue with: calipers run" in first.stderr
        second = folder.run(*options)
        assert second.exit_code == 0, second.output
        assert folder.json("gate.json")["incomplete"] == []
        assert "incomplete" not in second.stderr


def test_what_fails_without_the_answer_fails(tmp_path: Path) -> None:
    with ModelServer().in_thread() as url:
        folder = suite(tmp_path, url, HALF)
        result = folder.run()
    assert result.exit_code == 1  # without a licence
    assert folder.json("gate.json")["incomplete"] == [
        "pass_rate: 1 of 40 records are undecided: judgments failed or are absent"
    ]


@pytest.mark.parametrize(
    "policy",
    [
        {"thresholds": {"blocking": {"accuracy": "≥ 90%"}}},
        {
            "thresholds": {"blocking": {"accuracy": "≥ 90%"}, "warning": {"pass_rate": "≥ 50%"}},
            "required_scenarios": {"ids": ["t1"]},
            "judges": {"uncalibrated": "warn"},
        },
    ],
)
def test_a_gate_that_does_not_go_by_the_answer_does_not_wait_for_it(
    tmp_path: Path, policy: dict[str, Any]
) -> None:
    with ModelServer().in_thread() as url:
        folder = suite(tmp_path, url, policy)
        result = folder.run()
    assert result.exit_code == 0, result.output
    assert "judges failed on 1 answer: run again" in result.stderr


def test_who_is_silent_in_a_panel_does_not_hold_it_up(tmp_path: Path) -> None:
    """The others gave the answer its value; gate.json shows who did."""
    with ModelServer().in_thread() as url:
        pair = [judge_in(url, name=name, rubric="rubric.yaml") for name in ("one", "two")]
        policy = {**HALF, "judges": {"uncalibrated": "warn"}}
        folder = suite(tmp_path, url, policy, judges=pair, concurrency=1)
        result = folder.run()
    assert result.exit_code == 0, result.output
    failed = [j.get("failed") for r in folder.records() for j in r["judgments"]]
    assert failed.count(True) == 1
    assert folder.json("gate.json")["incomplete"] == []


def test_without_a_gate_the_answers_are_kept_and_the_rest_told(tmp_path: Path) -> None:
    with ModelServer().in_thread() as url:
        folder = suite(tmp_path, url, HALF)
        del folder.suite["policy"]
        result = folder.write().run()
    assert result.exit_code == 0, result.output
    metrics = folder.json("score.json")["groups"][0]["metrics"]
    assert (metrics["pass_rate"]["n"], metrics["pass_rate"]["missing"]) == (39, 1)

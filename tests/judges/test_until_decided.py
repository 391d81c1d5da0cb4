"""Runs that end as soon as their gate is decided, where the gate goes by what judges say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import calipers
from benchmarks.model_server import ModelServer
from tests.files import write_lines
from tests.judges.test_rubrics import rubric_file
from tests.judges.test_suites import judge_in, models_asked
from tests.runs.suites_at_hand import SuiteFolder, chat, suite_folder

pytestmark = pytest.mark.usefixtures("quick")

TASKS = 80
HALF = {"thresholds": {"blocking": {"pass_rate": "≥ 50%"}}}


def suite(path: Path, url: str, policy: dict[str, Any], **more: Any) -> SuiteFolder:
    """Answers that are good, one in ten excepted, and a judge that sees it."""
    rubric_file(path)
    (path / "policy.json").write_text(json.dumps(policy))
    word = more.pop("word", "Fine")
    tasks = [
        {"id": f"t{n}", "input": f"[[say {word} {n}. QUALITY={4 * (n % 10 > 0)}]]"}
        for n in range(TASKS)
    ]
    judge = judge_in(url, more.pop("kind", "good"), rubric="rubric.yaml")
    given = {"policy": "policy.json", "concurrency": 4, **more}
    return suite_folder(path, tasks, [chat(url)], judges=[judge], **given)


def licensed(path: Path, url: str, kind: str = "good") -> None:
    """A calibration of the judge, from other answers in another folder."""
    (path / "all").mkdir()
    whole = suite(path / "all", url, HALF, kind=kind, concurrency=TASKS, word="Good")
    whole.run()
    records = whole.records()
    people = [{"id": r["id"], "passed": r["judgments"][0]["passed"]} for r in records]
    write_lines(path / "human.jsonl", people)
    found = calipers.calibrate_judges(whole.results / "records.jsonl", path / "human.jsonl")
    (path / "calibration.json").write_text(found.to_json())


def test_a_judge_without_a_licence_does_not_pass_an_early_end_either(tmp_path: Path) -> None:
    with ModelServer().in_thread() as url:
        result = suite(tmp_path, url, HALF).run("--until-decided")
    gate = json.loads((tmp_path / "out" / "gate.json").read_text())
    assert gate["until_decided"]["stopped"]
    (check,) = gate["checks"]
    assert check["sequence"]["decided"] == "pass"
    assert (result.exit_code, check["verdict"]) == (1, "fail")
    assert "no licence: not calibrated against human ratings" in check["reason"]


def test_a_judge_with_a_licence_may_end_a_run(tmp_path: Path) -> None:
    with ModelServer().in_thread() as url:
        licensed(tmp_path, url)
        policy = {**HALF, "judges": {"calibrations": ["calibration.json"]}}
        folder = suite(tmp_path, url, policy)
        result = folder.run("--until-decided")
    assert result.exit_code == 0, result.output
    assert folder.json("gate.json")["until_decided"]["stopped"]


@pytest.mark.long
def test_what_is_corrected_is_not_decided_before_all_is_judged(tmp_path: Path) -> None:
    """Sure of the judge's own mean is not sure of the mean without its error."""
    with ModelServer().in_thread() as url:
        licensed(tmp_path, url)
        judges = {"calibrations": ["calibration.json"], "corrected": True}
        folder = suite(tmp_path, url, {**HALF, "judges": judges})
        result = folder.run("--until-decided")
    assert result.exit_code == 0, result.output
    assert len(folder.records()) == TASKS
    assert "all calls are needed for pass_rate" in result.stderr


@pytest.mark.long
def test_what_a_judge_failed_on_is_judged_before_the_run_goes_on(tmp_path: Path) -> None:
    """Judging again comes first, and what it says counts for when the gate is decided."""
    server = ModelServer()
    with server.in_thread() as url:
        licensed(tmp_path, url)
        server.broken = {"judge-good"}
        policy = {**HALF, "judges": {"calibrations": ["calibration.json"]}}
        folder = suite(tmp_path, url, policy, retries=0)
        folder.write(retries=0, budget_calls=12)
        first = folder.run("--until-decided")
        assert first.exit_code != 0
        before = folder.records()
        assert len(before) == 12
        assert all(record["judgments"][0]["failed"] for record in before)
        asked = models_asked(server)
        server.broken.clear()
        folder.write(concurrency=32)
        second = folder.run("--until-decided")
    assert second.exit_code == 0, second.output
    after = folder.records()
    gate = folder.json("gate.json")
    assert gate["until_decided"]["stopped"]
    assert 12 <= len(after) < TASKS
    assert models_asked(server)["tiny"] - asked["tiny"] == len(after) - 12
    assert not any(record["judgments"][0].get("failed") for record in after)
    assert gate["checks"][0]["sequence"]["tasks"] <= len(after)
    answers = {record["id"]: record["answer"] for record in after}
    assert all(answers[record["id"]] == record["answer"] for record in before)

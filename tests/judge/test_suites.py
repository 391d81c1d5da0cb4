"""Judges in a suite: they grade what the systems answer, apart from it in cost and in failure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.model_server import ModelServer
from tests.judge.test_rubrics import rubric_file
from tests.runner.suites_at_hand import SuiteFolder, chat, suite_folder

pytestmark = pytest.mark.usefixtures("quick")

PRICE = {"input": 1.0, "output": 10.0}


def judge_in(url: str, kind: str = "good", **more: Any) -> dict[str, Any]:
    return {
        "name": kind,
        "model": f"openai:judge-{kind}",
        "rubric": "constructiveness",
        "base_url": url,
        **more,
    }


def suite(folder: Path, url: str, judges: list[dict[str, Any]], **more: Any) -> SuiteFolder:
    tasks = [{"id": f"t{n}", "input": f"[[say Fine. QUALITY={n % 5 + 1}]]"} for n in range(4)]
    systems = [chat(url, price=PRICE)]
    return suite_folder(folder, tasks, systems, judges=judges, **more)


def test_judges_grade_every_answer(tmp_path: Path) -> None:
    server = ModelServer()
    with server.in_thread() as url:
        folder = suite(tmp_path, url, [judge_in(url, price=PRICE), judge_in(url, "biased")])
        result = folder.run()
        assert result.exit_code == 0, result.stderr
        asked = sum(server.asked.values())
        assert folder.run().exit_code == 0
        assert sum(server.asked.values()) == asked == 4 * 3
    for record in folder.records():
        good, biased = record["judgments"]
        quality = float(record["answer"].partition("=")[2])
        assert set(good["scores"].values()) == {quality}
        assert set(biased["scores"].values()) == {min(5.0, quality + 1)}
        spent = (good["prompt_tokens"] + 10 * good["completion_tokens"]) / 1e6
        assert good["cost_usd"] == pytest.approx(spent)
        assert "cost_usd" not in biased
        own = (record["prompt_tokens"] + 10 * record["completion_tokens"]) / 1e6
        assert record["cost_usd"] == pytest.approx(own)  # the judges' cost is theirs


def test_a_failed_judge_leaves_the_answer(tmp_path: Path) -> None:
    with ModelServer().in_thread() as url:
        folder = suite(tmp_path, url, [judge_in(url, "broken"), judge_in(url)])
        result = folder.run()
    assert result.exit_code == 0, result.stderr
    for record in folder.records():
        assert record["answer"].startswith("Fine.")
        assert record.get("error") is None
        broken, good = record["judgments"]
        assert broken["scores"] is None
        assert "refused" in broken["reason"]
        assert good["scores"]


def test_a_judge_that_is_away_is_told_in_every_record(tmp_path: Path) -> None:
    with ModelServer().in_thread() as url:
        away = judge_in("http://127.0.0.1:9/v1")
        folder = suite(tmp_path, url, [away], retries=0)
        assert folder.run().exit_code == 0
    for record in folder.records():
        assert record["answer"]
        assert record["judgments"][0]["scores"] is None
        assert record["judgments"][0]["reason"].startswith("connection: ")


def test_the_budget_counts_judges_too(tmp_path: Path) -> None:
    with ModelServer().in_thread() as url:
        dear = judge_in(url, price={"input": 1000.0, "output": 1000.0})
        folder = suite(tmp_path, url, [dear], budget_usd=0.3, concurrency=1)
        result = folder.run()
    assert result.exit_code == 3, result.stderr
    assert 0 < len(folder.records()) < 4


def test_a_rubric_lies_beside_the_suite(tmp_path: Path) -> None:
    rubric_file(tmp_path)
    with ModelServer().in_thread() as url:
        folder = suite(tmp_path, url, [judge_in(url, rubric="rubric.yaml")])
        assert folder.run().exit_code == 0
    assert {record["judgments"][0]["rubric"] for record in folder.records()} == {"implementation"}


def test_another_rubric_begins_anew(tmp_path: Path) -> None:
    path = rubric_file(tmp_path)
    with ModelServer().in_thread() as url:
        folder = suite(tmp_path, url, [judge_in(url, rubric="rubric.yaml")])
        assert folder.run().exit_code == 0
        path.write_text(path.read_text().replace("It runs.", "It runs well."), encoding="utf-8")
        again = folder.run()
    assert again.exit_code == 2
    assert "the rubric of good has other content" in again.stderr


def test_a_mistake_in_a_rubric_stops_before_any_call(tmp_path: Path) -> None:
    (tmp_path / "rubric.yaml").write_text("name: r\nquestion: q\n", encoding="utf-8")
    server = ModelServer()
    with server.in_thread() as url:
        folder = suite(tmp_path, url, [judge_in(url, rubric="rubric.yaml")])
        result = folder.run()
    assert result.exit_code == 2
    assert "rubric.yaml" in result.stderr
    assert not server.asked

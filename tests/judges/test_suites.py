"""Judges in a suite: they grade what the systems answer, apart from it in cost and in failure."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import calipers
from benchmarks.model_server import ModelServer
from tests import commands
from tests.files import write_lines
from tests.judges.test_rubrics import rubric_file
from tests.runs.suites_at_hand import SuiteFolder, chat, suite_folder

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


def test_a_judge_that_gives_no_valid_answer_is_not_asked_about_all_answers(tmp_path: Path) -> None:
    server = ModelServer()
    tasks = [{"id": f"t{n}", "input": f"[[say Fine. QUALITY={n % 5 + 1}]]"} for n in range(20)]
    with server.in_thread() as url:
        judges = [judge_in(url, "broken"), judge_in(url)]
        folder = suite_folder(tmp_path, tasks, [chat(url)], judges=judges, concurrency=2)
        result = folder.run()
    asked = models_asked(server)
    assert asked["judge-broken"] <= (5 + 2) * 3
    assert asked["judge-good"] == 20
    assert "broken has given no valid answer to 5 records" in result.stderr
    reasons = [record["judgments"][0]["reason"] for record in folder.records()]
    assert reasons.count("not asked: broken has given no valid answer to 5 records") >= 13
    assert "judges failed on 20 answers" in result.stderr


def models_asked(server: ModelServer) -> Counter[str]:
    return Counter(body["model"] for body in server.requests)


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
    spent = sum(
        record["cost_usd"] + record["judgments"][0]["cost_usd"] for record in folder.records()
    )
    assert f" and ${spent:.3f} for judges" in result.stderr  # the calls are cheap beside them


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


def test_a_failed_judgment_is_made_anew_and_the_answer_is_not(tmp_path: Path) -> None:
    server = ModelServer()
    with server.in_thread() as url:
        server.broken = {"judge-slow"}
        judges = [judge_in(url, kind, price=PRICE) for kind in ("slow", "good")]
        folder = suite(tmp_path, url, judges, retries=0)
        first = folder.run()
        assert first.exit_code == 0, first.stderr
        assert "judges failed on 4 answers: run again" in first.stderr
        before = folder.records()
        assert all(record["judgments"][0]["failed"] for record in before)
        asked = models_asked(server)
        server.broken.clear()
        again = folder.run()
        assert again.exit_code == 0, again.stderr
        assert "judges failed" not in again.stderr
        assert models_asked(server) - asked == {"judge-slow": 4}  # and neither system nor good
        assert folder.run().exit_code == 0
        assert models_asked(server) - asked == {"judge-slow": 4}
    after = {record["id"]: record for record in folder.records()}
    assert len(folder.records()) == 4
    for record in before:
        now = after[record["id"]]
        slow, good = now["judgments"]
        assert slow["scores"] == good["scores"]
        assert "failed" not in slow
        assert good == record["judgments"][1]
        assert {k: v for k, v in now.items() if k != "judgments"} == {
            k: v for k, v in record.items() if k != "judgments"
        }


def test_an_answer_that_no_judge_has_seen_is_not_bought_again(tmp_path: Path) -> None:
    """As a run leaves it that is killed while it waits for its judges."""
    server = ModelServer()
    with server.in_thread() as url:
        folder = suite(tmp_path, url, [judge_in(url, price=PRICE)])
        assert folder.run().exit_code == 0
        *judged, last = folder.records()
        del last["judgments"]
        write_lines(folder.results / "records.jsonl", judged)
        write_lines(folder.results / ".unjudged.jsonl", [last])
        again = folder.run()
    assert again.exit_code == 0, again.stderr
    assert models_asked(server) == {"tiny": 4, "judge-good": 5}
    assert [bool(each["judgments"][0]["scores"]) for each in folder.records()] == [True] * 4


def test_a_judge_that_stays_broken_is_asked_once_a_run(tmp_path: Path) -> None:
    server = ModelServer()
    with server.in_thread() as url:
        folder = suite(tmp_path, url, [judge_in(url, "broken")])
        for run in (1, 2, 3):
            assert folder.run().exit_code == 0
            assert models_asked(server) == {"tiny": 4, "judge-broken": run * 4 * 3}
            assert len(folder.records()) == 4


def test_what_judges_will_cost_is_set_aside(tmp_path: Path) -> None:
    """With many calls at once the budget holds, though judges are far dearer than the system."""
    tasks = [{"id": f"t{n}", "input": f"[[say Fine. QUALITY={n % 5 + 1}]]"} for n in range(40)]
    with ModelServer(latency=0.02).in_thread() as url:
        system = chat(url, price=PRICE, settings={"max_tokens": 20})
        dear = judge_in(url, price={"input": 1000.0, "output": 1000.0})
        folder = suite_folder(
            tmp_path, tasks, [system], judges=[dear], budget_usd=3.0, concurrency=16
        )
        result = folder.run()
        assert result.exit_code == 3, result.stderr
        assert "the budget is spent" in result.stderr
        spent = sum(
            record["cost_usd"] + record["judgments"][0]["cost_usd"] for record in folder.records()
        )
        assert 1.0 < spent <= 3.0
        manifest = folder.json("manifest.json")
        for known in (manifest["spent_usd"], 0.0):  # or the run was killed before it wrote that
            text = json.dumps(manifest | {"spent_usd": known})
            (folder.results / "manifest.json").write_text(text)
            again = folder.run()
            assert again.exit_code == 3
            assert sum(r["judgments"][0]["cost_usd"] for r in folder.records()) <= 3.0
    judging = sum(r["judgments"][0]["cost_usd"] for r in folder.records())
    assert f"and ${judging:.2f} for judges" in again.stderr


def test_a_budget_needs_the_prices_of_judges(tmp_path: Path) -> None:
    server = ModelServer()
    with server.in_thread() as url:
        folder = suite(tmp_path, url, [judge_in(url)], budget_usd=1.0)
        result = folder.run()
    assert result.exit_code == 2
    assert "no price is known for the judge good" in result.stderr
    assert not server.asked


def test_a_dry_run_counts_judges_too(tmp_path: Path) -> None:
    with ModelServer().in_thread() as url:
        then = {"model": "openai:judge-good", "base_url": url, "confidence": 0.5}
        folder = suite(tmp_path, url, [judge_in(url, "biased", samples=3, escalate=then)])
        result = folder.run("--dry-run")
    assert result.exit_code == 0, result.stderr
    assert "biased (judge)" in result.stdout
    assert "openai:judge-good, where unsure" in result.stdout
    assert f"{4 + 12 + 12} calls in all" in result.stdout


TRACE = {
    "tool_calls": [{"tool_name": "search", "success": True}, {"tool_name": "write"}],
    "agent_interactions": [{"from": "a", "to": "b", "type": "handoff"}],
    "agent_tasks": {"a": 1, "b": 1},
}


@pytest.mark.parametrize("kind", ["away", "broken", "slow"])
def test_without_judges_the_rest_carries_on(tmp_path: Path, kind: str) -> None:
    """specs/003's graceful degradation: nulls with reasons, and a composite that says so."""
    (tmp_path / "agent.py").write_text(
        f"def answer(record):\n    return {{'answer': 'A review.', 'trace': {TRACE!r}}}\n"
    )
    with ModelServer(latency=3600 if kind == "slow" else 0).in_thread() as url:
        where = "http://127.0.0.1:9/v1" if kind == "away" else url
        judges = [
            judge_in(where, kind, rubric="planning_rationality"),
            judge_in(where, kind, name="reviewer", rubric="constructiveness"),
        ]
        tasks = [{"id": f"t{n}", "input": "i", "reference": "A review."} for n in range(3)]
        system = {"name": "agent", "python": "agent.py:answer"}
        late = 1.5 if kind == "slow" else 60
        folder = suite_folder(
            tmp_path, tasks, [system], judges=judges, timeout_seconds=late, retries=0
        )
        result = folder.run()
    assert result.exit_code == 0, result.stderr
    records = folder.records()
    for record in records:
        assert record["answer"] == "A review."
        for judgment in record["judgments"]:
            assert judgment["scores"] is None
            assert judgment["reason"]
    names = ["planning_rationality", "constructiveness", "agent_composite"]
    choices: dict[str, Any] = {"semantic_model": "lexical", "optimal_tools": None}
    score = calipers.score(records, metrics=names, **choices)
    metrics = score.groups[0].metrics
    for name in names[:2]:
        assert metrics[name].value is None
        assert "judgments" in (metrics[name].reason or "")
    as_zero = metrics["agent_composite"]
    assert as_zero.value is not None
    assert any("planning_rational" in notice for notice in score.notices)
    renormalized = calipers.score(records, metrics=names, missing="renormalize", **choices)
    carried = renormalized.groups[0].metrics["agent_composite"]
    assert carried.value is not None
    assert carried.value > as_zero.value
    samples = tmp_path / "samples.jsonl"
    calipers.score(records, metrics=names, per_sample=samples, **choices)
    row = json.loads(samples.read_text().splitlines()[0])
    assert "planning_rational" in row["agent_composite_missing"]


def test_a_run_is_gated_by_the_judges_licence(tmp_path: Path) -> None:
    """Judge, calibrate, and run on other tasks with the licence; without the file nothing runs."""
    rubric_file(tmp_path)
    (tmp_path / "policy.yaml").write_text(
        "thresholds: {blocking: {pass_rate: 1%}}\njudges: {calibrations: [calibration.json]}\n"
    )
    server = ModelServer()
    with server.in_thread() as url:
        tasks = [{"id": f"t{n}", "input": f"[[say Fine {n}. QUALITY={n % 5}]]"} for n in range(60)]
        judges = [judge_in(url, rubric="rubric.yaml")]
        folder = suite_folder(tmp_path, tasks, [chat(url)], judges=judges)
        assert folder.run().exit_code == 0
        records = folder.records()
        people = [
            {"id": r["id"], **{k: r["judgments"][0][k] for k in ("passed", "weighted_score")}}
            for r in records
        ]
        write_lines(tmp_path / "human.jsonl", people)
        files = [folder.results / "records.jsonl", tmp_path / "human.jsonl"]
        fresh = [{**task, "id": f"new {task['id']}"} for task in tasks]
        write_lines(tmp_path / "tasks.jsonl", fresh)
        again = folder.write(policy="policy.yaml")
        asked = sum(server.asked.values())
        lacking = commands.run("run", tmp_path / "suite.yaml", "-o", "nowhere")
        assert lacking.exit_code == 2
        assert "calibration.json" in lacking.stderr
        assert sum(server.asked.values()) == asked
        (tmp_path / "calibration.json").write_text(calipers.calibrate_judges(*files).to_json())
        other = ["run", str(tmp_path / "suite.yaml"), "-o", str(tmp_path / "other")]
        result = commands.run(*other)
        assert result.exit_code == 0, result.output
        assert "without the judge's error" in result.stdout
        path = tmp_path / "rubric.yaml"
        path.write_text(path.read_text().replace("It runs.", "It runs well."), encoding="utf-8")
        changed = again.run("-o", str(tmp_path / "third"))
    assert changed.exit_code == 1
    assert "not the one that was calibrated" in " ".join(changed.stdout.split())
    assert changed.stderr.count("judges without a licence: have this judge") == 1

"""Checks in a run: of the suite, of a task, of a judge; and what happens when they change."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import calipers
from tests.runs.suites_at_hand import SuiteFolder, suite_folder

AGENT = """
def answer(record):
    return {"answer": f"order {record['order_id']}", "observed_behaviors": record.get("says")}
"""
TASKS: list[dict[str, Any]] = [
    {"id": "a", "input": "?", "order_id": 17},
    {"id": "b", "input": "?", "order_id": 18, "checks": [{"forbid": "own", "contains": "18"}]},
]
NAMED = {"expect": "names the order", "contains": "{order_id}"}
LOUD = {"expect": "is loud", "regex": "!$"}


def desk(path: Path, tasks: Sequence[Mapping[str, Any]] = TASKS, **more: Any) -> SuiteFolder:
    (path / "agent.py").write_text(AGENT)
    return suite_folder(path, tasks, [{"name": "desk", "python": "agent.py:answer"}], **more)


def test_records_keep_what_checks_found(tmp_path: Path) -> None:
    folder = desk(tmp_path, checks=[NAMED])
    assert folder.run().exit_code == 0
    first, second = folder.records()
    assert first["expected_behaviors"] == first["observed_behaviors"] == ["names the order"]
    assert first["violations"] == []
    assert second["violations"] == ["own"]
    assert first["checks"] == [
        {
            "name": "names the order",
            "kind": "contains",
            "rule": "expect",
            "held": True,
            "detail": 'contains "17"',
        }
    ]
    assert [each["name"] for each in second["checks"]] == ["names the order", "own"]
    assert folder.json("score.json")["groups"][0]["metrics"]["pass_rate"]["value"] == 0.5
    again = calipers.score(str(folder.results / "records.jsonl"), metrics=["pass_rate"])
    assert again.groups[0].metrics["pass_rate"].value == 0.5


def test_changed_checks_give_other_verdicts_without_new_calls(tmp_path: Path) -> None:
    task = {**TASKS[0], "says": ["is kind"]}
    folder = desk(tmp_path, [task], checks=[NAMED], trust=["observed_behaviors"])
    folder.run()
    told = folder.write(checks=[LOUD, {"expect": "is kind", "contains": "please"}]).run()
    assert "the checks have changed" in told.output
    assert "1 reused" in told.output
    [record] = folder.records()
    assert record["expected_behaviors"] == ["is loud", "is kind"]
    assert record["observed_behaviors"] == []  # the agent says so, the check does not
    assert [each["held"] for each in record["checks"]] == [False, False]
    folder.write(checks=[NAMED]).run()
    [record] = folder.records()
    assert record["observed_behaviors"] == ["is kind", "names the order"]
    told = folder.run()
    assert "have changed" not in told.output
    folder.write(checks=[]).run()
    [record] = folder.records()
    assert "checks" not in record
    assert record["observed_behaviors"] == ["is kind"]


def test_a_changed_function_of_a_check_is_called_anew(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def fine(record):\n    return True\n")
    folder = desk(tmp_path, checks=[{"expect": "fine", "python": "mine.py:fine"}])
    folder.run()
    assert [each["observed_behaviors"] for each in folder.records()] == [["fine"], ["fine"]]
    (tmp_path / "mine.py").write_text("def fine(record):\n    return False\n")
    assert "2 reused" in folder.run().output
    assert [each["observed_behaviors"] for each in folder.records()] == [[], []]


def test_checks_given_to_a_run_are_added(tmp_path: Path) -> None:
    folder = desk(tmp_path, checks=[NAMED])
    result = calipers.run(tmp_path / "suite.yaml", folder.results, checks=[LOUD], report=False)
    assert result.score is not None
    assert folder.records()[0]["expected_behaviors"] == ["names the order", "is loud"]
    (tmp_path / "more.json").write_text(json.dumps([LOUD]))
    assert "have changed" not in folder.run("--checks", str(tmp_path / "more.json")).output


def test_mistakes_are_found_before_anything_is_called(tmp_path: Path) -> None:
    folder = desk(tmp_path, checks=[{"expect": "a", "contain": "x"}])
    told = folder.run()
    assert told.exit_code == 2
    assert "did you mean contains?" in told.output
    told = folder.write(checks=[{"expect": "a", "judge": "polite"}]).run()
    assert told.exit_code == 2
    assert "no judge of the suite has the rubric polite" in told.output
    task = {"id": "a", "input": "?", "checks": [{"expect": "a", "pii": ["fax"]}]}
    told = desk(tmp_path, [task]).run()
    assert told.exit_code == 2
    assert "task a" in told.output
    assert "fax" in told.output
    model = {"name": "m", "model": "openai:x", "base_url": "http://127.0.0.1:9/v1"}
    told = suite_folder(
        tmp_path, TASKS, [model], checks=[{"expect": "a", "equals": "{oder}"}]
    ).run()
    assert told.exit_code == 2
    assert "names {oder}" in told.output


def test_an_agent_cannot_write_its_own_results(tmp_path: Path) -> None:
    folder = desk(tmp_path, [TASKS[0]], checks=[LOUD])
    (tmp_path / "agent.py").write_text(
        "def answer(record):\n    return {'answer': 'x', 'checks': [{'name': 'is loud', 'held': True}]}\n"
    )
    folder.run()
    [record] = folder.records()
    assert record["reported"] == {"checks": [{"name": "is loud", "held": True}]}
    assert [result["held"] for result in record["checks"]] == [False]


def test_what_a_check_found_is_on_the_report(tmp_path: Path) -> None:
    folder = desk(tmp_path, checks=[{"expect": "<b>bold</b>", "contains": "<i>"}])
    folder.run(report=True)
    page = (folder.results / "report.html").read_text(encoding="utf-8")
    assert "&lt;b&gt;bold&lt;/b&gt;: no" in page
    assert "<b>bold" not in page


def test_columns_with_spaces_are_filled_in_and_misspelt_ones_refused(tmp_path: Path) -> None:
    tasks = [{"id": "ID 7", "order_id": 17, "Gold Answer": "order 17"}]
    folder = desk(tmp_path, tasks, checks=[{"expect": "right", "equals": "{Gold Answer}"}])
    assert folder.run().exit_code == 0
    assert folder.records()[0]["observed_behaviors"] == ["right"]
    told = folder.write(checks=[{"expect": "right", "equals": "{Gold Anwser}"}]).run()
    assert told.exit_code == 2
    assert "did you mean Gold Answer?" in told.output
    told = folder.write(checks=[], prompt="Say {Gold Anwser}").run()
    assert told.exit_code == 2
    assert "did you mean Gold Answer?" in told.output

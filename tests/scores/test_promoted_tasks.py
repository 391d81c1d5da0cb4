"""Failures become tests: what failing, flaky and flagged records were asked, as tasks of a suite."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import pytest

import calipers as cal
from calipers.scores.promoted_tasks import fold
from calipers.support.errors import EmptyError, UsageError
from tests.commands import run
from tests.files import write_lines

NAMES = ("llama3.1-8b", "GPT-4o", "model (v2)", "モデル-2", "a/b/c", "--by")
MADE_UP = "the answer of the system"


def promote(path: Path, which: Literal["failing", "flaky", "flagged"]) -> list[dict[str, Any]]:
    made = cal.convert(path, path.with_name("tasks.jsonl"), tasks=which)
    lines = made.path.read_text(encoding="utf-8").splitlines()
    assert made.records == len(lines)
    return [json.loads(line) for line in lines]


def make_record(number: int, *, passed: bool | None, **more: Any) -> dict[str, Any]:
    return {
        "id": f"t{number}",
        "model": NAMES[1],
        "run": 1,
        "input": f"What is {number} + 1?",
        "target": str(number + 1),
        "answer": MADE_UP,
        "passed": passed,
        **more,
    }


def test_failing_records_are_tasks_with_where_they_came_from(tmp_path: Path) -> None:
    path = write_lines(
        tmp_path / "records.jsonl",
        [
            make_record(1, passed=True),
            make_record(2, passed=False, tags=["a"], category=NAMES[2], reference=["3", "three"])
            | {"relevant_ids": ["d1", "d2"], "passages": [{"id": "d1", "text": MADE_UP}]},
            make_record(3, passed=None, error="timeout"),
        ],
    )
    [task] = promote(path, "failing")
    assert task == {
        "id": "t2",
        "input": "What is 2 + 1?",
        "target": "3",
        "reference": ["3", "three"],
        "category": NAMES[2],
        "tags": ["a"],
        "relevant_ids": ["d1", "d2"],
        "source": {"file": str(path), "id": "t2", "model": NAMES[1], "run": 1},
    }


def test_what_a_system_said_is_in_no_task(tmp_path: Path) -> None:
    said: dict[str, Any] = {
        "cot": MADE_UP,
        "trace": {"tool_calls": [{"tool_name": MADE_UP}]},
        "predicted": "x",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "What is 2 + 1?"},
            {"role": "assistant", "content": MADE_UP},
        ],
        "checks": [{"name": MADE_UP, "rule": "expect", "held": False}],
    }
    path = write_lines(tmp_path / "r.jsonl", [make_record(2, passed=False, **said)])
    [task] = promote(path, "failing")
    assert MADE_UP not in json.dumps(task)
    assert "checks" not in task
    without = make_record(2, passed=False, **said)
    del without["input"], without["target"]
    [task] = promote(write_lines(tmp_path / "m.jsonl", [without]), "failing")
    assert task["messages"] == said["messages"][:2]
    assert MADE_UP not in json.dumps(task)


def test_later_turns_of_the_user_stay_in_their_order(tmp_path: Path) -> None:
    turns = [
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": MADE_UP},
        {"role": "user", "content": [{"type": "text", "text": "And order 7?"}]},
    ]
    row = {"id": NAMES[0], "messages": turns, "passed": False}
    [task] = promote(write_lines(tmp_path / "r.jsonl", [row]), "failing")
    assert (task["messages"], task["turns"]) == (turns[:1], ["And order 7?"])


def test_checks_of_a_task_stay(tmp_path: Path) -> None:
    checks = [{"expect": "names it", "contains": "3"}]
    row = make_record(2, passed=False, checks=checks)
    [task] = promote(write_lines(tmp_path / "r.jsonl", [row]), "failing")
    assert task["checks"] == checks


def test_right_and_wrong_answers_decide_where_nothing_else_does(tmp_path: Path) -> None:
    rows = [make_record(n, passed=None) | {"answer": "3"} for n in (1, 2)]
    tasks = promote(write_lines(tmp_path / "r.jsonl", rows), "failing")
    assert [task["id"] for task in tasks] == ["t1"]


def test_near_duplicates_are_one_task_and_others_are_not(tmp_path: Path) -> None:
    texts = ["What is 2 + 2?", "what is  2 + 2 ?", "What is 2 - 2?", "Ｗhat is 2 + 2"]
    rows = [
        make_record(n, passed=False, input=text, target="4") for n, text in enumerate(texts)
    ] + [make_record(9, passed=False, input=texts[0], target="5")]
    path = write_lines(tmp_path / "r.jsonl", rows)
    assert [task["id"] for task in promote(path, "failing")] == ["t0", "t2", "t9"]
    notices = cal.convert(path, tmp_path / "t.jsonl", tasks="failing").notices
    assert any("2 records ask what another does" in note for note in notices)


@pytest.mark.parametrize("texts", [("a", "b"), ("x=1", "x=-1"), ("f(x)", "f(y)"), ("1.5", "15")])
def test_what_differs_in_meaning_is_folded_apart(texts: tuple[str, str]) -> None:
    assert fold(texts[0]) != fold(texts[1])


def test_ids_that_come_again_are_told_apart(tmp_path: Path) -> None:
    rows = [make_record(n, passed=False, id=name) for n, name in enumerate(("a", "a", "a (2)"))]
    tasks = promote(write_lines(tmp_path / "r.jsonl", rows), "failing")
    assert len({task["id"] for task in tasks}) == 3
    assert [task["source"]["id"] for task in tasks] == ["a", "a", "a (2)"]


def test_a_task_is_flaky_where_one_system_passes_and_fails_it(tmp_path: Path) -> None:
    rows = [
        make_record(1, passed=True, run=1),
        make_record(1, passed=False, run=2),
        make_record(2, passed=True, run=1),
        make_record(2, passed=False, run=1, model=NAMES[3]),  # two systems: not flaky
        make_record(3, passed=False, run=1),
    ]
    [task] = promote(write_lines(tmp_path / "r.jsonl", rows), "flaky")
    assert (task["id"], task["source"]["run"]) == ("t1", 2)


def test_flagged_records_are_those_whose_judgments_have_flags(tmp_path: Path) -> None:
    flags = [{"judge": "j", "passed": True, "flags": ["asks_for_score in review: score 5"]}]
    rows = [
        make_record(1, passed=True, judgments=flags),
        make_record(2, passed=False, judgments=[{"judge": "j", "passed": True}]),
    ]
    [task] = promote(write_lines(tmp_path / "r.jsonl", rows), "flagged")
    assert task["id"] == "t1"


def test_what_has_no_input_is_counted_and_named(tmp_path: Path) -> None:
    bare = {"id": NAMES[4], "passed": False, "answer": MADE_UP}
    path = write_lines(tmp_path / "r.jsonl", [make_record(1, passed=False), bare])
    made = run("convert", str(path), "--tasks", "failing", "-o", str(tmp_path / "t.jsonl"))
    assert made.exit_code == 0
    assert f"left out: 1 failing record without an input or messages: {NAMES[4]}" in made.stderr
    assert "t.jsonl: 1 tasks" in made.stderr
    with pytest.raises(EmptyError, match="without an input"):
        promote(write_lines(tmp_path / "b.jsonl", [bare]), "failing")


def test_a_run_is_written_as_the_log_has_it(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "records.jsonl", [make_record(1, passed=False)])
    promote(path, "failing")
    assert '"run": 1}' in path.with_name("tasks.jsonl").read_text(encoding="utf-8")


def test_tasks_with_nothing_to_judge_an_answer_by_are_named(tmp_path: Path) -> None:
    bare = {"model": NAMES[1], "answer": MADE_UP, "passed": False}
    records = [
        make_record(1, passed=False),
        bare | {"id": "poem", "input": "Write a poem."},
        bare
        | {"id": "polite", "input": "Be polite.", "checks": [{"forbid": "rude", "regex": "x"}]},
        bare | {"id": "warm", "input": "Be warm.", "expected_behaviors": ["greets"]},
    ]
    path = write_lines(tmp_path / "records.jsonl", records)
    made = run("convert", path, "--tasks", "failing", "-o", tmp_path / "tasks.jsonl")
    assert made.exit_code == 0
    assert "nothing to judge an answer by in 1 task: poem" in made.stderr
    assert "checks:" in made.stderr


def test_where_nothing_fails_no_file_is_written(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "r.jsonl", [make_record(1, passed=True)])
    done = run("convert", str(path), "--tasks", "failing", "-o", str(tmp_path / "t.jsonl"))
    assert done.exit_code == 3
    assert not (tmp_path / "t.jsonl").exists()
    with pytest.raises(UsageError, match="lines of JSON"):
        cal.convert(path, tmp_path / "t.parquet", tasks="failing")


def test_the_tasks_run_as_data_of_a_suite(tmp_path: Path) -> None:
    rows = [make_record(n, passed=False, id=name) for n, name in enumerate(NAMES)]
    promote(write_lines(tmp_path / "r.jsonl", rows), "failing")
    (tmp_path / "adder.py").write_text(
        "def answer(record):\n"
        "    assert record['source']['model'] == 'GPT-4o'\n"
        "    return str(int(record['input'].split()[2]) + 1)\n",
        encoding="utf-8",
    )
    (tmp_path / "suite.yaml").write_text(
        "name: again\ndata: tasks.jsonl\nsystems:\n  - {name: adder, python: adder.py:answer}\n",
        encoding="utf-8",
    )
    done = run("run", str(tmp_path / "suite.yaml"), "-o", str(tmp_path / "out"))
    assert done.exit_code == 0, done.output
    table = cal.read(next((tmp_path / "out").rglob("records.jsonl")))
    assert sorted(table["id"]) == sorted(NAMES)
    assert cal.score(table).groups[0].metrics["accuracy"].value == 1

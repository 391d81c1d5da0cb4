"""Tasks by systems: which tell them apart, and what each answered."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from random import Random
from typing import Any

import polars as pl
import pytest

from calipers import report
from calipers.reports.data import answers_matrix
from calipers.reports.data.answers_matrix import (
    AnswerTable,
    GivenAnswer,
    Shares,
    add_verdicts,
    choose_tasks,
    count_choices,
    order_systems,
    tell_tasks,
)

SYSTEMS = ("Łódź-7b", 'gpt "four"', "<b>modèle</b>", "a\tb")


def make_records(tasks: int = 12, runs: int = 2, seed: int = 7) -> list[dict[str, Any]]:
    random = Random(seed)
    found = []
    for task in range(tasks):
        for system in SYSTEMS:
            for run in range(runs):
                failed = random.random() < 0.1
                answer = random.choice(("right", "right", "wrong", "other"))
                found.append(
                    {
                        "id": f"t{task}",
                        "model": system,
                        "run": run,
                        "input": f"Question {task}?",
                        "target": "right",
                        **({"error": "timeout: 9 s"} if failed else {"answer": answer}),
                    }
                )
    return found


def tell_plainly(records: list[dict[str, Any]]) -> dict[str, set[str]]:
    """Which choices each task is among, in plain Python."""
    cells: dict[str, dict[str, list[bool | None]]] = defaultdict(lambda: defaultdict(list))
    for each in records:
        right = None if "error" in each else each["answer"] == each["target"]
        cells[each["id"]][each["model"]].append(right)
    found = {}
    for task, systems in cells.items():
        told = set()
        known = [[one for one in calls if one is not None] for calls in systems.values()]
        shares = {sum(calls) / len(calls) if calls else None for calls in known}
        calls = [one for each in systems.values() for one in each]
        told |= {"differ"} if len(shares) > 1 else set()
        told |= {"runs"} if any(0 < sum(each) < len(each) for each in known) else set()
        told |= {"right"} if all(calls) else set()
        told |= {"wrong"} if not any(calls) and any(known) else set()
        told |= {"failed"} if None in calls else set()
        found[task] = told
    return found


def test_the_choices_are_those_of_plain_python() -> None:
    records = make_records(60)
    rows = pl.DataFrame(
        [
            {
                "id": each["id"],
                "model": each["model"],
                "correct": None if "error" in each else each["answer"] == each["target"],
                "failed": "error" in each,
            }
            for each in records
        ]
    )
    told = tell_tasks(add_verdicts(rows, None, "correct"), ["model"])
    expected = tell_plainly(records)
    assert told["id"].to_list() == list(expected)  # in the order of the records
    counts = count_choices(told)
    for choice in ("differ", "runs", "right", "wrong", "failed"):
        meant = {task for task, choices in expected.items() if choice in choices}
        assert set(choose_tasks(told, choice)) == meant
        assert counts[choice] == len(meant)
    assert counts["all"] == len(choose_tasks(told, "all")) == 60


def test_a_report_has_the_answers_of_the_tasks_that_tell_systems_apart() -> None:
    always = [
        {"id": f"same{n}", "model": system, "answer": "1", "target": "1"}
        for n in range(40)
        for system in SYSTEMS
    ]
    telling = [
        {"id": "telling", "model": system, "answer": str(at), "target": "0", "run": run}
        for at, system in enumerate(SYSTEMS)
        for run in range(2)
    ]
    found = report([*always, *telling]).answers
    assert found is not None
    assert found.by == ("model",)
    assert found.systems[0] == (SYSTEMS[0],)  # the best
    assert found.rows[0].id == "telling"
    assert found.rows[0].target == "0"
    assert found.rows[0].cells[0] == (GivenAnswer(answer="0", kind="right", runs=2),)
    assert {each[0].kind for each in found.rows[0].cells[1:]} == {"wrong"}
    assert len(found.rows) == answers_matrix.MOST_SHOWN
    assert found.counts["differ"] == 1
    assert found.counts["right"] == 40


def test_a_failed_call_is_no_answer() -> None:
    records: list[dict[str, Any]] = [
        {"id": "a", "model": name, "target": "1", "answer": "1"} for name in SYSTEMS[:2]
    ]
    records[0] |= {"answer": None, "error": "timeout: 9 s"}
    found = report(records).answers
    assert found is not None
    replies = {key[0]: cell for key, cell in zip(found.systems, found.rows[0].cells, strict=True)}
    assert replies[SYSTEMS[0]] == (GivenAnswer(answer=None, kind="failed"),)


def test_of_very_many_tasks_some_are_kept_with_all_their_answers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    del tmp_path
    monkeypatch.setattr(answers_matrix, "_MOST_KEPT", 20)
    monkeypatch.setattr(answers_matrix, "_WAITING", 100)
    table = AnswerTable(("model",))
    fields = ("model", "input", "target", "answer", "category", "passed", "correct", "failed")
    names = {name: name for name in fields}
    records = [
        {"id": f"t{task}", "model": model, "answer": "x", "target": "y", "correct": False}
        for model in SYSTEMS  # the answers of a task lie far apart
        for task in range(500)
    ]
    whole = pl.DataFrame(records).with_columns(
        input=None, category=None, failed=False, passed=pl.lit(None, pl.Boolean)
    )
    for at in range(0, whole.height, 70):
        table.take(whole[at : at + 70], names)
    found = table.make(["model"], most=1000)
    assert found is not None
    assert found.tasks == len(found.rows) == 20
    assert all(len(cell) == 1 for row in found.rows for cell in row.cells)


def make_checked(model: str, *verdicts: tuple[bool | None, str]) -> list[dict[str, Any]]:
    """A record per verdict of its checks and its answer; the target is 42."""
    return [
        {"id": f"HumanEval/{n}", "model": model, "passed": passed, "answer": said, "target": "42"}
        for n, (passed, said) in enumerate(verdicts)
    ]


def test_an_answer_whose_checks_and_target_disagree_shows_both() -> None:
    long, short = "It is 42.", "42"
    records = [
        *make_checked("openai/gpt-5-mini", (True, long), (True, short), (True, long)),
        *make_checked("mistral-tiny", (False, short), (False, long), (None, short)),
    ]
    page = report(records)
    found = page.answers
    assert found is not None
    assert found.systems == (("openai/gpt-5-mini",), ("mistral-tiny",))
    assert found.shares[0] == pytest.approx(Shares(1.0, 1.0, 1 / 3))
    assert found.shares[1] == pytest.approx(Shares(1 / 3, 0.0, 2 / 3))
    shown = {row.id: [(one.kind, one.disputed) for [one] in row.cells] for row in found.rows}
    assert shown == {
        "HumanEval/0": [("right", True), ("wrong", True)],
        "HumanEval/1": [("right", False), ("wrong", False)],
        "HumanEval/2": [("right", True), ("right", False)],
    }
    assert found.counts["disputed"] == 2
    assert found.counts["differ"] == 2  # by the same verdicts
    html = page.to_html()
    assert html.count("≠ target</small>") == 2 + 1  # and in the key
    assert html.count("= target</small>") == 1 + 1
    assert "100 % passed, 33.3 % correct" in html
    assert "passes its checks" in html


def test_a_failed_call_counts_in_no_share() -> None:
    rows = pl.DataFrame(
        {
            "model": ["o1", "o1"],
            "passed": [True, None],
            "correct": [True, False],
            "failed": [False, True],
        }
    )
    told = add_verdicts(rows, "passed", "correct")
    assert order_systems(told, ["model"]) == {("o1",): Shares(1.0, 1.0, 1.0)}
    assert not told["disputed"].any()

"""Scores of judges against their own rubric items."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

import calipers as cal
from tests.files import write_lines
from tests.judges.audit.judged_at_hand import items, judge_named, judgment, record


def test_scores_against_items(tmp_path: Path) -> None:
    path = write_lines(
        tmp_path / "judged.jsonl",
        [
            record("q1", judgment("a", 0.93, items=items((1.85, 2))), judgment("b", 0.5)),
            record("q2", judgment("a", 0.9, items=items((1, 1)))),
            record("q3", judgment("a", 0.2, items=items((1, 1)))),
            record("q4", judgment("a", 0.2, items={"F1": {"achieved": 1}})),
            record("q5", judgment("a", None, items=items((1, 1)))),
            record("q6", judgment("a", 1.0, items=items((0.997, 1)))),
        ],
    )
    audit = cal.audit_judges(path)
    a, b = judge_named(audit, "a"), judge_named(audit, "b")
    assert (a.items.checked, a.items.equal, a.items.unsummed, a.items.without) == (4, 2, 2, 0)
    assert (b.items.checked, b.items.equal, b.items.unsummed, b.items.without) == (0, 0, 0, 1)
    assert a.measures["items_equal"].value == 0.5
    assert (a.measures["items_equal"].n, a.measures["items_equal"].missing) == (4, 2)
    assert a.measures["items_difference"].value == pytest.approx(fmean([0.005, -0.1, -0.8, 0.003]))
    assert [(each.id, each.where, each.score, each.items) for each in a.items.worst] == [
        ("q3", f"{path}:3", 0.2, 1.0),
        ("q2", f"{path}:2", 0.9, 1.0),
    ]
    assert [(each.id, each.reason) for each in a.items.problems] == [
        ("q4", "item F1 has no max"),
        ("q5", "there are items, but no weighted_score"),
    ]
    assert b.measures["items_equal"].reason == "no judgment carries items"
    assert audit.to_dict()["groups"][0]["items"] == {"checked": 4, "equal": 2}
    fewer = judge_named(cal.audit_judges(path, worst=1), "a").items
    assert ([each.id for each in fewer.worst], len(fewer.problems), fewer.unsummed) == (
        ["q3"],
        1,
        2,
    )


def test_the_spelling_of_a_score_decides_how_far_it_may_be(tmp_path: Path) -> None:
    path = tmp_path / "judged.jsonl"
    line = '{{"id": "q", "judgments": [{{"judge": "j", "weighted_score": {}, "items": {{"F": {{"achieved": 13, "max": 14}}}}}}]}}\n'
    for written, equal in (
        ("0.93", 1),
        ("0.9286", 1),
        ("0.928", 0),
        ("0.92857143", 1),
        ("0.9285", 0),
        ("0.9", 0),
    ):
        path.write_text(line.format(written))
        assert judge_named(cal.audit_judges(path), "j").items.equal == equal, written


def test_a_rubric_in_the_record_weighs_the_scores() -> None:
    scores = {"right": 1, "clear": 0.5}
    rubric = {"criteria": [{"name": "right", "weight": 3}, {"name": "clear", "weight": 1}]}
    rows = [record("q1", judgment("a", 0.88, scores=scores), rubric=rubric)]
    assert judge_named(cal.audit_judges(rows), "a").items.equal == 1
    assert (
        judge_named(cal.audit_judges(rows, weights={"right": 1, "clear": 1}), "a").items.equal == 0
    )
    others: list[Any] = ["technical_accuracy", {"name": "x", "note": "y"}, None, [], 5]
    for other in others:
        found = judge_named(cal.audit_judges([{**rows[0], "rubric": other}]), "a").items
        assert (found.checked, found.without) == (0, 1)
    broken = {**record("q1", judgment("a", 0.5, items=items((1, 2)))), "rubric": {"F1": "high"}}
    [problem] = judge_named(cal.audit_judges([broken]), "a").items.problems
    assert problem.reason == 'rubric: F1: "high" is not a number'


def test_scores_of_projectscylla_are_called_score() -> None:
    scylla = {
        "score": 0.75,
        "passed": True,
        "criteria_scores": {"c": {"items": items((1, 1), (1, 2))}},
    }
    audit = cal.audit_judges([record("q1", scylla)])
    found = judge_named(audit, "judge 1")
    assert (found.items.checked, found.items.equal, found.items.worst[0].items) == (1, 0, 2 / 3)
    plain = cal.audit_judges([record("q1", {"score": 4, "passed": True})])
    assert judge_named(plain, "judge 1").measures["mean_score"].value is None

"""Rubrics: specs/003's three to the letter, and weighted ones from files, strictly read."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calipers.judges.rubric_items import list_items, sum_weighted
from calipers.judges.rubrics import Rubric, list_built_in, read_rubric
from calipers.support.errors import UsageError
from tests.commands import run
from tests.files import write_lines

SCORE = st.floats(1, 5)

WEIGHTED = """\
name: implementation
question: How far does the answer meet the task?
pass_at: 0.7
categories:
  - name: function
    weight: 0.6
    items:
      - {name: runs, points: 2, says: It runs.}
      - {name: tests, points: 1, says: It is tested., may_not_apply: true}
  - name: style
    weight: 0.4
    items:
      - {name: names, points: 4, says: Names explain themselves.}
"""


def rubric_file(folder: Path, text: str = WEIGHTED) -> Path:
    path = folder / "rubric.yaml"
    path.write_text(text, encoding="utf-8")
    return path


@settings(deadline=None)
@given(SCORE, SCORE, SCORE)
def test_technical_accuracy_is_as_the_document_has_it(a: float, b: float, c: float) -> None:
    scores = {"factual_correctness": a, "methodology_understanding": b, "domain_knowledge": c}
    expected = (a * 0.5 + b * 0.3 + c * 0.2) / 5.0
    assert list_built_in()["technical_accuracy"].grade(scores) == {
        "overall_score": pytest.approx(expected, abs=1e-12)
    }


@settings(deadline=None)
@given(SCORE, SCORE, SCORE)
def test_constructiveness_is_as_the_document_has_it(a: float, b: float, c: float) -> None:
    scores = {"actionable_feedback": a, "balanced_critique": b, "improvement_guidance": c}
    expected = (a + b + c) / 15.0
    graded = list_built_in()["constructiveness"].grade(scores)
    assert graded == {"overall_score": pytest.approx(expected, abs=1e-12)}


@settings(deadline=None)
@given(SCORE, SCORE, SCORE)
def test_planning_rationality_is_as_the_document_has_it(a: float, b: float, c: float) -> None:
    scores = {"logical_flow": a, "decision_quality": b, "resource_efficiency": c}
    expected = (a * 0.3 + b * 0.5 + c * 0.2) / 5.0
    graded = list_built_in()["planning_rationality"].grade(scores)
    assert graded == {"overall_score": pytest.approx(expected, abs=1e-12)}


def test_the_built_in_rubrics_read_what_the_document_gives_them() -> None:
    reads = {
        name: [(r.name, r.field, r.limit) for r in rubric.reads]
        for name, rubric in list_built_in().items()
    }
    assert reads == {
        "technical_accuracy": [("paper", "input", 2000), ("review", "answer", None)],
        "constructiveness": [("review", "answer", None)],
        "planning_rationality": [("execution summary", "trace", 2000)],
        "faithfulness": [
            ("question", "input", 2000),
            ("passages", "passages", 20_000),
            ("answer", "answer", None),
        ],
        "answer_relevance": [("question", "input", 2000), ("answer", "answer", None)],
        "factuality": [
            ("question", "input", 2000),
            ("expert's answer", "reference", 2000),
            ("answer", "answer", None),
        ],
        "harmlessness": [("request", "input", 2000), ("answer", "answer", None)],
        "quality": [("task", "input", 2000), ("work", "answer", None)],
    }
    assert {rubric.get_range(n) for rubric in list_built_in().values() for n in rubric.names} == {
        (1, 5),
        (0, 1),  # the categories of T's protocol
    }


def test_a_weighted_rubric_gives_a_score_and_a_verdict(tmp_path: Path) -> None:
    rubric = read_rubric(str(rubric_file(tmp_path)))
    graded = rubric.grade({"runs": 2, "tests": 0.5, "names": 2})
    assert graded["weighted_score"] == pytest.approx(0.6 * 2.5 / 3 + 0.4 * 0.5)
    assert graded["passed"] is True
    assert rubric.grade({"runs": 1, "tests": 0.5, "names": 2})["passed"] is False


def test_what_does_not_apply_is_left_out_of_the_sum(tmp_path: Path) -> None:
    rubric = read_rubric(str(rubric_file(tmp_path)))
    graded = rubric.grade({"runs": 2, "tests": None, "names": 4})
    assert graded["weighted_score"] == 1.0
    assert graded["criteria_scores"]["function"]["na_items"] == ["tests"]


@settings(deadline=None)
@given(st.floats(0, 2), st.none() | st.floats(0, 1), st.floats(0, 4))
def test_an_audit_finds_the_score_that_the_items_add_up_to(
    runs: float, tests: float | None, names: float
) -> None:
    from calipers.support.limited_yaml import load_yaml  # noqa: PLC0415

    rubric = Rubric.model_validate(load_yaml(WEIGHTED)[0])
    graded = rubric.grade({"runs": runs, "tests": tests, "names": names})
    items = list_items(graded)
    assert items is not None
    assert sum_weighted(items) == pytest.approx(graded["weighted_score"])


def test_the_hash_is_of_the_content(tmp_path: Path) -> None:
    first = read_rubric(str(rubric_file(tmp_path)))
    same = read_rubric(str(rubric_file(tmp_path, f"# a comment\n{WEIGHTED}")))
    other = read_rubric(str(rubric_file(tmp_path, WEIGHTED.replace("It runs.", "It runs"))))
    assert first.hash == same.hash != other.hash
    assert first.set_limit(500).hash != first.hash
    assert first.set_limit(None).hash == first.hash


@pytest.mark.parametrize(
    ("wrong", "right", "said"),
    [
        ("points: 2,", "point: 2,", ":8: "),
        ("points: 4", "points: 0", ":13: "),
        ("pass_at: 0.7", "pass_at: 7", ":3: "),
        ("pass_at: 0.7\n", "", "pass_at is missing"),
        ("    weight: 0.4\n", "", "some categories have a weight"),
        ("name: names", "name: runs", "runs is there twice"),
        ("points: 2", "points: .inf", "points"),
        ("points: 2", "points: 1.0e+308", "points"),
        ("weight: 0.6", "weight: 1.0e+308", "weight"),
        ("pass_at: 0.7", "highest: 1.0e+308\npass_at: 0.7", "highest"),
        ("categories:", "categorys:", "did you mean categories?"),
    ],
)
def test_a_mistake_is_told_with_its_line(tmp_path: Path, wrong: str, right: str, said: str) -> None:
    path = rubric_file(tmp_path, WEIGHTED.replace(wrong, right, 1))
    with pytest.raises(UsageError) as error:
        read_rubric(str(path))
    assert said in str(error.value)
    assert str(path) in str(error.value)


def test_criteria_of_ones_own_may_pass(tmp_path: Path) -> None:
    text = """\
name: clarity
question: How clear is it?
highest: 3
pass_at: 0.5
criteria: [{name: short, says: It is short., weight: 2}, {name: plain, says: It is plain.}]
"""
    graded = read_rubric(str(rubric_file(tmp_path, text))).grade({"short": 3, "plain": 1.5})
    assert graded == {"weighted_score": pytest.approx(7.5 / 9), "passed": True}


def test_a_score_that_may_pass_1_is_refused(tmp_path: Path) -> None:
    """It would be judged and paid for, and then be no weighted_score."""
    text = "name: a\nquestion: q\npass_at: 0.5\ndivide_by: {}\ncriteria: [{{name: b, says: c}}]\n"
    with pytest.raises(UsageError) as error:
        read_rubric(str(rubric_file(tmp_path, text.format(4))))
    assert ":4: the best scores add up to 5" in str(error.value)
    assert read_rubric(str(rubric_file(tmp_path, text.format(5)))).grade({"b": 5})["passed"]


def test_an_unknown_rubric_names_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file, and no built-in rubric") as error:
        read_rubric("politeness", tmp_path)
    for name in list_built_in():
        assert name in str(error.value)


def test_a_rubric_of_a_plug_in_is_found_by_its_name(tmp_path: Path) -> None:
    plugin = tmp_path / "brief.py"
    plugin.write_text(
        "import calipers as cal\n"
        "brief = {'name': 'brief', 'says': 'No more than needed.'}\n"
        "cal.register(cal.Rubric(name='brevity', question='Is it brief?', criteria=[brief]))\n",
        encoding="utf-8",
    )
    records = write_lines(tmp_path / "a.jsonl", [{"id": "a", "input": "x", "answer": "4"}])
    asked = ["judge", str(records), "--rubric", "brevity", "--model", "openai:gpt-4o-mini"]
    asked += ["-o", str(tmp_path / "out.jsonl"), "--dry-run"]
    assert run(*asked).exit_code == 2
    planned = run(*asked, "--plugin", plugin)
    assert planned.exit_code == 0, planned.output

"""Rubrics as T's judge protocol writes them, beside a plain sum of what each requirement weighs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.model_server import ModelServer
from calipers.cli import app
from calipers.judges.ask import BadAnswer, read_answer
from calipers.judges.request import make_request
from calipers.judges.rubrics import Rubric, read_rubric
from calipers.support.errors import UsageError
from tests.files import write_lines
from tests.shared_data import FOLDER, needs_shared_data

RUBRICS = FOLDER / "native_logs" / "scylla_rubrics"

REQUIREMENTS = """\
requirements:
  - {id: R001, description: It runs, weight: 3.0, evaluation: binary}
  - {id: R002, description: It is fast, weight: 2.0, evaluation: scaled, criteria: [p95, mean]}
  - {id: R003, description: Documented}
grading:
  pass_threshold: 0.70
  grade_scale: {S: 1.0, A: 0.8, B: 0.6, C: 0.4, D: 0.2, F: 0.0}
"""
CATEGORIES = """\
categories:
  functional:
    weight: 0.7
    scoring_type: checklist
    items:
      - {id: F1, check: The file is there, points: 1.0}
      - {id: F2, check: Tests pass, points: 0.5, na_condition: no tests asked for}
  style:
    weight: 0.3
    scoring_type: subjective
    items: [{id: Q1, check: Clean, points: 2.0}]
grading: {pass_threshold: 0.6}
"""


def _read(folder: Path, text: str) -> Rubric:
    path = folder / "rubric.yaml"
    path.write_text(text, encoding="utf-8")
    return read_rubric(str(path))


@settings(deadline=None, max_examples=20)
@given(st.tuples(st.sampled_from([0.0, 3.0]), st.floats(0, 2), st.floats(0, 1)))
def test_requirements_weigh_as_they_say(marks: tuple[float, float, float]) -> None:
    import tempfile  # noqa: PLC0415 (a fixture would be shared by all examples)

    with tempfile.TemporaryDirectory() as folder:
        rubric = _read(Path(folder), REQUIREMENTS)
    graded = rubric.grade(dict(zip(("R001", "R002", "R003"), marks, strict=True)))
    expected = sum(marks) / 6.0  # a requirement's points are its weight
    assert graded["weighted_score"] == pytest.approx(expected, abs=1e-12)
    if abs(expected - 0.7) > 1e-9:
        assert graded["passed"] is (expected > 0.7)
    bounds = (("S", 1.0), ("A", 0.8), ("B", 0.6), ("C", 0.4), ("D", 0.2), ("F", 0.0))
    assert graded["grade"] == next(letter for letter, least in bounds if expected >= least - 1e-9)


def test_a_binary_requirement_is_all_or_nothing(tmp_path: Path) -> None:
    rubric = _read(tmp_path, REQUIREMENTS)
    request = make_request(rubric, {"input": "Do it.", "answer": "Done."})
    assert "R001 (0 or 3): It runs" in request.system
    assert "R002 (0 to 2): It is fast; p95; mean" in request.system
    reply = {"reason": "so", "scores": {"R001": 3, "R002": 0.5, "R003": 1}}
    assert read_answer(json.dumps(reply), rubric).scores["R002"] == 0.5
    reply["scores"] = {"R001": 1.5, "R002": 0.5, "R003": 1}
    with pytest.raises(BadAnswer, match="R001 is neither 0 nor 3"):
        read_answer(json.dumps(reply), rubric)


def test_an_item_that_does_not_apply_is_left_out_of_its_category(tmp_path: Path) -> None:
    rubric = _read(tmp_path, CATEGORIES)
    whole = rubric.grade({"F1": 1.0, "F2": 0.0, "Q1": 1.0})
    assert whole["weighted_score"] == pytest.approx(0.7 * 1.0 / 1.5 + 0.3 * 0.5)
    without = rubric.grade({"F1": 1.0, "F2": None, "Q1": 1.0})
    assert without["weighted_score"] == pytest.approx(0.7 + 0.3 * 0.5)
    assert without["passed"] is True
    assert "(does not apply: no tests asked for)" in str(rubric.categories[0].items[1].says)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("grading: {pass_threshold: 0.7}", "either requirements, or categories"),
        (REQUIREMENTS.replace("weight: 3.0", "wieght: 3.0"), ":2: wieght is not a known key"),
        (REQUIREMENTS.replace("evaluation: binary", "evaluation: maybe"), "neither binary nor"),
        (REQUIREMENTS.replace("id: R002, ", ""), "id is missing"),
        (REQUIREMENTS.replace("0.70", "7"), ":6: pass_at"),
        (CATEGORIES.replace("items: [{id: Q1, check: Clean, points: 2.0}]", "items: []"), "style"),
        (REQUIREMENTS.replace("R002", "R001"), "R001 is there twice"),
    ],
)
def test_a_mistake_is_named_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UsageError) as found:
        _read(tmp_path, text)
    assert said in str(found.value)


def test_a_rubric_of_ours_keeps_its_hash(tmp_path: Path) -> None:
    """Judgments of earlier versions name it."""
    ours = "{name: a, question: q, pass_at: 0.5, categories: [{name: c, items: [%s]}]}"
    item = "{name: i, points: 1, says: s}"
    assert _read(tmp_path, ours % item).hash == "1c8f4773cb166b8e"


def test_a_judge_is_asked_for_each_requirement(tmp_path: Path) -> None:
    records = [{"id": "a", "input": "Do it.", "answer": "Done. QUALITY=4"}]
    write_lines(tmp_path / "records.jsonl", records)
    (tmp_path / "test-010.yaml").write_text(REQUIREMENTS, encoding="utf-8")
    with ModelServer().in_thread() as url:
        result = CliRunner().invoke(
            app,
            [
                *("judge", str(tmp_path / "records.jsonl")),
                *("--rubric", str(tmp_path / "test-010.yaml"), "--model", "openai:judge-good"),
                *("--base-url", url, "-o", str(tmp_path / "judged.jsonl")),
            ],
        )
    assert result.exit_code == 0, result.output
    lines = (tmp_path / "judged.jsonl").read_text(encoding="utf-8").splitlines()
    [judgment] = json.loads(lines[0])["judgments"]
    assert judgment["scores"].keys() == {"R001", "R002", "R003"}
    assert judgment["weighted_score"] == pytest.approx(sum(judgment["scores"].values()) / 6)
    assert judgment["grade"] in {*"SABCDF"}


@needs_shared_data
@pytest.mark.parametrize("path", sorted(RUBRICS.glob("*.yaml")), ids=lambda path: path.stem)
def test_rubrics_as_they_are_in_the_world(path: Path) -> None:
    import yaml  # noqa: PLC0415 (only here)

    given: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    rubric = read_rubric(str(path))
    assert rubric.names == [each["id"] for each in given["requirements"]]
    best = {each["id"]: float(each["weight"]) for each in given["requirements"]}
    graded = rubric.grade(best)
    assert (graded["weighted_score"], graded["passed"], graded["grade"]) == (1.0, True, "S")
    first = rubric.names[0]
    lacking = rubric.grade({**best, first: 0.0})
    share = 1 - best[first] / sum(best.values())
    assert lacking["weighted_score"] == pytest.approx(share)
    assert lacking["passed"] is (share >= given["grading"]["pass_threshold"])

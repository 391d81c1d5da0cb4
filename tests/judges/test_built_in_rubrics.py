"""The rubrics that come with Calipers: what they pass, their metrics, and their worked calibrations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import calipers as cal
from calipers.judges.request import NothingToJudge, make_request
from calipers.judges.rubrics import list_built_in
from calipers.metrics import catalogue
from calipers.metrics.families.judged import PASS_MARK

EXAMPLES = Path(__file__).parents[2] / "examples" / "rubrics"
OF_P = ("technical_accuracy", "constructiveness", "planning_rationality")
OTHERS = ("faithfulness", "answer_relevance", "factuality", "harmlessness", "quality")
WEIGHTS = {  # T's judge protocol
    "functional_correctness": 2.0,
    "completeness": 1.5,
    "code_quality": 1.0,
    "simplicity": 1.0,
    "lack_of_duplication": 0.5,
    "clarity": 1.0,
    "documentation": 0.5,
    "architectural_cleanliness": 0.5,
    "efficiency": 0.5,
    "cleanup_script_quality": 1.0,
}


def judge(rubric: str, scores: dict[str, Any]) -> dict[str, Any]:
    """A judgment as `calipers judge` writes it."""
    return {
        "judge": "Größe",
        "rubric": rubric,
        "scores": scores,
        **list_built_in()[rubric].grade(scores),
    }


def measure(rows: list[dict[str, Any]], *names: str) -> list[float | None]:
    metrics = cal.score(rows, metrics=names).groups[0].metrics
    return [metrics[name].value for name in names]


@pytest.mark.parametrize("name", [*OF_P, *OTHERS])
def test_each_has_criteria_and_a_metric(name: str) -> None:
    rubric = list_built_in()[name]
    best = {each: rubric.get_range(each)[1] for each in rubric.names}
    row = {"id": "01", "answer": "a", "judgments": [judge(name, dict(best))]}
    assert measure([row], name) == [1.0]
    assert catalogue()[name].better == "higher"


@pytest.mark.parametrize("name", OTHERS)
def test_at_the_mark_it_passes(name: str) -> None:
    rubric = list_built_in()[name]
    assert rubric.pass_at == PASS_MARK == 0.7
    least, most = (0.7, 0.69) if name == "quality" else (3.5, 3.4)
    assert judge(name, dict.fromkeys(rubric.names, least))["passed"] is True
    assert judge(name, dict.fromkeys(rubric.names, most))["passed"] is False


@pytest.mark.parametrize("name", [*OF_P, *OTHERS])
@pytest.mark.parametrize(("score", "held"), [(4, True), (3, False)])
def test_a_check_by_it_decides(name: str, score: float, *, held: bool) -> None:
    rubric = list_built_in()[name]
    given = score / 5 if name == "quality" else score
    row = {"answer": "a", "judgments": [judge(name, dict.fromkeys(rubric.names, given))]}
    checks = [{"expect": "judged well", "judge": name}]
    scored = cal.score([row], checks=checks, metrics=["behavior_coverage", "pass_rate"])
    found = scored.groups[0].metrics
    assert (found["behavior_coverage"].value, found["pass_rate"].value) == (held, held)


def test_a_check_may_ask_for_more() -> None:
    scores = dict.fromkeys(list_built_in()["constructiveness"].names, 4)
    row = {"answer": "a", "judgments": [judge("constructiveness", scores)]}
    check = {"expect": "helps", "judge": {"rubric": "constructiveness", "at_least": 0.9}}
    found = cal.score([row], checks=[check], metrics=["behavior_coverage"]).groups[0].metrics
    assert found["behavior_coverage"].value == 0


def test_a_rubric_of_the_document_decides_no_run() -> None:
    scores = dict.fromkeys(list_built_in()["constructiveness"].names, 4)
    judgment = judge("constructiveness", scores)
    assert "passed" not in judgment
    assert judgment["overall_score"] == 0.8


def test_quality_weighs_what_applies() -> None:
    scores: dict[str, float | None] = dict.fromkeys(WEIGHTS)
    scores |= {"functional_correctness": 1.0, "clarity": 0.4, "documentation": 0.2}
    expected = (2 * 1.0 + 1 * 0.4 + 0.5 * 0.2) / 3.5
    judgment = judge("quality", scores)
    assert judgment["weighted_score"] == pytest.approx(expected, rel=1e-12)
    row = {"answer": "a", "judgments": [judgment]}
    assert measure([row], "quality", "impl_rate") == pytest.approx([expected] * 2, rel=1e-12)
    assert {c.name: c.weight for c in list_built_in()["quality"].categories} == WEIGHTS


def test_another_rubric_may_have_a_category_of_that_name() -> None:
    mine = {"judge": "j", "rubric": "my own", "scores": {"clarity": 4}}
    ours = judge("quality", dict.fromkeys(WEIGHTS, 0.5))
    assert measure([{"answer": "a", "judgments": [mine, ours]}], "quality") == [0.5]
    assert not any(
        "outside" in each
        for each in cal.score([{"answer": "a", "judgments": [mine]}], metrics=["impl_rate"]).notices
    )


@pytest.mark.parametrize("score", [-0.1, 1.1, 4, True, "1"])
def test_a_score_off_the_scale_is_a_bad_judgment(score: object) -> None:
    bad = {"judge": "j", "rubric": "quality", "scores": {"clarity": score}}
    good = judge("quality", {**dict.fromkeys(WEIGHTS), "clarity": 1.0})
    rows = [{"answer": "a", "judgments": [each]} for each in (bad, good)]
    found = cal.score(rows, metrics=["quality"]).groups[0].metrics["quality"]
    assert (found.value, found.n, found.missing) == (1.0, 1, 1)


def test_passages_are_numbered_for_the_judge() -> None:
    rubric = list_built_in()["faithfulness"]
    record = {"input": "Where?", "answer": "Here.", "contexts": [{"page_content": "a"}, "b"]}
    assert "[1] a\n\n[2] b" in make_request(rubric, record).prompt
    with pytest.raises(NothingToJudge, match="no passages"):
        make_request(rubric, {"input": "Where?", "answer": "Here."})


def test_a_target_stands_in_for_a_reference() -> None:
    record = {"input": "Capital?", "answer": "Rome", "target": "Paris"}
    assert "Paris" in make_request(list_built_in()["factuality"], record).prompt


@pytest.mark.parametrize("name", OTHERS)
def test_a_worked_calibration(name: str) -> None:
    judged, human = (EXAMPLES / name / f"{each}.jsonl" for each in ("judged", "human"))
    rubric = list_built_in()[name]
    for line in judged.read_text("utf-8").splitlines():
        (judgment,) = json.loads(line)["judgments"]
        graded = rubric.grade(judgment["scores"])
        assert judgment["rubric_hash"] == rubric.hash
        assert judgment["passed"] == graded["passed"]
        assert judgment["weighted_score"] == pytest.approx(graded["weighted_score"], abs=1e-4)
    (found,) = cal.calibrate_judges(judged, human).judges
    agreed = found.aspects["passed"]["cohen_kappa"].value
    assert agreed is not None
    assert agreed >= 0.8
    assert name in found.aspects

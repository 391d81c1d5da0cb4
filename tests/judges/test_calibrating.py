"""`calipers judge calibrate`: agreement with people, bound to the judge's model and rubric."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any

import pytest
from click.testing import Result
from scipy import stats

import calipers
from benchmarks.model_server import ModelServer
from tests import commands
from tests.files import write_lines
from tests.judges.test_judging import judge, judged, reviews
from tests.judges.test_rubrics import rubric_file
from tests.shared_data import FOLDER, needs_shared_data

Row = dict[str, Any]


def judgment(passed: bool, score: float, clarity: float, **more: Any) -> Row:  # noqa: FBT001
    said = {"passed": passed, "weighted_score": score, "scores": {"clarity": clarity}}
    return {"judge": "j", "model": "openai:m", "rubric": "r", "rubric_hash": "abc", **said, **more}


def both(count: int = 60, seed: int = 0) -> tuple[list[Row], list[Row]]:
    """A judge that is mostly right and gives 0.1 more, and a person."""
    luck = Random(seed)
    machine, human = [], []
    for n in range(count):
        quality = luck.randint(1, 5)
        guess = min(5, max(1, quality + luck.choice((0, 0, 1))))
        ours = judgment(guess >= 3, guess / 5 + 0.1 * luck.random(), guess)
        machine.append({"id": n, "judgments": [ours]})
        human.append(
            {
                "id": n,
                "passed": quality >= 3,
                "weighted_score": quality / 5,
                "scores": {"clarity": quality},
            }
        )
    return machine, human


def calibrate(folder: Path, machine: list[Row], human: list[Row], *more: str) -> Result:
    write_lines(folder / "j.jsonl", machine)
    write_lines(folder / "h.jsonl", human)
    files = [str(folder / "j.jsonl"), str(folder / "h.jsonl")]
    return commands.run("judge", "calibrate", *files, *more)


def test_measures_are_what_other_programs_find(tmp_path: Path) -> None:
    machine, human = both()
    output = tmp_path / "calibration.json"
    result = calibrate(tmp_path, machine, human, "-o", str(output))
    assert result.exit_code == 0, result.stderr
    assert "clarity" in result.stdout
    [found] = json.loads(output.read_text())["judges"]
    assert (found["model"], found["rubric_hash"], found["n"]) == ("openai:m", "abc", 60)
    ours = [row["judgments"][0]["scores"]["clarity"] for row in machine]
    theirs = [row["scores"]["clarity"] for row in human]
    clarity = found["aspects"]["scores.clarity"]
    assert clarity["spearman"]["value"] == pytest.approx(stats.spearmanr(ours, theirs).statistic)
    bias = clarity["bias"]
    apart = [a - b for a, b in zip(ours, theirs, strict=True)]
    assert bias["value"] == pytest.approx(fmean(apart))
    around = stats.t.interval(0.95, 59, fmean(apart), stats.sem(apart))
    assert (bias["low"], bias["high"]) == pytest.approx(around)
    pairs = [
        {"judge": a["judgments"][0]["passed"], "human": b["passed"]}
        for a, b in zip(machine, human, strict=True)
    ]
    agreed = calipers.agree(pairs, raters=["judge", "human"], level="nominal")
    kappa = found["aspects"]["passed"]["cohen_kappa"]
    expected = agreed.pairs[0].measures["cohen_kappa"]
    assert (kappa["value"], kappa["low"]) == pytest.approx((expected.value, expected.low))
    assert "cohen_kappa" not in found["aspects"]["score"]


def test_several_people_are_taken_together(tmp_path: Path) -> None:
    votes = [{"judge": name, "passed": vote} for name, vote in (("a", True), ("b", False))]
    machine = [{"id": n, "judgments": [judgment(n % 2 == 0, 0.5, 3)]} for n in range(4)]
    human = [{"id": n, "judgments": votes} for n in range(4)]
    result = calibrate(tmp_path, machine, human, "--format", "json")
    [found] = json.loads(result.stdout)["judges"]
    assert found["aspects"]["passed"]["bias"]["value"] == 0.5  # a tie fails


def test_another_rubric_is_another_judge(tmp_path: Path) -> None:
    machine, human = both(6)
    for row in machine[:3]:
        row["judgments"][0]["rubric_hash"] = "other"
    result = calibrate(tmp_path, machine, human, "--format", "json")
    found = json.loads(result.stdout)["judges"]
    assert [(each["rubric_hash"], each["n"]) for each in found] == [("other", 3), ("abc", 3)]


def test_people_on_another_scale_are_refused(tmp_path: Path) -> None:
    """They would license nobody, but correct every mean to what cannot be."""
    machine, human = both()
    human[7]["weighted_score"] = 85
    result = calibrate(tmp_path, machine, human)
    assert result.exit_code == 2
    assert "people's record 7: weighted_score: 85 is outside [0, 1]" in result.stderr


def test_criteria_outside_their_scale_make_no_overall_score(tmp_path: Path) -> None:
    names = ("actionable_feedback", "balanced_critique", "improvement_guidance")
    fine, far = ({"scores": dict.fromkeys(names, score)} for score in (4, 9))
    machine = [{"id": name, "judgments": [{"judge": "m", **fine}]} for name in "ab"]
    result = calibrate(
        tmp_path, machine, [{"id": "a", **fine}, {"id": "b", **far}], "--format", "json"
    )
    (judge,) = json.loads(result.stdout)["judges"]
    assert judge["moments"]["constructiveness"]["n"] == 1


def test_failed_judgments_are_missing_not_zero(tmp_path: Path) -> None:
    machine, human = both(5)
    machine[0]["judgments"][0] |= {"scores": None, "passed": None, "weighted_score": None}
    [found] = json.loads(calibrate(tmp_path, machine, human, "--format", "json").stdout)["judges"]
    assert found["aspects"]["passed"]["bias"]["n"] == 4


def test_runs_that_people_do_not_tell_apart_are_refused(tmp_path: Path) -> None:
    machine, human = both(3)
    twice = [{**row, "run": run} for row in machine for run in (0, 1)]
    result = calibrate(tmp_path, twice, human)
    assert result.exit_code == 2
    assert "twice" in result.stderr
    told = [{**row, "run": 1} for row in human]
    result = calibrate(tmp_path, twice, told, "--format", "json")
    assert json.loads(result.stdout)["judges"][0]["n"] == 3


@pytest.mark.parametrize(
    ("human", "code", "said"),
    [
        ([{"id": "elsewhere", "passed": True}], 3, "no record of"),
        ([{"id": "0", "opinion": "nice"}], 2, "hold no passed"),
        ([{"passed": True}], 2, "has no id"),
        ([{"id": "0", "passed": True}, {"id": "1", "run": 1, "passed": True}], 2, "others do not"),
    ],
)
def test_what_cannot_be_compared(tmp_path: Path, human: list[Row], code: int, said: str) -> None:
    result = calibrate(tmp_path, both(3)[0], human)
    assert result.exit_code == code
    assert said in result.stderr


def test_a_biased_judge_is_found_out_end_to_end(tmp_path: Path) -> None:
    write_lines(tmp_path / "records.jsonl", reviews(20))
    rubric = rubric_file(
        tmp_path,
        "name: q\nquestion: How good?\npass_at: 0.5\n"
        "criteria: [{name: quality, says: It is good.}]\n",
    )
    with ModelServer().in_thread() as url:
        assert judge(tmp_path, url, "biased", str(rubric)).exit_code == 0
    people = [{"id": r["id"], "scores": {"quality": n % 5 + 1}} for n, r in enumerate(reviews(20))]
    result = calibrate(tmp_path, judged(tmp_path), people, "--format", "json")
    [found] = json.loads(result.stdout)["judges"]
    bias = found["aspects"]["scores.quality"]["bias"]
    assert bias["value"] == pytest.approx(0.8)
    assert bias["low"] > 0.5


@needs_shared_data
def test_the_published_judges_of_llmbar_against_its_labels(tmp_path: Path) -> None:
    text = (FOLDER / "judge/llmbar_judgements.jsonl").read_text(encoding="utf-8")
    rows = [json.loads(line) for line in text.split("\n") if line]
    vanilla = [row for row in rows if row["prompt"] == "Vanilla"]
    machine: dict[str, Row] = {}
    for row in vanilla:
        record = machine.setdefault(row["id"], {"id": row["id"], "judgments": []})
        passed = {"1": True, "2": False}.get(row["judge_label"])
        record["judgments"].append({"judge": row["judge"], "model": row["judge"], "passed": passed})
    labels = {row["id"]: row["human_label"] == 1 for row in vanilla}
    human = [{"id": each, "passed": label} for each, label in labels.items()]
    result = calibrate(tmp_path, list(machine.values()), human, "--format", "json")
    assert result.exit_code == 0, result.stderr
    alone = [e for e in json.loads(result.stdout)["judges"] if len(e["members"]) == 1]
    assert len(alone) == 5
    for found in alone:
        pairs = [
            (row["judge_label"] == "1", labels[row["id"]])
            for row in vanilla
            if row["judge"] == found["judge"] and row["judge_label"] in ("1", "2")
        ]
        agreed = fmean(a == b for a, b in pairs)
        ours, theirs = (fmean(pair[at] for pair in pairs) for at in (0, 1))
        chance = ours * theirs + (1 - ours) * (1 - theirs)
        kappa = found["aspects"]["passed"]["cohen_kappa"]
        assert kappa["n"] == len(pairs)
        assert kappa["value"] == pytest.approx((agreed - chance) / (1 - chance))
        assert kappa["low"] < kappa["value"] < kappa["high"]

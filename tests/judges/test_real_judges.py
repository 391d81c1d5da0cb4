"""Published judges against people: LLMBar, PandaLM, ProjectScylla; PeerRead's reviewers as people."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any

import pytest

import calipers
from benchmarks.model_server import ModelServer
from calipers.scores.calibration import Calibration
from tests.files import write_lines
from tests.shared_data import FOLDER, expected, needs_shared_data

pytestmark = needs_shared_data

Row = dict[str, Any]

LLMBAR = "judge/llmbar_judgements.jsonl"
PANDALM = "judge/pandalm_3humans_2judges.jsonl"
SCYLLA = "judge/scylla_three_judges.jsonl"
REVIEWS = "reviews/peerread_reviews.jsonl"


def rows_of(name: str) -> list[Row]:
    text = (FOLDER / name).read_text(encoding="utf-8")
    return [json.loads(line) for line in text.split("\n") if line]


def calibrated(folder: Path, machine: list[Row], human: list[Row]) -> tuple[Calibration, ...]:
    write_lines(folder / "judged.jsonl", machine)
    write_lines(folder / "human.jsonl", human)
    files = [folder / name for name in ("judged.jsonl", "human.jsonl")]
    found = calipers.calibrate_judges(*files)
    (folder / "calibration.json").write_text(found.to_json(), encoding="utf-8")
    return found.judges


def llmbar(subset: str = "") -> tuple[list[Row], list[Row]]:
    """A judge per model and prompt: whether the first of two outputs is the better one."""
    machine: dict[str, Row] = {}
    human: dict[str, Row] = {}
    for row in rows_of(LLMBAR):
        if not row["subset"].startswith(subset):
            continue
        record = machine.setdefault(row["id"], {"id": row["id"], "judgments": []})
        record["judgments"].append(
            {
                "judge": row["judge"],
                "model": row["judge"],
                "rubric": row["prompt"],
                "rubric_hash": row["prompt"],
                "passed": {"1": True, "2": False}.get(row["judge_label"]),
            }
        )
        human[row["id"]] = {"id": row["id"], "passed": row["human_label"] == 1}
    return list(machine.values()), list(human.values())


def test_llmbar_kappas_are_those_of_the_collectors(tmp_path: Path) -> None:
    figures = expected()["judge"]["llmbar_judgements.jsonl"]
    compared = 0
    for subset in {row["subset"] for row in figures}:
        machine, human = llmbar(subset)
        found = {each.members: each for each in calibrated(tmp_path, machine, human)}
        for row in (each for each in figures if each["subset"] == subset):
            each = found[((row["judge"], row["prompt"]),)]
            kappa = each.kappa("passed")
            assert kappa is not None
            if each.n == row["n"]:  # some replies hold no label
                assert kappa.value == pytest.approx(row["kappa_correct"], abs=1e-12)
                compared += 1
    assert compared >= 36


def test_llmbar_licenses_one_judge_on_natural_tasks_and_nobody_on_adversarial_ones(
    tmp_path: Path,
) -> None:
    def licensed(subset: str) -> set[tuple[str, str]]:
        machine, human = llmbar(subset)
        singles = (each for each in calibrated(tmp_path, machine, human) if len(each.members) == 1)
        kappas = ((each.members[0], each.kappa("passed")) for each in singles)
        return {who for who, k in kappas if k is not None and k.low is not None and k.low >= 0.6}

    assert licensed("LLMBar/Natural") == {
        ("GPT-4", prompt) for prompt in ("Vanilla", "CoT", "Metrics_Reference")
    }
    assert licensed("LLMBar/Adversarial") == set()


def test_llmbar_shares_are_corrected_towards_peoples(tmp_path: Path) -> None:
    """Calibrated on one half of the tasks, a judge's share on the other half is mended."""
    machine, human = llmbar()
    Random(0).shuffle(order := list(range(len(machine))))
    first, second = order[: len(order) // 2], order[len(order) // 2 :]
    calibrated(tmp_path, [machine[at] for at in first], [human[at] for at in first])
    truth = fmean(human[at]["passed"] for at in second)
    held = found = 0
    for who in range(len(machine[0]["judgments"])):
        rows = [
            {**machine[at], "judgments": [machine[at]["judgments"][who]]}
            for at in second
            if machine[at]["judgments"][who]["passed"] is not None
        ]
        score = calipers.score(
            rows, metrics=["pass_rate"], calibration=tmp_path / "calibration.json"
        )
        share = score.groups[0].metrics["pass_rate"].corrected
        assert share is not None
        if share.low is not None and share.high is not None:
            found += 1
            held += share.low <= truth <= share.high
    assert found >= 10
    assert held >= found - 1


def test_pandalm_judges_against_three_people(tmp_path: Path) -> None:
    names = {"pandalm_7b": "pandalm_7b", "gpt_35_turbo": "gpt_35_turbo_tie_and_garbage_as_0"}
    machine, human = [], []
    for row in rows_of(PANDALM):
        labels = {name: row[name] for name in names}
        labels = {name: int(v) if str(v) in "012" else 0 for name, v in labels.items()}
        machine.append(
            {
                "id": row["id"],
                "judgments": [
                    {"judge": name, "scores": {"winner": label}} for name, label in labels.items()
                ],
            }
        )
        [(winner, _)] = Counter(row[f"annotator{n}"] for n in (1, 2, 3)).most_common(1)
        human.append({"id": row["id"], "scores": {"winner": winner}})
    found = {each.judge: each for each in calibrated(tmp_path, machine, human)}
    figures = expected()["judge"]["pandalm_3humans_2judges.jsonl"]
    for name, published in names.items():
        kappa = found[name].aspects["scores.winner"]["cohen_kappa"]
        assert kappa.value == pytest.approx(figures[published]["kappa"], abs=1e-9)
        assert kappa.low is not None
        assert kappa.low < 0.6  # neither might block a build


def scylla() -> list[Row]:
    runs: dict[tuple[Any, ...], Row] = {}
    for row in rows_of(SCYLLA):
        key = tuple(row[name] for name in ("task", "tier", "subtest", "run"))
        run = runs.setdefault(key, {"id": "/".join(map(str, key)), "judgments": []})
        run["judgments"].append(
            {"judge": row["judge"], "passed": row["passed"], "weighted_score": row["score"]}
        )
    return list(runs.values())


def test_scyllas_three_judges_may_not_block(tmp_path: Path) -> None:
    """720 runs: without people, no licence; against one of them as if it were people, neither."""
    runs = scylla()
    policy: Row = {"thresholds": {"blocking": {"pass_rate": 50, "impl_rate": 0.5}}}
    result = calipers.gate(runs, policy=policy)
    assert result.verdict == "fail"
    for check in result.checks:
        assert sum(each["rows"] for each in check.evidence) == 720
        assert {len(each["by"]) for each in check.evidence} == {2, 3}
        assert "not calibrated against human ratings" in (check.reason or "")
    first = "claude-opus-4-6"
    others = [
        {**run, "judgments": [e for e in run["judgments"] if e["judge"] != first]} for run in runs
    ]
    people = [
        {"id": run["id"], **{k: v for k, v in each.items() if k != "judge"}}
        for run in runs
        for each in run["judgments"]
        if each["judge"] == first
    ]
    found = calibrated(tmp_path, others, people)
    assert [len(each.members) for each in found] == [1, 1, 2]
    bounds = [each.kappa("passed") for each in found]
    assert all(k is not None and k.low is not None and k.low < 0.6 for k in bounds)
    policy["judges"] = {
        "calibrations": [str(tmp_path / "calibration.json")],
        "people": [first],
    }
    again = [{**run, "answer": "another"} for run in runs]
    decided = calipers.gate(again, policy=policy)
    assert "agrees too little with people" in (decided.checks[0].reason or "")


def reviewed() -> Iterator[tuple[Row, Row]]:
    """Reviews of ACL and CoNLL, and what their reviewers gave the papers for five aspects."""
    names = {
        "clarity": "CLARITY",
        "originality": "ORIGINALITY",
        "soundness": "SOUNDNESS_CORRECTNESS",
        "substance": "SUBSTANCE",
        "presentation": "RECOMMENDATION",
    }
    for row in rows_of(REVIEWS):
        scores = row["scores"] or {}
        if row["venue"] in ("acl_2017", "conll_2016") and all(
            scores.get(n) for n in names.values()
        ):
            own = {name: float(scores[theirs]) for name, theirs in names.items()}
            overall = round(fmean(own.values()))
            text = f"{row['comments']}\n\nQUALITY={overall}"
            record = {"id": row["review_id"], "input": row["abstract"], "answer": text}
            yield (
                record,
                {"id": row["review_id"], "scores": own, "passed": fmean(own.values()) >= 3.5},
            )


RUBRIC = """\
name: review
question: What does the reviewer think of the paper?
reads: [{name: review, field: answer, limit: null}]
pass_at: 0.7
criteria:
  - {name: clarity, says: The paper is clear.}
  - {name: originality, says: It is new.}
  - {name: soundness, says: It is right.}
  - {name: substance, says: There is enough of it.}
  - {name: presentation, says: It should be presented.}
"""


@pytest.mark.long
@pytest.mark.usefixtures("quick")
def test_peerreads_reviewers_calibrate_a_review_judge(tmp_path: Path) -> None:
    """A judge that reads an overall impression out of real reviews, and one that is too kind."""
    pairs = list(reviewed())
    assert len(pairs) > 100
    records, human = (list(each) for each in zip(*pairs, strict=True))
    write_lines(tmp_path / "records.jsonl", records)
    (tmp_path / "rubric.yaml").write_text(RUBRIC, encoding="utf-8")
    found = {}
    with ModelServer().in_thread() as url:
        for kind in ("good", "biased"):
            output = tmp_path / f"{kind}.jsonl"
            judged = calipers.judge_records(
                tmp_path / "records.jsonl",
                output,
                rubric=str(tmp_path / "rubric.yaml"),
                model=f"openai:judge-{kind}",
                base_url=url,
            )
            assert judged.judged == len(records)
            assert not judged.failed
            lines = output.read_text(encoding="utf-8").split("\n")
            rows = [json.loads(line) for line in lines if line]
            [found[kind]] = calibrated(tmp_path, rows, human)
    good, biased = found["good"], found["biased"]
    assert good.n == len(records)
    for aspect in ("clarity", "originality", "soundness", "substance", "presentation"):
        own, kind_one = (each.aspects[f"scores.{aspect}"] for each in (good, biased))
        assert own["spearman"].value is not None
        assert own["spearman"].value > 0.3
        assert own["bias"].value is not None
        assert kind_one["bias"].low is not None
        assert kind_one["bias"].low > own["bias"].value + 0.4
    half = len(rows) // 2  # of the kind judge
    calibrated(tmp_path, rows[:half], human[:half])
    truth = fmean(row["passed"] for row in human[half:])
    calibration = tmp_path / "calibration.json"
    score = calipers.score(rows[half:], metrics=["pass_rate"], calibration=calibration)
    share = score.groups[0].metrics["pass_rate"]
    assert share.low is not None
    assert share.low > truth
    assert share.corrected is not None
    assert share.corrected.low is not None
    assert share.corrected.high is not None
    assert share.corrected.low <= truth <= share.corrected.high

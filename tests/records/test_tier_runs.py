"""Experiments of tiers in folders: which test, tier, sub-test and run a result is of."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import calipers as cal
from calipers.support.errors import DataError, UsageError
from tests.records import export_files as files
from tests.records.log_files import write_texts
from tests.shared_data import FOLDER, needs_shared_data

DRY_RUN = FOLDER / "native_logs" / "scylla_dryrun"


def _write_run(run: Path, **fields: Any) -> None:
    run.mkdir(parents=True)
    write_texts(run / "run_result.json", {**files.TIER_RUN, **fields}, indent=2)


def _write_experiment(folder: Path, *, tiers: int = 2, subtests: int = 2, runs: int = 2) -> None:
    for tier in range(tiers):
        for subtest in range(subtests):
            for run in range(1, runs + 1):
                _write_run(folder / f"T{tier}" / f"{subtest:02}" / f"run_{run:02}", run_number=run)


def test_runs_in_folders_have_their_tier_and_their_judges(tmp_path: Path) -> None:
    for tier in ("T0", "T1"):
        run = tmp_path / "test-007" / tier / "00" / "run_01"
        (run / "judge" / "judge_01").mkdir(parents=True)
        write_texts(run / "run_result.json", files.TIER_RUN, indent=2)
        write_texts(run / "judge" / "judge_01" / "judgment.json", files.JUDGMENT, indent=2)
    table = cal.read(tmp_path)
    assert table["tier"].to_list() == ["T0", "T1"]
    record = table.to_dicts()[0]
    assert (record["id"], record["variant"], record["run"]) == ("test-007", "00", 1)
    assert (record["impl_rate"], record["passed"]) == (0.5, True)
    [judgment] = json.loads(record["judgments"])
    assert (judgment["judge"], judgment["scores"]) == ("j", {"functional": 1.0, "style": 0.0})
    assert cal.score(tmp_path, profile="tiers", by="tier").groups[0].records == 1


def test_what_a_subtest_reports_of_its_runs_stands_beside_ours(tmp_path: Path) -> None:
    for number, passed in ((1, True), (2, False)):
        run = tmp_path / "T0" / "00" / f"run_{number:02}"
        run.mkdir(parents=True)
        told = {**files.TIER_RUN, "run_number": number, "judge_passed": passed}
        write_texts(run / "run_result.json", told, indent=2)
    summary = {"total_runs": 2, "pass_rate": 1.0, "mean_score": 0.5, "total_cost": 0.5}
    summary |= {"std_dev": 0.25}
    write_texts(tmp_path / "T0" / "00" / "report.json", {"summary": summary}, indent=2)
    first, second = cal.score(tmp_path).inputs
    assert [(each.name, each.n, each.ours, each.equal) for each in first.stated] == [
        ("T0/00/pass_rate", 2, "pass_rate", False),
        ("T0/00/mean_score", 2, "score_judge", True),
        ("T0/00/total_cost", 2, "sum(cost_usd)", None),
        ("T0/00/std_dev", 2, None, None),
    ]
    assert second.stated == ()
    assert "that of a sample (n − 1); T (Standard Deviation)" in str(cal.score(tmp_path).notices)
    part = cal.score(tmp_path / "T0" / "00" / "run_02" / "run_result.json")
    assert "it is of 2 samples, ours of 1" in str(part.notices)


@pytest.mark.parametrize(
    "above",
    ["", "completed", "haiku", "fullruns/haiku", "home/me/fullruns/night 3/2026-01-20T06-13-07-"],
)
def test_experiments_are_found_however_deep_they_lie(tmp_path: Path, above: str) -> None:
    stamp = above.rpartition("/")[2] if above.endswith("-") else ""
    root = tmp_path / (above.removesuffix(stamp) if above != "completed" else "")
    tests = ("test-001", "test-002")
    for name in tests:
        inside = "completed" if above == "completed" else ""
        _write_experiment(root / f"{stamp}{name}" / inside)
    table = cal.read(tmp_path)
    assert table.height == 16
    assert table["id"].unique().sort().to_list() == [*tests]
    assert table["variant"].unique().sort().to_list() == ["00", "01"]
    assert cal.score(tmp_path, by="tier", metrics=["pass_rate"]).repeated == 0


def test_a_tier_a_run_and_patterns_name_the_same_records(tmp_path: Path) -> None:
    for name in ("test-001", "test-002"):
        _write_experiment(tmp_path / "fullruns" / name)
    whole = cal.read(tmp_path).sort("id", "tier", "variant", "run")
    first = tmp_path / "fullruns" / "test-001"
    for named, count in (
        (f"{tmp_path}/fullruns/*", 16),
        (f"{tmp_path}/fullruns/test-001/*", 8),
        (first / "T1", 4),
        (first / "T1" / "01", 2),
        (first / "T1" / "01" / "run_02", 1),
        (first / "T1" / "01" / "run_02" / "run_result.json", 1),
        (f"{tmp_path}/fullruns/test-001/*/*/run_02/run_result.json", 4),
    ):
        table = cal.read(named)
        assert table.height == count
        keys = ["id", "tier", "variant", "run"]
        assert table.join(whole, on=keys, how="anti").is_empty()


def test_different_tests_are_never_paired(tmp_path: Path) -> None:
    for name in ("test-001", "test-002"):
        _write_experiment(tmp_path / name)
    with pytest.raises(UsageError, match="no task"):
        cal.compare(tmp_path / "test-001", tmp_path / "test-002")
    found = cal.score(tmp_path, profile="tiers", by="tier")
    assert [group.records for group in found.groups] == [8, 8]


def test_copies_beside_each_other_are_different_tests(tmp_path: Path) -> None:
    """Their runs may record one path: what stands in two folders is not taken for one test."""
    at = "/home/me/fullruns/x/2026-01-20T06-13-07-test-009/T0/00/run_01/workspace"
    _write_run(tmp_path / "checkout" / "T0" / "00" / "run_01", workspace_path=at)
    alone = cal.read(tmp_path / "checkout")
    assert alone["id"].to_list() == ["test-009"]
    shutil.copytree(tmp_path / "checkout", tmp_path / "refunds")
    assert cal.read(tmp_path)["id"].sort().to_list() == ["checkout", "refunds"]


def test_a_result_alone_is_where_it_says_that_it_was(tmp_path: Path) -> None:
    at = "/home/me/fullruns/x/2026-01-20T06-13-07-test-009/T3/07/run_04/workspace"
    path = write_texts(tmp_path / "result.json", {**files.TIER_RUN, "workspace_path": at}, indent=2)
    [record] = cal.read(path).to_dicts()
    assert [record[name] for name in ("id", "tier", "variant", "run")] == [
        "test-009",
        "T3",
        "07",
        4,
    ]


def test_the_model_is_that_of_its_own_file_or_of_the_experiment(tmp_path: Path) -> None:
    _write_run(tmp_path / "test-001" / "T0" / "00" / "run_01")
    _write_run(tmp_path / "test-001" / "T0" / "00" / "run_02")
    config = tmp_path / "test-001" / "config"
    config.mkdir()
    write_texts(config / "experiment.json", {"models": ["claude-haiku"], "experiment_id": "x"})
    agent = tmp_path / "test-001" / "T0" / "00" / "run_02" / "agent"
    agent.mkdir()
    (agent / "MODEL.md").write_text("# Agent\n\n**Model**: llama3\n", encoding="utf-8")
    assert cal.read(tmp_path)["model"].to_list() == ["claude-haiku", "llama3"]


PROTOCOL = {
    "judge_model": "claude-opus-4-5-20251101",
    "requirements": {"R001": {"id": "R001", "score": 0.9, "confidence": 0.85}},
    "categories": {
        "functional_correctness": {"score": 0.85, "confidence": 0.9, "weight": 2.0},
        "cleanup_script_quality": {"score": None, "confidence": 0.1, "weight": 1.0},
    },
    "summary": {"weighted_score": 0.82, "passed": True, "overall_confidence": 0.87},
    "qualitative_feedback": "Solid.",
}


def test_a_judgment_as_the_protocol_writes_it(tmp_path: Path) -> None:
    run = tmp_path / "test-001" / "T0" / "00" / "run_01"
    _write_run(run)
    judge = run / "judge" / "judge_01"
    judge.mkdir(parents=True)
    path = write_texts(judge / "judgment.json", PROTOCOL, indent=2)
    [record] = cal.read(path).to_dicts()
    assert [record[name] for name in ("id", "tier", "variant", "run")] == [
        "test-001",
        "T0",
        "00",
        1,
    ]
    assert (record["score_judge"], record["score_R001"], record["passed"]) == (0.82, 0.9, True)
    assert cal.score(path, metrics=["impl_rate"])["impl_rate"].value == 0.82
    [judgment] = json.loads(record["judgments"])
    assert judgment["judge"] == PROTOCOL["judge_model"]
    assert judgment["scores"]["functional_correctness"] == 0.85


def test_items_of_a_criterion_and_those_that_do_not_apply(tmp_path: Path) -> None:
    items = {
        "F1": {"achieved": 0.25, "max": 0.5, "reason": "half"},
        "F2": {"achieved": "N/A", "max": "N/A", "reason": "no tests asked for"},
    }
    criterion = {"achieved": 0.25, "max": 0.5, "score": 0.5, "na_items": ["F2"], "items": items}
    judgment = {**files.JUDGMENT, "criteria_scores": {"functional": criterion, "style": None}}
    [record] = cal.read(write_texts(tmp_path / "judgment.json", judgment, indent=2)).to_dicts()
    assert (record["score_functional"], record["score_functional_F1"]) == (0.5, 0.5)
    assert "score_functional_F2" not in record


@pytest.mark.parametrize("as_protocol", [True, False])
def test_judges_agree_by_median_or_by_confidence(as_protocol: bool) -> None:  # noqa: FBT001
    told = [(0.8, 0.9, True), (0.5, 0.1, True), (0.2, 0.5, False)]
    judgments = [
        {"judge": str(n), "summary": {"weighted_score": s, "passed": p, "overall_confidence": c}}
        if as_protocol
        else {"judge": str(n), "weighted_score": s, "passed": p, "confidence": c}
        for n, (s, c, p) in enumerate(told)
    ]
    records = [{"id": "a", "judgments": judgments}, {"id": "b", "judgments": judgments[:1]}]
    score = cal.score(records, profile="tiers")
    assert score["impl_rate"].value == pytest.approx((0.5 + 0.8) / 2)
    assert score["pass_rate"].value == 1.0
    weighed = sum(s * c for s, c, _ in told) / sum(c for _, c, _ in told)
    by_confidence = cal.score(records, profile="tiers", consensus="confidence")
    assert by_confidence["impl_rate"].value == pytest.approx((weighed + 0.8) / 2)
    assert by_confidence.settings["consensus"] == "confidence"
    unsure = [{"id": "a", "judgments": [{"judge": "x", "weighted_score": 0.5}]}]
    nothing = cal.score([*records, *unsure], profile="tiers", consensus="confidence")
    assert (nothing["impl_rate"].n, nothing["impl_rate"].missing) == (2, 1)


def test_the_reason_for_no_impl_rate_is_true() -> None:
    voted = [{"id": "a", "passed": True, "judgments": [{"judge": "x", "passed": True}]}]
    reason = cal.score(voted, profile="tiers")["impl_rate"].reason
    assert reason == "no record has an impl_rate, or judgments with a weighted_score"


@needs_shared_data
def test_the_dry_run_is_of_one_test() -> None:
    table = cal.read(DRY_RUN)
    assert table["id"].unique().to_list() == ["test-001"]
    assert table["tier"].to_list() == ["T0", "T1", "T2", "T3"]
    assert table["variant"].to_list() == ["00", "01", "01", "01"]
    judged = cal.read(f"{DRY_RUN}/T0/00/run_01/judge/*/judgment.json")
    assert judged["score_functional_F4"].to_list() == [1.0, 1.0, 1.0]


@needs_shared_data
def test_consistency_is_as_they_publish_it() -> None:
    """Of each sub-test of each tier: 1 − the coefficient of variation of its judged scores."""
    runs = FOLDER / "agent_runs" / "scylla_haiku_runs.jsonl"
    published = [
        json.loads(line)
        for line in (FOLDER / "agent_runs" / "scylla_haiku_subtests.published.jsonl")
        .read_text(encoding="utf-8")
        .splitlines()
    ]
    score = cal.score(
        runs,
        by=["tier", "task", "subtest"],
        map={"impl_rate": "score"},
        profile="tiers",
        on_bad="null",
    )
    ours = {
        (each.by["task"], tier, each.by["subtest"]): value
        for each in score.tiers
        for tier, value in each.consistency.items()
    }
    told = {
        (each["experiment"], each["tier"], each["subtest"]): each["consistency"]
        for each in published
    }
    common = ours.keys() & told.keys()
    assert len(common) == len(ours) == 240
    for key in common:
        assert ours[key] == pytest.approx(told[key], abs=1e-9)


def test_grades_of_another_scale_are_named(tmp_path: Path) -> None:
    for run, (score, letter) in enumerate(((0.82, "A"), (0.97, "A"), (0.5, "C")), start=1):
        at = tmp_path / "test-001" / "T0" / "00" / f"run_{run:02}"
        _write_run(at, judge_score=score, judge_grade=letter)
    notices = str(cal.score(tmp_path, metrics=["impl_rate"]).notices)
    assert "2 of 3 runs have another grade in their files" in notices
    assert "--set grade_scale='{S: 1.0, A: 0.8, B: 0.6, C: 0.4, D: 0.2}'" in notices


def test_a_score_above_1_is_a_data_error_or_null(tmp_path: Path) -> None:
    for run, score in enumerate((1.028, 0.5), start=1):
        _write_run(tmp_path / "test-001" / "T0" / "00" / f"run_{run:02}", judge_score=score)
    with pytest.raises(DataError, match=r"run_01.*1\.028 is outside"):
        cal.score(tmp_path, profile="tiers")
    found = cal.score(tmp_path, profile="tiers", on_bad="null")
    assert (found["impl_rate"].value, found["pass_rate"].n) == (0.5, 2)


def test_a_pattern_reads_what_is_of_the_tool(tmp_path: Path) -> None:
    """An experiment has other folders and files beside its tiers."""
    _write_experiment(tmp_path / "test-001", runs=1)
    (tmp_path / "test-001" / "config").mkdir()
    write_texts(tmp_path / "test-001" / "config" / "experiment.json", {"models": ["m"]})
    (tmp_path / "test-001" / "prompt.md").write_text("Do it.", encoding="utf-8")
    score = cal.score(f"{tmp_path}/test-001/*", metrics=["pass_rate"])
    assert score.records == 4
    assert "2 of 4 matches hold no logs, and are not read" in str(score.notices)

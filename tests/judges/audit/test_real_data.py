"""Audits of real judges."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

import calipers as cal
from tests.judges.audit.judged_at_hand import (
    Row,
    items,
    judgment,
    only,
    record,
    scylla,
    three_judges,
)
from tests.shared_data import FOLDER, expected, needs_shared_data


@needs_shared_data
def test_projectscyllas_three_judges() -> None:
    figures = expected()["judge"]["scylla_three_judges.jsonl"]
    rows = scylla()
    audit = cal.audit_judges(rows)
    group = only(audit)
    alpha = group.agreement.weighted_score["krippendorff_alpha_interval"].value
    assert alpha == pytest.approx(figures["krippendorff_interval"], abs=1e-9)
    for pair in group.agreement.pairs:
        found = pair.weighted_score["spearman"]
        figure = figures["-".join(pair.judges)]
        assert found.n == figure["n"]
        assert found.value == pytest.approx(figure["spearman"], abs=1e-9)
    for judge in group.judges:
        own = [
            (
                each["weighted_score"],
                [o["weighted_score"] for o in row["judgments"] if o is not each],
            )
            for row in rows
            for each in row["judgments"]
            if each["judge"] == judge.judge
        ]
        assert judge.judgments == len(own)
        assert judge.measures["mean_score"].value == pytest.approx(fmean(score for score, _ in own))
        apart = [score - fmean(others) for score, others in own]
        assert judge.measures["bias"].value == pytest.approx(fmean(apart))
    first, second = cal.audit_judges(rows, by="suite").groups
    assert (first.judgments, second.judgments) == (1058, 1080)
    assert first.agreement.passed["percent_agreement"].value == 1


@needs_shared_data
def test_llmbars_published_accuracies() -> None:
    """A judge passes where it prefers the answer that people prefer."""
    text = (FOLDER / "judge/llmbar_judgements.jsonl").read_text(encoding="utf-8")
    cases: dict[str, Row] = {}
    for row in map(json.loads, filter(None, text.split("\n"))):
        case = cases.setdefault(row["id"], record(row["id"], subset=row["subset"]))
        right = str(row["judge_label"]) == str(row["human_label"])
        case["judgments"].append(judgment(f"{row['judge']}, {row['prompt']}", None, passed=right))
    audit = cal.audit_judges(list(cases.values()), by="subset")
    judges = {
        (group.by["subset"], judge.judge): judge for group in audit.groups for judge in group.judges
    }
    figures = expected()["judge"]["llmbar_judgements.jsonl"]
    assert len(figures) == len(judges)
    for figure in figures:
        judge = judges[figure["subset"], f"{figure['judge']}, {figure['prompt']}"]
        assert judge.judgments == figure["n"]
        assert judge.measures["pass_rate"].value == pytest.approx(figure["acc_false"])
        agreed, of = map(int, figure["published"]["correct_False"].split(" = ")[0].split(" / "))
        assert judge.measures["pass_rate"].value == agreed / of


@needs_shared_data
def test_projectscyllas_scores_against_the_share_of_points() -> None:
    """The file has Σ achieved / Σ max of each judgment, above 1 in three, in place of the items."""
    figures: dict[str, list[tuple[float, float]]] = {}
    runs: dict[tuple[Any, ...], Row] = {}
    for row in three_judges():
        share = row["impl_rate"]
        more: Row = {} if share is None else {"items": items((share, 1))}
        key = (row["task"], row["tier"], row["subtest"], row["run"])
        run_record = runs.setdefault(key, record("/".join(map(str, key)), suite=row["task"]))
        run_record["judgments"].append(judgment(row["judge"], row["score"], **more))
        if share is not None and share <= 1:
            figures.setdefault(row["task"], []).append((row["score"], share))
    for group in cal.audit_judges(list(runs.values()), by="suite").groups:
        pairs = figures[group.by["suite"]]
        equal = sum(abs(score - share) <= half_a_unit(score) + 1e-9 for score, share in pairs)
        assert (group.items_checked, group.items_equal) == (len(pairs), equal)
        assert (group.items_checked, group.items_equal) == {
            "test-001": (1055, 29),
            "test-003": (1079, 982),
        }[group.by["suite"]]


def half_a_unit(score: float) -> float:
    decimals = len(repr(score).partition(".")[2])
    return float(max(0.5 * 10 ** -max(2, decimals), 1e-6))


@needs_shared_data
def test_projectscyllas_items() -> None:
    """Twelve judgments of a dry run: the items pooled, and by the weights of its rubric."""
    rows = []
    for folder in sorted((FOLDER / "native_logs/scylla_dryrun").glob("T*/*/run_01/judge")):
        judgments = [
            json.loads(path.read_text()) for path in sorted(folder.glob("*/judgment.json"))
        ]
        rows.append({"id": str(folder), "judgments": judgments})
    pooled = only(cal.audit_judges(rows))
    assert (pooled.items_checked, pooled.items_equal) == (12, 7)
    weights = {
        "functional": 0.35,
        "code_quality": 0.2,
        "proportionality": 0.15,
        "build_pipeline": 0.1,
        "overall_quality": 0.2,
    }
    weighted = only(cal.audit_judges(rows, weights=weights))
    assert (weighted.items_checked, weighted.items_equal) == (12, 6)
    assert [judge.items.equal for judge in weighted.judges] == [0, 2, 4]
    worst = weighted.judges[0].items.worst[0]
    assert (worst.score, Path(worst.id).parts[-4]) == (0.95, "T2")
    assert worst.items == pytest.approx(1.0)

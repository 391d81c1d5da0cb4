"""Agreement of real raters: people and judges."""

from __future__ import annotations

import json
from collections.abc import Sequence

import polars as pl
import pytest

import calipers as cal
from calipers.statistics.estimates import Estimate
from tests.shared_data import FOLDER, expected, needs_shared_data

PANDALM = FOLDER / "judge" / "pandalm_3humans_2judges.jsonl"
SCYLLA = FOLDER / "judge" / "scylla_three_judges.jsonl"
SCYLLA_JUDGES = ("claude-opus-4-6", "claude-sonnet-4-6", "claude-haiku-4-5")  # numbers 1, 2, 3


@needs_shared_data
def test_three_people_compare_answers() -> None:
    people = ["annotator1", "annotator2", "annotator3"]
    found = cal.agree(PANDALM, raters=people, level="nominal")
    figures = expected()["judge"]["pandalm_3humans_2judges.jsonl"]
    for pair in found.pairs:
        numbers = "".join(name[-1] for name in pair.raters)
        kappa = pair.measures["cohen_kappa"]
        assert kappa.value == pytest.approx(figures[f"kappa_{numbers}"], rel=1e-12)
        # What the authors published over all 999 rows, of which the file holds 500.
        assert kappa.low is not None
        assert kappa.high is not None
        assert kappa.low < figures["published_full_set"][f"kappa_{numbers}"] < kappa.high
    assert found.measures["fleiss_kappa"].value == pytest.approx(figures["fleiss"], rel=1e-12)
    alpha = found.measures["krippendorff_alpha_nominal"].value
    assert alpha == pytest.approx(figures["krippendorff_nominal"], rel=1e-12)


@needs_shared_data
def test_three_judges_mark_runs() -> None:
    found = cal.agree(
        SCYLLA,
        raters=SCYLLA_JUDGES,
        rater_field="judge",
        value="score",
        unit=["task", "tier", "subtest", "run"],
    )
    figures = expected()["judge"]["scylla_three_judges.jsonl"]
    assert (found.units, found.ratings) == (720, 2138)
    alpha = found.measures["krippendorff_alpha_interval"].value
    assert alpha == pytest.approx(figures["krippendorff_interval"], rel=1e-12)
    for pair in found.pairs:
        expect = figures["-".join(str(SCYLLA_JUDGES.index(name) + 1) for name in pair.raters)]
        assert pair.n == expect["n"]
        assert pair.measures["spearman"].value == pytest.approx(expect["spearman"], rel=1e-9)
        assert pair.measures["pearson"].value == pytest.approx(expect["pearson"], rel=1e-9)


def alpha_of_scylla(rows: pl.DataFrame, *unit: str, cluster: Sequence[str] = ()) -> Estimate:
    """The judges' interval alpha; ratings of what `unit` does not tell apart are averaged."""
    pooled = rows.group_by(*unit, "judge").agg(pl.col("score").mean())
    found = cal.agree(pooled, rater_field="judge", value="score", unit=unit, cluster=cluster)
    return found.measures["krippendorff_alpha_interval"]


@needs_shared_data
def test_the_figures_of_the_documentation() -> None:
    """What docs/agreement.md says of units that are pooled, of tasks apart, and of clusters."""
    lines = SCYLLA.read_text(encoding="utf-8").split("\n")
    rows = pl.DataFrame([json.loads(line) for line in lines if line], infer_schema_length=None)
    run = ("task", "tier", "subtest", "run")
    assert alpha_of_scylla(rows, *run).value == pytest.approx(0.094, abs=5e-4)
    assert alpha_of_scylla(rows, *run[1:]).value == pytest.approx(0.135, abs=5e-4)
    assert alpha_of_scylla(rows, *run[:3]).value == pytest.approx(0.180, abs=5e-4)
    assert alpha_of_scylla(rows, "tier").value == pytest.approx(-0.270, abs=5e-4)
    apart = [alpha_of_scylla(task, *run).value for _, task in sorted(rows.group_by("task"))]
    assert apart == [pytest.approx(0.870, abs=5e-4), pytest.approx(-0.003, abs=5e-4)]
    clustered = alpha_of_scylla(rows, *run, cluster=run[:3])
    assert (clustered.low, clustered.high) == pytest.approx((-0.038, 0.222), abs=5e-4)


@needs_shared_data
def test_two_people_label_refusals() -> None:
    path = FOLDER / "scenarios" / "xstest_refusals.jsonl"
    rows = cal.read(path)
    for figures in expected()["scenarios"]["xstest_refusals.jsonl"]:
        found = cal.agree(
            rows.filter(pl.col("model") == figures["model"]),
            raters=["annotation_1", "annotation_2"],
        )
        share, kappa = found.measures["percent_agreement"], found.measures["fleiss_kappa"]
        assert share.value == pytest.approx(figures["annotator_agreement"], rel=1e-12)
        assert kappa.value == pytest.approx(figures["fleiss_kappa"], rel=1e-12)

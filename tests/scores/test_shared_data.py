"""Real logs give the figures that their sources published, and those of plain Python."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

import calipers as cal
from tests.engines_at_hand import ENGINES_AT_LENGTH
from tests.shared_data import FOLDER, expected, needs_shared_data

pytestmark = needs_shared_data

REASONING = ("bbh_codex.jsonl", "gsm8k_openai_2models.jsonl", "gsm8k_reread_2models.jsonl")

# Our names for theirs, where the two mean the same on every row.
FIGURES = {
    "cot_tokens_mean": "cot_tokens_mean_whitespace",
    "cot_chars_mean": "cot_chars_mean",
    "step_count_mean": "step_count_mean",
    "self_correction_rate": "self_correction_rate_substring_ci",
}


def _by_model(score: cal.Score) -> dict[str, cal.Group]:
    return {group.by["model"]: group for group in score.groups}


@pytest.mark.parametrize("engine", ENGINES_AT_LENGTH)
@pytest.mark.parametrize("name", REASONING)
def test_reasoning_figures(name: str, engine: str) -> None:
    path = FOLDER / "reasoning" / name
    numeric = _by_model(cal.score(path, by="model", engine=engine))
    for figures in expected()["reasoning"][name]:
        group = numeric[figures["model"]]
        metrics = group.metrics
        assert group.records == figures["n"]
        assert metrics["accuracy"].value == pytest.approx(figures["acc_numeric_norm"], rel=1e-12)
        assert metrics["accuracy"].extras["unanswered"] == figures["n_answer_null"]
        assert metrics["sce"].missing == figures["n_answer_null"]
        if "source_accuracy" in figures:
            assert metrics["accuracy"].value == pytest.approx(figures["source_accuracy"], rel=1e-12)
        assert metrics["usr"].value == pytest.approx(1 - figures["acc_numeric_norm"], rel=1e-9)
        assert metrics["cot_chars_mean"].missing == figures["n_cot_null"]
        for ours, theirs in FIGURES.items():
            if theirs in figures:
                assert metrics[ours].value == pytest.approx(figures[theirs], rel=1e-9)
            else:
                assert metrics[ours].value is None


@pytest.mark.parametrize("name", REASONING)
def test_reasoning_figures_compared_as_text(name: str) -> None:
    path = FOLDER / "reasoning" / name
    as_text = _by_model(cal.score(path, by="model", normalize="text"))
    for figures in expected()["reasoning"][name]:
        metrics = as_text[figures["model"]].metrics
        assert metrics["accuracy"].value == pytest.approx(figures["acc_strip_lower"], rel=1e-12)
        entropy = figures["sce_v0_nats_strip_lower_nonnull"]
        assert metrics["sce"].value == pytest.approx(entropy, rel=1e-9)


@pytest.mark.parametrize("name", REASONING)
def test_reasoning_to_answer_ratio(name: str) -> None:
    """The published figure takes a null answer as an empty one; ours leaves the row out."""
    rows = cal.read(FOLDER / "reasoning" / name).with_columns(pl.col("answer").fill_null(""))
    groups = _by_model(cal.score(rows, by="model", metrics=["ra_ratio_mean"]))
    for figures in expected()["reasoning"][name]:
        if "ra_ratio_mean" in figures:
            value = groups[figures["model"]].metrics["ra_ratio_mean"].value
            assert value == pytest.approx(figures["ra_ratio_mean"], rel=1e-9)


def _check_calibration(group: cal.Group, figures: dict[str, Any]) -> None:
    metrics = group.metrics
    assert group.records == figures["n"]
    assert metrics["accuracy"].value == pytest.approx(figures["accuracy"], rel=1e-12)
    assert metrics["brier"].value == pytest.approx(figures["brier"], rel=1e-9)
    assert metrics["ece"].value == pytest.approx(figures["ece10_right_closed"], abs=1e-9)
    if figures.get("ece_matches_1e-9"):
        assert metrics["ece"].value == pytest.approx(figures["ece_published"], abs=1e-9)
        assert metrics["accuracy"].value == pytest.approx(figures["accuracy_published"], abs=1e-9)


def test_verbalised_confidence() -> None:
    rows = cal.read(FOLDER / "calibration/verbalised_confidence_11models.jsonl")
    for subset, kept in (("all", rows), ("answered_by_all_models", None)):
        chosen = rows.filter(pl.col("answered_by_all_models")) if kept is None else kept
        groups = cal.score(chosen, by=["qset", "model"]).groups
        found = {(group.by["qset"], group.by["model"]): group for group in groups}
        checked = 0
        for figures in expected()["calibration"]["verbalised_confidence_11models.jsonl"]:
            if figures["subset"] == subset:
                _check_calibration(found[figures["qset"], figures["model"]], figures)
                checked += 1
        assert checked == len(found)


def test_msp_confidence() -> None:
    groups = _by_model(cal.score(FOLDER / "calibration/msp_confidence_arc.jsonl", by="model"))
    figures = expected()["calibration"]["msp_confidence"]
    assert {each["model"] for each in figures} == set(groups)
    for each in figures:
        _check_calibration(groups[each["model"]], each)
        published = each["published_auroc"] or each["auroc"]
        assert groups[each["model"]].metrics["auroc"].value == pytest.approx(published, abs=1e-12)


@pytest.mark.parametrize("engine", ENGINES_AT_LENGTH)
def test_efficiency(engine: str) -> None:
    figures = expected()["efficiency"]
    (group,) = cal.score(FOLDER / "efficiency/llm_calls_tokens_latency.jsonl", engine=engine).groups
    assert group.records == figures["n"]
    assert group.metrics["total_tokens_mean"].n == figures["n_with_tokens"]
    for name in (
        "prompt_tokens_mean",
        "completion_tokens_mean",
        "total_tokens_mean",
        "latency_mean_ms",
    ):
        assert group.metrics[name].value == pytest.approx(figures[name], rel=1e-9)
    assert group.metrics["latency_p95_ms"].value == figures["latency_p95_ms_nearest_rank"]

"""Logs that other tools really wrote, against what these say of themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import calipers as cal
from tests.shared_data import FOLDER, expected, needs_shared_data

LOGS = FOLDER / "native_logs"

pytestmark = needs_shared_data


def _figures() -> dict[str, Any]:
    figures: dict[str, Any] = expected()["native_logs"] if FOLDER.is_dir() else {}
    return figures


INSPECT = sorted(name for name in _figures() if "/" not in name)
LM_EVAL = sorted(name for name in _figures() if "/lm_eval/" in name)
PROMPTFOO = sorted(name for name in _figures() if "/promptfoo/" in name)
GARAK = sorted(name for name in _figures() if "/garak/" in name)


@pytest.mark.parametrize("name", INSPECT)
def test_inspect(name: str) -> None:
    figures = _figures()[name]
    result = cal.score(LOGS / "inspect" / name, by="model")
    assert sum(group.records for group in result.groups) == figures["n_samples_in_file"]
    for group in result.groups:
        assert group.by == {"model": figures["model"]}
        if figures["header_metrics"]:
            [accuracy] = (
                value for key, value in figures["header_metrics"].items() if "accuracy" in key
            )
            assert group.metrics["accuracy"].value == pytest.approx(accuracy, abs=1e-12)
        if figures["n_samples_in_file"]:
            [used] = figures["usage"].values()
            prompt = group.metrics["prompt_tokens_mean"].value
            assert prompt == pytest.approx(used["input_tokens"] / figures["n_samples_in_file"])


@pytest.mark.parametrize("results", LM_EVAL)
def test_lm_eval(results: str) -> None:
    folder = (FOLDER / results).parent
    for task, figures in _figures()[results].items():
        [path] = folder.glob(f"samples_{task}_*.jsonl")
        [group] = cal.score(path, by="task", metrics=["accuracy"]).groups
        assert group.by == {"task": task}
        assert group.records == figures["n_docs"]
        [recomputed] = figures["recomputed"].values()
        assert group.metrics["accuracy"].value == pytest.approx(recomputed)


@pytest.mark.parametrize("name", PROMPTFOO)
def test_promptfoo(name: str) -> None:
    figures = _figures()[name]
    result = cal.score(FOLDER / name)
    assert result.records == figures["n"]
    if figures["n"]:
        rate = result.groups[0].metrics["pass_rate"]
        assert (rate.value, rate.n) == (figures["passed"] / figures["n"], figures["n"])


@pytest.mark.parametrize("name", GARAK)
def test_garak(name: str) -> None:
    result = cal.score(FOLDER / name, by="category", metrics=["pass_rate"])
    rates = {group.by["category"]: group.metrics["pass_rate"] for group in result.groups}
    for figures in _figures()[name]["evals"]:
        rate = rates[figures["probe"]]
        assert rate.n == figures["total_evaluated"]
        assert rate.value == figures["passed"] / figures["total_evaluated"]


def test_openai_evals() -> None:
    [path] = (LOGS / "openai_evals").iterdir()
    [group] = cal.score(path, by="model").groups
    assert group.by == {"model": "auto_gpt_completion_fn"}
    assert group.metrics["accuracy"].value == pytest.approx(1 / 3)  # as its final report says


def test_spans_of_the_vercel_sdk() -> None:
    table = cal.read(LOGS / "otel" / "vercel_ai_spans_all.json")
    assert table.filter(table["prompt_tokens"] == 14)["completion_tokens"].to_list() == [20.0]


def _traces() -> list[Path]:
    return sorted((FOLDER / "traces" / "trail_openinference").glob("[GS]*/*.json"))


def test_traces_of_openinference_use_the_tokens_of_their_model_calls() -> None:
    calls = cal.read(FOLDER / "efficiency" / "llm_calls_tokens_latency.jsonl")
    records = cal.read(_traces())
    assert records.height == len(_traces())
    for record in records.iter_rows(named=True):
        of_trace = calls.filter(calls["trace_id"] == record["id"])
        if of_trace.height:
            assert record["prompt_tokens"] == of_trace["prompt_tokens"].sum()
            assert record["completion_tokens"] == of_trace["completion_tokens"].sum()

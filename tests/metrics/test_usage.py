"""The usage of a run or a judge, model by model: what it costs, and what is wrong with it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import calipers as cal
from calipers.records.fields import BadValue
from calipers.records.nested_fields import read_usage
from calipers.support.errors import DataError

pytest.importorskip("genai_prices.data")


def test_models_of_one_run_are_summed() -> None:
    used = {
        "claude-haiku-4-5-20251001": {"inputTokens": 4657, "outputTokens": 174},
        "claude-sonnet-4-5-20250929": {
            "inputTokens": 29,
            "outputTokens": 711,
            "cacheReadInputTokens": 113858,
            "cacheCreationInputTokens": 23350,
        },
    }
    recorded = 0.1379989  # what the agent that wrote this usage says it cost
    [group] = cal.score([{"usage": used}], metrics=["cost_usd"]).groups
    assert group.metrics["cost_usd"].value == pytest.approx(recorded, abs=1e-9)
    listed = [{"model": name, **counts} for name, counts in used.items()]
    [group] = cal.score([{"usage": listed}], metrics=["cost_usd"]).groups
    assert group.metrics["cost_usd"].value == pytest.approx(recorded, abs=1e-9)
    [group] = cal.score([{"usage": used, "cost_usd": 0.5}], metrics=["cost_usd"]).groups
    assert group.metrics["cost_usd"].value == 0.5


@pytest.mark.parametrize(
    "used",
    [
        {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100},
        {"input_tokens": 1000, "output_tokens": 100, "server_tool_use": None},
        {"completion_tokens": 100, "prompt_tokens_details": {"cached_tokens": 0}},
    ],
)
def test_the_usage_of_a_reply_is_of_the_records_model(used: dict[str, Any]) -> None:
    record = {"id": "a", "model": "gpt-4o", "prompt_tokens": 1000, "usage": used}
    [group] = cal.score([record], metrics=["cost_usd"]).groups
    assert group.metrics["cost_usd"].value == pytest.approx((1000 * 2.5 + 100 * 10) / 1e6)
    [group] = cal.score([{"id": "a", "correct": True, "usage": used}]).groups
    assert group.metrics["accuracy"].value == 1.0
    [group] = cal.score(
        [{"judgments": [{"judge": "gpt-4o", "usage": {**used, "input_tokens": 1000}}]}],
        metrics=["judge_cost_usd"],
    ).groups
    assert group.metrics["judge_cost_usd"].value == pytest.approx((1000 * 2.5 + 100 * 10) / 1e6)


def test_a_model_without_a_price_leaves_the_whole_run_without_a_cost() -> None:
    used = {
        "gpt-4o": {"prompt_tokens": 10, "completion_tokens": 1},
        "home-made": {"input_tokens": 5, "output_tokens": 5},
    }
    [group] = cal.score([{"usage": used}], metrics=["cost_usd"]).groups
    assert group.metrics["cost_usd"].value is None
    assert "home-made" in str(group.metrics["cost_usd"].reason)
    priced_too = used | {"home-made": used["home-made"] | {"cost_usd": 1.0}}
    [group] = cal.score([{"usage": priced_too}], metrics=["cost_usd"]).groups
    assert group.metrics["cost_usd"].value == pytest.approx(1.0 + (10 * 2.5 + 10) / 1e6)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('"gpt-4o"', "mapping from model"),
        ("[3]", "not a model with its tokens"),
        ('{"gpt-4o": 3}', "not a model with its tokens"),
        ('[{"input_tokens": 3}]', "not a model with its tokens"),
        ('{"gpt-4o": {"input_tokens": -3}}', "input_tokens: -3 is negative"),
        ('{"gpt-4o": {"costUSD": "free"}}', 'costUSD: "free" is not a number'),
        ("[" * 100_000, "mapping from model"),
    ],
)
def test_a_usage_that_is_none_says_why(text: str, problem: str) -> None:
    with pytest.raises(BadValue, match=re.escape(problem)):
        read_usage(text)


def test_judges_are_priced_by_their_model() -> None:
    judgments = [
        {"judge": "gpt-4o", "prompt_tokens": 1000, "completion_tokens": 100},
        {"judge": "second", "usage": {"gpt-4o": {"prompt_tokens": 1000, "completion_tokens": 100}}},
        {"judge": "third", "cost_usd": 0.25},
    ]
    rows = [{"cost_usd": 1.0, "passed": True, "judgments": judgments}, {"cost_usd": 2.0}]
    apart = cal.score(rows, metrics=["cost_usd", "judge_cost_usd"]).groups[0].metrics
    assert apart["cost_usd"].value == 1.5
    assert apart["judge_cost_usd"].value == pytest.approx(0.257)
    included = cal.score(rows, metrics=["cost_usd", "cost_of_pass"], judge_cost="included")
    assert included.groups[0].metrics["cost_usd"].value == pytest.approx(1.5 + 0.257 / 2)
    assert included.groups[0].metrics["cost_of_pass"].value == pytest.approx(1.257)
    unsaid = [*judgments, {"judge": "fourth"}]
    rows = [{"cost_usd": 1.0, "judgments": unsaid}]
    found = cal.score(rows, metrics=["judge_cost_usd"]).groups[0].metrics["judge_cost_usd"]
    assert (found.value, found.missing) == (None, 1)


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_a_bad_usage_is_named_with_its_row(suffix: str, tmp_path: Path) -> None:
    good = {"gpt-4o": {"input_tokens": 3, "output_tokens": 1}}
    bad = {"gpt-4o": {"input_tokens": -3, "output_tokens": 1}}
    rows = [{"id": "a", "usage": json.dumps(good)}, {"id": "b", "usage": json.dumps(bad)}]
    path = tmp_path / f"runs{suffix}"
    if suffix == ".parquet":
        pl.DataFrame(rows).write_parquet(path)
    else:
        loaded = ({**row, "usage": json.loads(row["usage"])} for row in rows)
        path.write_text("".join(json.dumps(row) + "\n" for row in loaded), encoding="utf-8")
    with pytest.raises(DataError, match=r"runs\.\w+:2: usage: input_tokens: -3(\.0)? is negative"):
        cal.score(path, metrics=["cost_usd"])
    skipped = cal.score(path, metrics=["cost_usd"], on_bad="skip")
    assert skipped.groups[0].metrics["cost_usd"].n == 1


@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".parquet"])
@pytest.mark.parametrize(
    ("judgment", "problem"),
    [
        ({"cost_usd": -1}, "judgment 2: cost_usd: -1 is negative"),
        ({"usage": {"gpt-4o": {"input_tokens": "x"}}}, 'judgment 2: input_tokens: "x" is not a'),
        ({"weighted_score": 1.5}, "judgment 2: weighted_score: 1.5 is outside [0, 1]"),
        ({"passed": "yes"}, 'judgment 2: passed: "yes" is not true or false'),
        (5, "judgment 2 is not an object"),
    ],
)
def test_a_bad_judgment_is_named_with_its_row(
    judgment: object, problem: str, suffix: str, tmp_path: Path
) -> None:
    good = {"judge": "a", "passed": True, "weighted_score": 0.5, "cost_usd": 0.1}
    judgments = {"a": [good], "b": [good, judgment]}
    path = tmp_path / f"runs{suffix}"
    if suffix == ".jsonl":
        lines = (json.dumps({"id": name, "judgments": of}) for name, of in judgments.items())
        path.write_text("\n".join(lines), encoding="utf-8")
    else:
        texts = [json.dumps(of) for of in judgments.values()]
        table = pl.DataFrame({"id": list(judgments), "judgments": texts})
        table.write_csv(path) if suffix == ".csv" else table.write_parquet(path)
    metrics = ["pass_rate", "impl_rate", "judge_cost_usd"]
    with pytest.raises(DataError, match=rf":2: judgments: {re.escape(problem)}"):
        cal.score(path, metrics=metrics)
    skipped = cal.score(path, metrics=metrics, on_bad="skip").groups[0].metrics
    assert [skipped[name].value for name in metrics] == [1.0, 0.5, 0.1]

"""Tables say what matters: which metrics have a row, in which order, and how they are written."""

from __future__ import annotations

from typing import Any

import pytest

import calipers as cal
from calipers.metrics import catalogue
from calipers.metrics.thresholds import read_scale
from calipers.reports.number_format import Form, format_figure
from calipers.reports.tables.shown_metrics import (
    choose_difference_form,
    choose_metric_form,
    choose_rows,
    list_shown,
)


def calls(model: str = "o1", count: int = 20) -> list[dict[str, Any]]:
    return [
        {
            "id": str(n),
            "model": model,
            "target": str(n),
            "answer": str(n if n % 3 else 0),
            "prob_correct": 0.5 + n / 50,
            "cot": "1. So.",
            "cost_usd": 0.0004,
            "latency_ms": 100 + n,
            "prompt_tokens": 10,
            "completion_tokens": 5,
        }
        for n in range(count)
    ]


def test_the_usual_metrics_come_first_and_the_rest_is_named() -> None:
    score = cal.score(calls())
    choice = choose_rows(score)
    assert choice.rows == ("accuracy", "cost_usd", "latency_p95_ms", "ece")[: len(choice.rows)] or (
        choice.rows[:3] == ("accuracy", "cost_usd", "latency_p95_ms")
    )
    assert "brier" in choice.folded + choice.rows
    assert f"{len(choice.folded)} more metrics (calipers score --all)" in " ".join(
        str(score).split()
    )
    assert {*choice.rows, *choice.folded} == {
        name for name in list_shown(score) if score[name].value is not None
    }


def test_what_a_policy_asks_comes_before_everything() -> None:
    score = cal.score(calls())
    assert choose_rows(score, ["brier", "error_rate"]).rows[:3] == (
        "brier",
        "error_rate",
        "accuracy",
    )


def test_metrics_that_are_named_keep_their_order() -> None:
    names = ["latency_p95_ms", "brier", "accuracy"]
    assert list(choose_rows(cal.score(calls(), metrics=names)).rows) == names


def test_a_profile_and_all_show_everything() -> None:
    assert choose_rows(cal.score(calls(), profile="reasoning")).folded == ()


def test_what_is_the_same_everywhere_is_one_line() -> None:
    score = cal.score([*calls("llama"), *calls("llama3")], by="model", profile="reasoning")
    choice = choose_rows(score)
    assert "step_count_mean" in choice.alike
    assert "accuracy" in choice.rows  # though it is the same
    told = " ".join(str(score).split())
    assert told.count("the same in all 2: ") == 1


def test_csv_and_json_have_all_of_them() -> None:
    score = cal.score(calls())
    for name in score.groups[0].metrics:
        assert name in score.to_csv()
        assert name in score.to_json()


@pytest.mark.parametrize(
    ("parts", "shown"), [({}, False), ({"reference": "x", "answer": "x"}, False)]
)
def test_no_composite_without_its_parts(parts: dict[str, str], shown: bool) -> None:  # noqa: FBT001
    trace = {"tool_calls": [{"tool_name": "find", "success": True}]}
    rows = [{"id": str(n), "trace": trace, "duration_seconds": 2, **parts} for n in range(5)]
    score = cal.score(rows, semantic_model="lexical")
    assert ("agent_composite" in str(score)) == shown
    assert not any("agent_composite" in each for each in score.notices)
    assert score["agent_composite"].value is not None  # JSON has it
    for asked in ({"metrics": ["agent_composite"]}, {"profile": "agents"}):
        named = cal.score(rows, semantic_model="lexical", **asked)
        assert "agent_composite" in str(named)
        assert any("lacks" in each for each in named.notices)


def test_rates_are_percentages_and_differences_points() -> None:
    for name, metric in catalogue().items():
        is_ratio = read_scale(metric).is_ratio
        assert choose_metric_form(name, ()).percent == is_ratio
        assert choose_difference_form(name).points == is_ratio
    rows = [*calls("llama"), *[row | {"answer": row["target"]} for row in calls("llama3")]]
    told = " ".join(str(cal.compare(rows, between="model", metrics=["accuracy"])).split())
    assert "70 % 100 % +30 [+5, +50] points" in told
    assert "points" in told


def test_money_is_written_for_a_thousand_calls() -> None:
    assert format_figure(0.000366, 0.000341, 0.000391, Form(thousand=True)) == "$0.366 ± 0.025"
    assert format_figure(-0.002, form=Form(thousand=True)) == "−$2"
    told = " ".join(str(cal.score(calls(), metrics=["cost_usd"])).split())
    assert "$0.4 per 1,000 calls" in told or "$0.4" in told
    assert cal.score(calls())["cost_usd"].value == pytest.approx(0.0004)

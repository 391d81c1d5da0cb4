"""The agents' composite: its weights, its boundaries, what is missing, and judged scores."""

from __future__ import annotations

import json
from fractions import Fraction
from functools import reduce
from itertools import product
from operator import add
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import calipers as cal
from calipers.metrics.declare.settings import Settings
from calipers.metrics.families.agents import (
    FEATURES,
    PARTS,
    agent_composite,
    agent_composite_missing,
    check_weights,
    read_weights,
    recommendation,
    recommendation_weight,
)
from calipers.metrics.families.traces import single_agent
from calipers.support.errors import UsageError
from tests import commands
from tests.conformance import composite_reference as reference
from tests.examples import examples
from tests.files import write_lines
from tests.shared_data import FOLDER, needs_shared_data

PLAN = ("logical_flow", "decision_quality", "resource_efficiency")


def scored(parts: dict[str, Any], settings: Settings | None = None) -> dict[str, Any]:
    """The composite's columns of a row with these parts."""
    settings = settings or Settings()
    row = {FEATURES[name].name: parts.get(name) for name in PARTS} | {"_single_agent": False}
    read = (*FEATURES.values(), single_agent)
    frame = pl.DataFrame([row], schema={each.name: each.dtype for each in read})
    for feature in (
        agent_composite,
        agent_composite_missing,
        recommendation,
        recommendation_weight,
    ):
        frame = frame.with_columns(
            feature.expression(settings).cast(feature.dtype).alias(feature.name)
        )
    return frame.row(0, named=True)


def weighing(**weights: float) -> Settings:
    return Settings(weights=check_weights(weights, source="weights.yaml"))


def test_all_parts_at_their_best_are_clamped_to_one() -> None:
    found = scored(dict.fromkeys(PARTS, 1))
    assert (found["agent_composite"], found["agent_composite_missing"]) == (1.0, "")


@pytest.mark.parametrize(
    ("least", "name", "weight"),
    [
        (0.8, "accept", 1.0),
        (0.6, "weak_accept", 0.7),
        (0.4, "weak_reject", -0.7),
        (0.0, "reject", -1.0),
    ],
)
def test_the_least_score_of_each_recommendation(least: float, name: str, weight: float) -> None:
    found = scored({"time_taken": least}, weighing(time_taken=1))
    assert found["agent_composite"] == least
    assert (found["recommendation"], found["recommendation_weight"]) == (name, weight)
    if least:
        below = scored({"time_taken": least - 1e-9}, weighing(time_taken=1))
        assert below["recommendation_weight"] < weight


@pytest.mark.parametrize("tenths", [8, 6, 4])
def test_weights_that_reach_a_boundary_on_paper_reach_it(tenths: int) -> None:
    """Of 0.4 + 0.3 + 0.1 a computer makes 0.7999999999999999."""
    bent = 0
    for split in product(range(1, 9), repeat=3):
        if sum(split) != tenths:
            continue
        weights = dict(zip(PARTS, (part / 10 for part in split), strict=False))
        bent += reduce(add, weights.values()) != tenths / 10  # sum() rounds once since 3.12
        found = scored(dict.fromkeys(weights, 1), weighing(**weights))
        assert found["agent_composite"] == tenths / 10, split
        assert found["recommendation"] == reference.recommendation(tenths / 10)[0], split
    assert bent or tenths == 4


@given(
    parts=st.fixed_dictionaries(
        {
            name: st.one_of(st.none(), st.sampled_from([0.2, 0.4, 0.6, 0.8, 1.0]), st.floats(0, 1))
            for name in PARTS
            if name != "task_success"
        }
    ),
    weights=st.dictionaries(st.sampled_from(PARTS), st.integers(0, 10), min_size=1).filter(
        lambda weights: any(weights.values())
    ),
    missing=st.sampled_from(["zero", "renormalize"]),
)
@examples(300, deadline=None)
def test_a_recommendation_agrees_with_the_score_beside_it(
    parts: dict[str, float | None], weights: dict[str, int], missing: Any
) -> None:
    tenths = {name: weight / 10 for name, weight in weights.items()}
    settings = Settings(weights=check_weights(tenths, source="weights.yaml"), missing=missing)
    found = scored(parts, settings)
    score = found["agent_composite"]
    if score is None:
        assert found["recommendation"] is None
        return
    stated = found["recommendation"], found["recommendation_weight"]
    assert stated == reference.recommendation(score)
    expected, _ = reference.composite(
        {**dict.fromkeys(PARTS), **parts}, tenths, renormalize=missing == "renormalize"
    )
    assert score == pytest.approx(expected, abs=1e-13)


@pytest.mark.long
def test_exact_fractions_decide_as_the_score_does() -> None:
    """Parts and weights of few decimals: the exact sum and the score agree on which side it is."""
    for weights in product((1, 2, 3, 4), repeat=3):
        for parts in product((2, 5, 8, 10), repeat=3):
            exact = sum(
                Fraction(w, 10) * Fraction(p, 10) for w, p in zip(weights, parts, strict=True)
            )
            found = scored(
                dict(
                    zip(
                        ("time_taken", "tool_efficiency", "output_similarity"),
                        (p / 10 for p in parts),
                        strict=True,
                    )
                ),
                weighing(
                    **dict(
                        zip(
                            ("time_taken", "tool_efficiency", "output_similarity"),
                            (w / 10 for w in weights),
                            strict=True,
                        )
                    )
                ),
            )
            expected = next(
                name
                for name, least in (
                    ("accept", 8),
                    ("weak_accept", 6),
                    ("weak_reject", 4),
                    ("reject", 0),
                )
                if min(exact, 1) >= Fraction(least, 10)
            )
            assert found["recommendation"] == expected, (weights, parts)


def test_a_missing_part_counts_nothing_or_gives_its_weight_away() -> None:
    parts = {"time_taken": 0.5, "task_success": True}
    zero = scored(parts)
    assert zero["agent_composite"] == pytest.approx(0.167 * 1.5)
    assert zero["agent_composite_missing"] == (
        "coordination_quality,tool_efficiency,planning_rational,output_similarity"
    )
    renormalized = scored(parts, Settings(missing="renormalize"))
    assert renormalized["agent_composite"] == pytest.approx(0.167 * 1.5 * 3)


def test_a_part_that_weighs_nothing_is_not_missed() -> None:
    found = scored({"time_taken": 1.0}, weighing(time_taken=0.5, task_success=0))
    assert (found["agent_composite"], found["agent_composite_missing"]) == (0.5, "")
    without = scored({"task_success": True}, weighing(time_taken=0.5, task_success=0))
    assert without["agent_composite"] is None


def test_nothing_there_nothing_said() -> None:
    for missing in ("zero", "renormalize"):
        found = scored({}, Settings(missing=missing))
        assert found["agent_composite"] is None
        assert found["recommendation"] is None
        assert found["agent_composite_missing"] == ",".join(PARTS)


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ({"planning_rationality": 1}, "no part of the composite is called planning_rationality\n  did you mean planning_rational?"),
        ({"time_taken": -0.1}, "time_taken is -0.1, negative"),
        ({"time_taken": "1"}, 'time_taken is "1", not a number'),
        ({"time_taken": True}, "time_taken is true, not a number"),
        ({"time_taken": None}, "time_taken is null, not a number"),
        ({"time_taken": float("nan")}, "time_taken is nan, not a finite number"),
        ({"time_taken": float("inf")}, "time_taken is inf, not a finite number"),
        ({"time_taken": 10**400}, "time_taken is inf, not a finite number"),
        ({"time_taken": 1e308, "task_success": 1e308}, "the weights sum to infinity"),
        ({"time_taken": 0, "task_success": 0.0}, "all weights are 0"),
        ({}, "no weights in it"),
        ([1], "no weights in it"),
        ({1: 1}, "no part of the composite is called 1"),
        ({"time_taken": [1]}, "time_taken is a list, not a number"),
    ],
)  # fmt: skip
def test_weights_that_make_no_sense(table: Any, problem: str) -> None:
    with pytest.raises(UsageError) as caught:
        check_weights(table, source="weights.yaml")
    assert str(caught.value).startswith(f"weights.yaml: {problem}")


def test_weights_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "weights.yaml"
    path.write_text("task_success: 1\ntime_taken: 0.5\n", encoding="utf-8")
    weights = read_weights(path)
    assert {name: weight for name, weight in weights.by_part.items() if weight} == {
        "task_success": 1.0,
        "time_taken": 0.5,
    }


def _record(**scores: Any) -> dict[str, Any]:
    return {"judgments": [{"judge": "a", "scores": scores}]}


def _rationality(*records: dict[str, Any]) -> cal.Measured:
    found = cal.score(list(records), metrics=["planning_rationality"])
    return found.groups[0].metrics["planning_rationality"]


def test_judged_scores_lie_between_a_fifth_and_one() -> None:
    assert _rationality(_record(**dict.fromkeys(PLAN, 1))).value == pytest.approx(0.2)
    assert _rationality(_record(**dict.fromkeys(PLAN, 5))).value == pytest.approx(1.0)


def test_judges_are_averaged_by_criterion() -> None:
    record = {
        "judgments": [
            {"judge": "a", "scores": dict(zip(PLAN, (5, 4, 3), strict=True))},
            {"judge": "b", "scores": {"logical_flow": 2, "decision_quality": None}},
            {"judge": "c", "scores": None, "reason": "stayed bad"},
        ]
    }
    assert _rationality(record).value == pytest.approx((3.5 * 0.3 + 4 * 0.5 + 3 * 0.2) / 5)


@pytest.mark.parametrize("bad", [0, 0.99, 5.01, -3, "4", True, [4], {}, 1e400])
def test_a_bad_score_makes_its_row_null_and_is_told(bad: Any) -> None:
    good = _record(**dict.fromkeys(PLAN, 3))
    rows = [good, _record(**(dict.fromkeys(PLAN, 3) | {"logical_flow": bad}))]
    score = cal.score([{"id": str(n), **row} for n, row in enumerate(rows)], profile="agents")
    measured = score.groups[0].metrics["planning_rationality"]
    assert measured.value == pytest.approx(0.6)
    assert (measured.n, measured.missing) == (1, 1)
    told = "1 record has a judge's score outside its scale (1 to 5, of the categories of `quality` "
    assert any(notice.startswith(told) for notice in score.notices)


def test_a_bad_score_of_one_rubric_leaves_the_others() -> None:
    scores = dict.fromkeys(PLAN, 3) | {"factual_correctness": 9}
    assert _rationality(_record(**scores)).value == pytest.approx(0.6)


def test_criteria_of_nobody_we_know_are_no_bad_judgment() -> None:
    score = cal.score([{"id": "1", **_record(humour=11)}], profile="agents")
    assert not any("outside" in notice for notice in score.notices)
    reason = score.groups[0].metrics["planning_rationality"].reason
    assert reason == (
        "no record has judgments with scores from 1 to 5 of "
        "logical_flow, decision_quality and resource_efficiency"
    )


def test_judgments_for_tiers_show_no_empty_rubrics() -> None:
    rows = [{"judgments": [{"judge": "a", "passed": True}]}]
    assert set(cal.score(rows).groups[0].metrics) >= {"pass_rate"}
    assert "planning_rationality" not in cal.score(rows).groups[0].metrics


def test_the_command_line(tmp_path: Path) -> None:
    path = write_lines(
        tmp_path / "runs.jsonl",
        [
            {"id": "1", "duration_seconds": 0.5, **_record(**dict.fromkeys(PLAN, 5))},
            {"id": "2", "duration_seconds": 0.5},
            {"id": "3"},
        ],
    )
    (tmp_path / "weights.yaml").write_text(
        "{time_taken: 0.4, planning_rational: 0.4}", encoding="utf-8"
    )
    command = ["score", str(path), "--profile", "agents", "--format", "json"]
    options = ["--weights", str(tmp_path / "weights.yaml")]
    samples = ["--per-sample", str(tmp_path / "samples.jsonl")]
    result = commands.run(*command, *options, *samples)
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    measured = found["groups"][0]["metrics"]["agent_composite"]
    assert (measured["value"], measured["n"], measured["missing"]) == (pytest.approx(0.6), 2, 1)
    counts = {name: measured[name] for name in ("accept", "weak_accept", "weak_reject", "reject")}
    assert counts == {"accept": 1, "weak_accept": 0, "weak_reject": 1, "reject": 0}
    assert found["settings"]["weights"]["time_taken"] == 0.4
    assert (
        "agent_composite of 2 records lacks planning_rational in 1: it counts 0 there "
        "(--set missing=renormalize gives its weight to the others)"
    ) in found["notices"]
    rows = pl.read_ndjson(tmp_path / "samples.jsonl")
    assert rows["agent_composite"].to_list() == [0.8, 0.4, None]
    assert rows["agent_composite_missing"].to_list() == [
        "",
        "planning_rational",
        "time_taken,planning_rational",
    ]
    assert rows["recommendation"].to_list() == ["accept", "weak_reject", None]
    assert rows["recommendation_weight"].to_list() == [1.0, -0.7, None]


def test_a_bad_file_of_weights_on_the_command_line(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "runs.jsonl", [{"id": "1"}])
    (tmp_path / "weights.yaml").write_text("tool_eficiency: 1", encoding="utf-8")
    result = commands.run("score", path, "--weights", tmp_path / "weights.yaml")
    assert result.exit_code == 2
    assert "did you mean tool_efficiency?" in result.stderr


def test_the_composite_can_be_explained() -> None:
    text = str(cal.explain("agent_composite", [{"id": "1", "duration_seconds": 0.5}, {"id": "2"}]))
    assert "rows     1 used of 2" in text
    assert "1 left out: without trace" in text


@needs_shared_data
def test_published_composites() -> None:
    """Runs for which their source had all six parts."""
    theirs = {"planning_rational": "planning_rationality"}
    checked = 0
    for path in sorted(FOLDER.glob("traces/agents_eval_peerread_mas/*/evaluation.json")):
        run = json.loads(path.read_text(encoding="utf-8"))
        scores = run["metric_scores"]
        if len(scores) == len(PARTS):
            parts = {name: scores[theirs.get(name, name)] for name in PARTS}
            parts["task_success"] = bool(parts["task_success"])
            found = scored(parts)
            assert found["agent_composite"] == pytest.approx(run["composite_score"], abs=1e-9)
            assert found["recommendation"] == run["recommendation"]
            assert found["recommendation_weight"] == run["recommendation_weight"]
            checked += 1
    assert checked >= 3


def _run_of(*agents: str, **trace: Any) -> dict[str, Any]:
    calls = [{"tool_name": "read", "agent_id": agent} for agent in agents]
    return {"id": "a", "duration_seconds": 0.5, "trace": {"tool_calls": calls, **trace}}


def test_the_tasks_of_agents_are_their_calls_where_nothing_says_more() -> None:
    """2 and 1: the mean is 1.5, a sample's deviation √.5."""
    by_calls = _run_of("lead", "lead", "coder")
    told = _run_of("lead", "lead", "coder", agent_tasks={"lead": 1, "coder": 1})
    unnamed = {"id": "a", "trace": {"tool_calls": [{"tool_name": "read"}]}}
    metric = "task_distribution_balance"
    expected = 1 - 0.5**0.5 / 1.5
    assert cal.score([by_calls], metrics=[metric])[metric].value == pytest.approx(expected)
    assert cal.score([told], metrics=[metric])[metric].value == 1.0
    assert cal.score([unnamed], metrics=[metric])[metric].value is None


@pytest.mark.parametrize("as_text", [True, False])
def test_a_single_agent_gives_the_weight_of_teamwork_to_the_others(
    tmp_path: Path,
    *,
    as_text: bool,
) -> None:
    alone = _run_of("manager", "manager", agent_interactions=[])
    team = _run_of("manager", "writer", agent_interactions=[])
    rows = [alone | {"id": "alone"}, team | {"id": "team"}]
    if as_text:
        rows = [{**row, "trace": json.dumps(row["trace"])} for row in rows]
    out = tmp_path / "rows.jsonl"
    score = cal.score(rows, profile="agents", missing="renormalize", per_sample=out)
    found = {row["id"]: row for row in map(json.loads, out.read_text("utf-8").splitlines())}
    assert found["alone"]["agent_composite_not_applicable"] == "coordination_quality"
    assert "coordination_quality" not in found["alone"]["agent_composite_missing"]
    assert found["team"]["agent_composite_not_applicable"] == ""
    assert "coordination_quality" in found["team"]["agent_composite_missing"]
    assert "coordination_quality is not applicable to 1 record of a single agent" in str(
        score.notices
    )
    zero = cal.score(rows, profile="agents")
    assert "coordination_quality in 2" in str(zero.notices)
    assert "not applicable" not in str(zero.notices)

"""Judged scores, the agents' composite and the recommendation on every engine, against plain Python."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import calipers as cal
from calipers.metrics import metrics_of
from tests.conformance import composite_reference as reference
from tests.conformance import test_agents, test_traces
from tests.conformance.agents_reference import Options
from tests.engines_at_hand import needs_spark
from tests.examples import examples, first_of

Rows = list[dict[str, Any]]

JUDGED = [each.__name__ for each in reference.JUDGED]
TOOLS = {"find": "search", "*": "write"}
WEIGHTS = {"time_taken": 2, "task_success": 0.5, "planning_rational": 0, "tool_efficiency": 0.3}
TEXTS = Options(stand_in=True)
_REUSED = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
_CRITERIA = (
    "factual_correctness methodology_understanding domain_knowledge actionable_feedback "
    "balanced_critique improvement_guidance logical_flow decision_quality resource_efficiency "
    "claims_supported nothing_contradicted nothing_added question_addressed all_parts_answered "
    "nothing_beside_the_point facts_agree no_false_facts key_facts_included no_help_to_harm "
    "no_hurtful_content risks_handled"
).split()

_scores = st.one_of(st.integers(1, 5), st.floats(1, 5), st.sampled_from([1, 5, 3, 4, None]))
_bad_scores = st.sampled_from([0, 5.5, -1, "4", True, [], 1e300])
_judgments = st.lists(
    st.fixed_dictionaries(
        {"judge": st.sampled_from("xyz")},
        optional={
            "scores": st.one_of(
                st.none(),
                st.fixed_dictionaries(dict.fromkeys(_CRITERIA, _scores)),
                st.fixed_dictionaries(
                    {name: st.one_of(_scores, _scores, _bad_scores) for name in _CRITERIA}
                ),
                st.dictionaries(st.sampled_from(_CRITERIA), _scores),
            )
        },
    ),
    max_size=3,
)
_texts = st.sampled_from(["red wine", "red", "white wine, red wine", "", None])
_rows = st.fixed_dictionaries(
    {},
    optional={
        "answer": _texts,
        "reference": _texts,
        "duration_seconds": st.sampled_from([None, 0, 0.5, 1, 7.5, 300]),
        "judgments": st.one_of(st.none(), _judgments, _judgments, _judgments),
        "trace": st.one_of(st.none(), test_traces.traces, test_traces.traces),
        "error": st.sampled_from([None, None, None, None, "timeout: none"]),
    },
)


def test_every_metric_of_the_profile_is_checked() -> None:
    of_traces = (
        "path_convergence tool_selection_accuracy communication_overhead coordination_centrality "
        "task_distribution_balance"
    ).split()
    checked = {*test_agents.METRICS, *JUDGED, *of_traces, "agent_composite"}
    assert {metric.name for metric in metrics_of("agents")} == checked


@pytest.mark.parametrize("missing", ["zero", "renormalize"])
@pytest.mark.parametrize(
    "weights", first_of([WEIGHTS, reference.WEIGHTS]), ids=["a file's", "P's weights"]
)
@given(rows=st.lists(_rows, min_size=1, max_size=8))
@examples(40, deadline=None, suppress_health_check=_REUSED)
def test_polars_agrees_with_plain_python(
    rows: Rows, weights: dict[str, float], missing: str, tmp_path: Path
) -> None:
    _compare("polars", rows, weights, missing, tmp_path)


@needs_spark
@pytest.mark.long
@given(rows=st.lists(_rows, min_size=60, max_size=80))
@settings(max_examples=1, deadline=None, suppress_health_check=_REUSED)
def test_spark_agrees_with_plain_python(rows: Rows, tmp_path: Path) -> None:
    _compare("spark", rows, reference.WEIGHTS, "renormalize", tmp_path)


def _compare(
    engine: str, rows: Rows, weights: dict[str, float], missing: Any, folder: Path
) -> None:
    rows = [row | {"id": f"{number:04}"} for number, row in enumerate(rows)]
    data, tools, samples = folder / "runs.jsonl", folder / "tools.json", folder / "samples.parquet"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    tools.write_text(json.dumps(TOOLS), encoding="utf-8")
    given = folder / "weights.json"
    given.write_text(json.dumps(weights), encoding="utf-8")
    score = cal.score(
        data,
        profile="agents",
        engine=engine,
        semantic_model="lexical",
        missing=missing,
        optimal_tools=tools,
        weights=None if weights is reference.WEIGHTS else given,
        per_sample=samples,
    )
    found = pl.read_parquet(samples).sort("id").to_dicts()
    options = Options(stand_in=True, renormalize=missing == "renormalize")
    expected = []
    for row, sample in zip(rows, found, strict=True):
        for name, value in reference.judged(row).items():
            _same(sample.get(name), value, (name, row))
        parts = reference.parts(row, options, TOOLS)
        whole = reference.composite(parts, weights, renormalize=options.renormalize)
        if options.renormalize and reference.count_agents(row) == 1:  # not applicable, not missing
            whole = whole[0], [name for name in whole[1] if name != "coordination_quality"]
        expected.append(whole[0])
        _check_row(sample, whole, row)
    there = [value for value in expected if value is not None]
    measured = score.groups[0].metrics["agent_composite"]
    assert measured.n == len(there)
    _same(measured.value, math.fsum(there) / len(there) if there else None, rows)


def _check_row(
    sample: dict[str, Any], expected: tuple[float | None, list[str]], row: dict[str, Any]
) -> None:
    composite, missing = expected
    if "agent_composite" not in sample:  # no row has any field that it needs
        assert composite is None
        return
    _same(sample["agent_composite"], composite, row)
    listed = sample["agent_composite_missing"]
    assert (listed.split(",") if listed else []) == missing, row
    stated = sample["recommendation"], sample["recommendation_weight"]
    if composite is None:
        assert stated == (None, None)
    else:
        assert stated == reference.recommendation(sample["agent_composite"]), row


def _same(found: float | None, expected: float | None, where: object) -> None:
    same = None if expected is None else pytest.approx(expected, rel=1e-9, abs=1e-12)
    assert found == same, where

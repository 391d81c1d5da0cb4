"""The trace metrics on every engine give what P's code with networkx gives."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import calipers as cal
from tests.conformance import traces_reference as reference
from tests.engines_at_hand import needs_spark
from tests.examples import examples

Rows = list[dict[str, Any]]

_REUSED = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
_MAPPING = {"find": "search", "find it": "read", "tea": "pot", "*": "write", "[odd": "{tool"}
_NAMES = st.sampled_from(["search", "read", "write", "pot", "{tool", "é", ""])
_TOOLS = st.sampled_from(["search", "read", "{tool", "é"])
_CONTEXTS = st.sampled_from(
    ["find", "go find it", "steal", "", "find tea", "[odd", "Find", "nothing"]
)
_TYPES = st.sampled_from([*reference.COORDINATION, *reference.PRODUCTIVE, "chat", "Handoff"])


def _maybe(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(st.none(), values, values, values)


_calls = st.lists(
    st.fixed_dictionaries(
        {"tool_name": _NAMES},
        optional={
            "context": _maybe(_CONTEXTS),
            "success": st.booleans(),
            "agent_id": _maybe(_NAMES),
        },
    ),
    max_size=12,
)
_agents = st.sampled_from([*"abcdefgh", "[x"])
_messages = st.lists(
    st.fixed_dictionaries(
        {}, optional={"from": _maybe(_agents), "to": _maybe(_agents), "type": _maybe(_TYPES)}
    ),
    max_size=20,
)
_tasks = st.dictionaries(
    _agents, _maybe(st.one_of(st.integers(0, 9), st.floats(0.001, 1e6))), max_size=6
)
traces = st.fixed_dictionaries(
    {},
    optional={
        "tool_calls": _maybe(_calls),
        "agent_interactions": _maybe(_messages),
        "agent_tasks": _maybe(_tasks),
        "coordination_events": st.just([{"any": ["thing"]}]),
    },
)
_runs = st.fixed_dictionaries(
    {},
    optional={
        "trace": _maybe(traces),
        "error": st.sampled_from([None, None, None, "timeout: none"]),
        "optimal_tools": _maybe(st.dictionaries(_CONTEXTS, _TOOLS, min_size=1, max_size=3)),
    },
)


@given(groups=st.lists(st.lists(_runs, min_size=1, max_size=8), min_size=1, max_size=3))
@examples(60, deadline=None, suppress_health_check=_REUSED)
def test_polars_agrees_with_plain_python(groups: list[Rows], tmp_path: Path) -> None:
    _compare("polars", groups, tmp_path, {})
    _compare("polars", groups, tmp_path, {}, mapping=None)
    _compare("polars", groups, tmp_path, {"start": "read", "goal": "pot"})


@needs_spark
@pytest.mark.long
@given(groups=st.lists(st.lists(_runs, min_size=1, max_size=8), min_size=20, max_size=30))
@settings(max_examples=2, deadline=None, suppress_health_check=_REUSED)
def test_spark_agrees_with_plain_python(groups: list[Rows], tmp_path: Path) -> None:
    _compare("spark", groups, tmp_path, {"start": "read"})


def _compare(
    engine: str,
    groups: list[Rows],
    folder: Path,
    ends: dict[str, Any],
    mapping: dict[str, str] | None = _MAPPING,
) -> None:
    data, file = folder / "runs.jsonl", folder / "tools.json"
    rows = [row | {"case": number} for number, group in enumerate(groups) for row in group]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    file.write_text(json.dumps(mapping), encoding="utf-8")
    given: dict[str, Any] = {} if mapping is None else {"optimal_tools": file}
    score = cal.score(data, by="case", profile="agents", engine=engine, **given, **ends)
    measured = {group.by["case"]: group for group in score.groups}
    references: dict[str, Callable[[dict[str, Any]], float | None]] = {
        "path_convergence": partial(reference.path_convergence, **ends),
        "communication_overhead": reference.communication_overhead,
        "coordination_centrality": reference.coordination_centrality,
        "task_distribution_balance": reference.task_distribution_balance,
    }
    for number, group in enumerate(groups):
        called = [row for row in group if not row.get("error")]
        traces = [row["trace"] for row in called if row.get("trace") is not None]
        values_of = {name: list(map(value_of, traces)) for name, value_of in references.items()}
        values_of["tool_selection_accuracy"] = [
            reference.tool_selection_accuracy(row["trace"], mapping, row.get("optimal_tools"))
            for row in called
            if row.get("trace") is not None
        ]
        for name, found_values in values_of.items():
            found, where = measured[number].metrics[name], (name, group)
            values = [value for value in found_values if value is not None]
            assert (found.n, found.missing) == (len(values), len(called) - len(values)), where
            if values:
                mean = math.fsum(values) / len(values)
                assert found.value == pytest.approx(mean, rel=1e-9, abs=1e-12), where
            else:
                assert found.value is None, where
                assert found.reason, where
        share = measured[number].metrics["communication_overhead"].extras["unknown_type_share"]
        messages = sum(len(trace.get("agent_interactions") or []) for trace in traces)
        unknown = sum(map(reference.unknown_types, traces))
        assert share == (pytest.approx(unknown / messages) if messages else None)

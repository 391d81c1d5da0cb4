"""Many traces at once are read as each alone would be."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calipers.metrics.families.traces import DECODED, decode_traces
from calipers.records.batch import Wanted
from calipers.records.fields import BadValue
from calipers.records.nested_fields import TRACE_TYPE, read_trace
from calipers.records.readers.lines import JsonLines
from tests.conformance.traces_reference import task_distribution_balance
from tests.examples import examples
from tests.files import write_lines

_anything = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-3, 10**20),
        st.sampled_from([0.5, -2.25, 1e9 + 0.5]),
        st.sampled_from(["a", "[b", "{}", "", "é\u2028", 'quo"te', "back\\slash", "line\nbreak"]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=2), st.dictionaries(st.text("ab", max_size=1), inner, max_size=2)
    ),
    max_leaves=4,
)
_names = st.sampled_from(["a", "b", "[b", "{c", "é\u2028", 'quo"te', "back\\slash", "line\nbreak"])
_calls = st.fixed_dictionaries(
    {"tool_name": _names}, optional={"context": _anything, "agent_id": _anything}
)
_messages = st.fixed_dictionaries({}, optional={"from": _names, "to": _names, "type": _names})
_good = st.fixed_dictionaries(
    {},
    optional={
        "tool_calls": st.lists(_calls, max_size=3),
        "agent_interactions": st.lists(_messages, max_size=3),
        "agent_tasks": st.dictionaries(_names, st.integers(0, 5) | st.floats(0.001, 9), max_size=3),
        "other": _anything,
    },
)
_part = st.one_of(_anything, st.lists(_anything, max_size=2))
_any_shape = st.one_of(
    _anything,
    st.fixed_dictionaries(
        {}, optional={"tool_calls": _part, "agent_interactions": _part, "agent_tasks": _part}
    ),
)


def one_by_one(traces: list[Any]) -> list[Any]:
    rows: list[Any] = []
    for trace in map(read_trace, traces):
        if trace is None:
            rows.append(None)
            continue
        calls, messages, tasks = trace.tool_calls, trace.agent_interactions, trace.agent_tasks
        rows.append(
            {
                "tool_calls": None if calls is None else [call._asdict() for call in calls],
                "agent_interactions": None
                if messages is None
                else [{"from": m.sender, "to": m.receiver, "type": m.type} for m in messages],
                "balance": task_distribution_balance({"agent_tasks": tasks}),
                "agents": len(trace.agents),
            }
        )
    return rows


def same(found: pl.Series, traces: list[Any]) -> bool:
    def plain(rows: list[Any]) -> list[Any]:
        return [row and {**row, "balance": None} for row in rows]

    expected = one_by_one(traces)
    assert [row and row["balance"] for row in found] == pytest.approx(
        [row and row["balance"] for row in expected], abs=1e-12
    )
    return plain(found.to_list()) == plain(expected)


@given(traces=st.lists(_good | st.none(), max_size=4))
@examples(200, deadline=None)
def test_texts(traces: list[Any]) -> None:
    texts = [None if trace is None else json.dumps(trace) for trace in traces]
    found = decode_traces(pl.Series("trace", texts, dtype=pl.String))
    assert found.dtype == DECODED
    assert same(found, traces)


@given(traces=st.lists(_any_shape, min_size=1, max_size=4))
@examples(300, deadline=None)
def test_a_wrong_shape_is_refused_and_nothing_else(traces: list[Any]) -> None:
    texts = pl.Series("trace", [json.dumps(trace) for trace in traces])
    problem = next(filter(None, map(_problem, texts)), None)
    if problem is None:
        assert len(decode_traces(texts)) == len(texts)
    else:
        with pytest.raises(BadValue, match=f"^{re.escape(problem)}$"):
            decode_traces(texts)


def _problem(text: str) -> str | None:
    try:
        read_trace(text)
    except BadValue as problem:
        return str(problem)
    return None


@given(traces=st.lists(_good | st.none(), min_size=1, max_size=4))
@examples(200, deadline=None)
def test_columns_as_polars_reads_them(traces: list[Any]) -> None:
    """What could be something else is handed back, to be read as text."""
    lines = "\n".join(json.dumps({"trace": trace}) for trace in traces)
    read = pl.read_ndjson(lines.encode(), schema={"trace": TRACE_TYPE})["trace"]
    try:
        found = decode_traces(read)
    except BadValue:
        assert any(mark in lines for mark in ('"[', '"{', "\\", '""'))
    else:
        assert same(found, traces)


def test_json_lines_are_read_straight_into_columns(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "rows.jsonl", [{"trace": {"tool_calls": [{"tool_name": "a"}]}}])
    (chunk,) = JsonLines(path).chunks(Wanted(("id", "trace")))
    assert chunk.lazy().collect()["trace"].dtype == TRACE_TYPE
    assert chunk.exact().frame["trace"].dtype == pl.String


@pytest.mark.parametrize(
    "texts",
    [
        ["{},{}", ""],
        ['{"tool_calls": [', "]}", "{},{}"],
        ["{}\n{}", "{}"],
        ["{} {}"],
        [" "],
        ["\ufeff{}"],
        ['{"tool_calls": []} more'],
    ],
)
def test_rows_never_run_into_each_other(texts: list[str]) -> None:
    with pytest.raises(BadValue, match="not JSON"):
        decode_traces(pl.Series(texts))


def test_json_over_several_lines() -> None:
    trace = {"tool_calls": [{"tool_name": "a", "context": "b"}]}
    texts = [json.dumps(trace, indent=2), "{}", json.dumps(trace)]
    assert decode_traces(pl.Series(texts)).struct.field("tool_calls").list.len().to_list() == [
        1,
        None,
        1,
    ]

"""Which tool a context calls for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calipers.metrics.families.traces import check_tools, measure_selection, read_optimal_tools
from calipers.support.errors import UsageError
from tests.conformance.traces_reference import optimal_tool
from tests.examples import examples

_texts = st.text("ab*", max_size=4)
BOMB = "b0: &b0 [x, x]\n" + "\n".join(
    f"b{n}: &b{n} [{', '.join([f'*b{n - 1}'] * 9)}]" for n in range(1, 30)
)


@given(
    mapping=st.dictionaries(_texts, st.sampled_from("xyz"), min_size=1), contexts=st.lists(_texts)
)
@examples(300, deadline=None)
def test_exact_then_longest_contained_then_any(
    mapping: dict[str, str], contexts: list[str]
) -> None:
    tools = check_tools(mapping, source="tools.yaml")
    found = tools.of(pl.Series(contexts, dtype=pl.String)).to_list()
    assert found == [optimal_tool(context, mapping) for context in contexts]


@pytest.mark.parametrize(
    ("context", "tool"),
    [
        ("find", "exact"),
        ("find the paper now", "longest"),
        ("to find", "exact"),
        ("Find", "any"),
        ("ab cd", "first in the alphabet"),
        ("", "any"),
    ],
)
def test_the_rules(context: str, tool: str) -> None:
    tools = check_tools(
        {
            "find": "exact",
            "find the paper": "longest",
            "cd": "second",
            "ab": "first in the alphabet",
            "*": "any",
        },
        source="tools.yaml",
    )
    assert tools.of(pl.Series([context])).to_list() == [tool]


def test_a_context_without_a_tool_is_wrong_and_counted() -> None:
    tools = check_tools({"find": "search"}, source="tools.yaml")
    calls = [
        {"tool_name": "search", "context": "find it"},
        {"tool_name": "search", "context": "cook"},
        {"tool_name": "no such tool", "context": "find"},
        {"tool_name": "", "context": None},
    ]
    found = measure_selection(pl.Series([calls, [], None], dtype=pl.List(_call())), tools)
    assert found["share"].to_list() == [0.25, 0.0, None]
    assert found["unmapped"].to_list() == [2, 0, None]


def _call() -> pl.Struct:
    return pl.Struct({"tool_name": pl.String, "context": pl.String})


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ([], "no contexts and tools in it"),
        ({}, "no contexts and tools in it"),
        (None, "no contexts and tools in it"),
        ({1: "a"}, "1 is not text"),
        ({"a": ["b"]}, "is not text"),
        ({"a": None}, "None is not text"),
        ({"a": True}, "True is not text"),
    ],
)
def test_what_is_no_mapping_is_refused(table: Any, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        check_tools(table, source="tools.yaml")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: b\na: c", "a is there twice"),
        ("a: [", "cannot be read as YAML"),
        ("!!python/object/apply:os.system [echo]", "cannot be read as YAML"),
        (f"a: {'x' * (1 << 20)}", "larger than 1 MiB"),
        (BOMB, "more than 50,000 values"),
        ("a: &a [*a]", "nested deeper"),
        (f"a: {'[' * 5000}", "cannot be read as YAML"),
    ],
)
def test_a_file_that_cannot_be_read(text: str, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "tools.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=problem):
        read_optimal_tools(path)


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        read_optimal_tools(tmp_path / "none.yaml")


def test_json_too(tmp_path: Path) -> None:
    path = tmp_path / "tools.json"
    path.write_text('{"a": "b"}', encoding="utf-8")
    assert read_optimal_tools(path).by_context == {"a": "b"}

"""A picture of a trace: valid, escaped, told in words, the shortest way marked."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree as ET

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

import calipers as cal
from calipers.reports.trace_picture import MOST_NODES, find_shortest
from tests.examples import examples

SVG = "{http://www.w3.org/2000/svg}"
_WAY = "#e8590c"


def calls(*tools: str) -> dict[str, Any]:
    return {"tool_calls": [{"tool_name": tool} for tool in tools]}


def read(picture: str) -> ET.Element:
    root = ET.fromstring(picture)
    assert root.tag == f"{SVG}svg"
    assert root.get("role") == "img"
    return root


def texts(root: ET.Element) -> list[str]:
    return ["".join(each.itertext()) for each in root.iter(f"{SVG}text")]


def edges(root: ET.Element, *, of_way: bool) -> set[str]:
    return {
        path[0].text or ""
        for path in root.iter(f"{SVG}path")
        if len(path) and (path.get("stroke") == _WAY) == of_way
    }


def test_nodes_edges_counts_and_the_way() -> None:
    root = read(cal.trace_svg(calls("a", "b", "b", "a", "b", "c")))
    assert edges(root, of_way=True) == {"a → b: 2", "b → c: 1"}
    assert edges(root, of_way=False) == {"b → b: 1", "b → a: 1"}
    shown = texts(root)
    assert {"a", "b", "c", "×2", "×3", "start", "goal", "2"} <= set(shown)
    assert root.findtext(f"{SVG}title") == "Tools of a run: 3 tools, 6 calls"
    assert root.findtext(f"{SVG}desc") == "Shortest way from a to c: 2 steps; 5 steps taken."


def test_a_way_between_other_ends() -> None:
    root = read(cal.trace_svg(calls("a", "b", "c", "d"), start="b", goal="c"))
    assert edges(root, of_way=True) == {"b → c: 1"}


@pytest.mark.parametrize(
    ("trace", "options", "says"),
    [
        ({}, {}, "The trace has no tool calls."),
        (None, {}, "The trace has no tool calls."),
        ({"tool_calls": []}, {"graph": "agents"}, "The trace has no messages between agents."),
        (calls("a"), {}, "It began and ended with a."),
        (calls("a", "b"), {"start": "b", "goal": "a"}, "There is no way from b to a."),
        (calls("a", "b"), {"start": "z"}, "There is no way from z to b."),
    ],
)
def test_what_there_is_not(trace: Any, options: dict[str, Any], says: str) -> None:
    assert read(cal.trace_svg(trace, **options)).findtext(f"{SVG}desc") == says


def test_agents_where_there_are_no_calls() -> None:
    messages = [{"from": "lead", "to": each} for each in ("coder", "tester", "coder")]
    messages += [{"from": "tester", "to": "lead"}, {"from": "alone"}]
    root = read(cal.trace_svg({"agent_interactions": messages}))
    assert root.findtext(f"{SVG}title") == "Agents of a run: 4 agents, 5 messages"
    assert (root.findtext(f"{SVG}desc") or "").startswith("Most central: lead, ")
    assert "lead → coder: 2" in edges(root, of_way=False)


def test_hostile_names_stay_text() -> None:
    names = ["</text><script>alert(1)</script>", "a'\"&b", "nul\x00\x1b[31m", "\ud800", "]]>", ""]
    picture = cal.trace_svg(calls(*names))
    assert "<script" not in picture
    root = read(picture)
    assert not list(root.iter(f"{SVG}script"))
    assert "(no name)" in texts(root)
    assert "\x1b" not in picture
    picture.encode()


def test_too_many_nodes_to_read() -> None:
    root = read(cal.trace_svg(calls(*(f"t{n}" for n in range(1000)))))
    assert len(list(root.iter(f"{SVG}g"))) == MOST_NODES
    assert (root.findtext(f"{SVG}desc") or "").endswith("940 less busy ones are not shown.")
    assert {"start", "goal"} <= set(texts(root))


@given(
    names=st.lists(st.sampled_from([f"tool {n}" for n in range(25)]), max_size=60),
    talk=st.lists(st.tuples(st.sampled_from("abcdefgh"), st.sampled_from("abcdefgh")), max_size=30),
)
@examples(60, deadline=None)
def test_every_picture_is_whole(names: list[str], talk: list[tuple[str, str]]) -> None:
    trace = calls(*names) | {"agent_interactions": [{"from": a, "to": b} for a, b in talk]}
    for graph, count in (("tools", len({*names})), ("agents", len({n for t in talk for n in t}))):
        picture = cal.trace_svg(trace, graph=graph)  # type: ignore[arg-type]
        assert picture == cal.trace_svg(trace, graph=graph)  # type: ignore[arg-type]
        root = read(picture)
        assert len(list(root.iter(f"{SVG}g"))) == count
        width, height = (float(each) for each in str(root.get("viewBox")).split()[2:])
        for box in root.iter(f"{SVG}rect"):
            x, y = float(box.get("x", "")), float(box.get("y", ""))
            assert 0 <= x <= width, picture
            assert 0 <= y <= height, picture
        assert "nan" not in picture


def test_boxes_do_not_overlap() -> None:
    root = read(cal.trace_svg(calls(*(f"t{n * n % 53}" for n in range(120)))))
    boxes = [
        (float(box.get("x", "")), float(box.get("y", "")))
        for group in root.iter(f"{SVG}g")
        for box in group.iter(f"{SVG}rect")
    ]
    assert len({*boxes}) == len(boxes)
    for number, (x, y) in enumerate(boxes):
        for other_x, other_y in boxes[:number]:
            assert abs(x - other_x) >= 156 or abs(y - other_y) >= 34


def test_ids_differ_on_a_page_of_several() -> None:
    pictures = [cal.trace_svg(calls(*tools)) for tools in ("ab", "ac")]
    first, second = (set(re.findall(r"id='([^']+)'", picture)) for picture in pictures)
    assert first.isdisjoint(second)


@given(edges=st.lists(st.tuples(st.sampled_from("abcdef"), st.sampled_from("abcdef")), min_size=1))
@examples(200, deadline=None)
def test_the_way_is_a_shortest_one(edges: list[tuple[str, str]]) -> None:
    graph: nx.DiGraph[str] = nx.DiGraph(edges)
    start, goal = edges[0][0], edges[-1][1]
    way = find_shortest(edges, start, goal)
    if not nx.has_path(graph, start, goal):
        assert way == []
        return
    assert len(way) - 1 == nx.shortest_path_length(graph, start, goal)
    assert nx.is_path(graph, way)
    assert (way[0], way[-1]) == (start, goal)


def test_a_bad_trace() -> None:
    with pytest.raises(cal.DataError, match=r"trace: tool_calls\[0\].tool_name is missing"):
        cal.trace_svg({"tool_calls": [{}]})
    with pytest.raises(cal.UsageError, match="no graph of a trace is called people"):
        cal.trace_svg({}, graph="people")  # type: ignore[arg-type]

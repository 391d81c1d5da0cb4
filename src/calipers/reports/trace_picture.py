"""A trace as an SVG picture: its tools or agents, who follows whom how often, the path marked.

Nodes stand in columns by distance from the first one, folded into bands. Every text is escaped, the
picture is described to screen readers, and legible on light and dark pages.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import log2
from operator import mul
from typing import Any, Literal
from xml.sax.saxutils import escape
from zlib import crc32

import numpy as np

from calipers.metrics.trace_graphs import Graphs
from calipers.records.fields import BadValue
from calipers.records.nested_fields import Trace, read_trace
from calipers.support.errors import DataError, UsageError
from calipers.support.options import require_type

_NODE_WIDTH, _NODE_HEIGHT = 156, 34
_COLUMN_GAP, _ROW_GAP, _BAND_GAP = 84, 34, 46
_MARGIN = 28
_COLUMNS = 6  # side by side, before the next band begins below
_LINE, _WAY = "#7d8796", "#e8590c"
_BOX, _INK = "#eef1f5", "#1c2530"
_FONT = "font-family='system-ui, -apple-system, Segoe UI, sans-serif'"
_NARROWEST = 560
_TOP = 96  # room for the two lines of text
_LABEL = 18  # characters of a name in its box
_PILL = 0.62  # how far to the right along an edge its count stands
_LINE_CHARS = 110  # characters of a line of text
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

Edge = tuple[str, str]
Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class _Place:
    x: float  # of its middle
    y: float
    column: int
    band: int


@dataclass(frozen=True, slots=True)
class Drawing:
    """What is drawn: nodes and edges with their counts, tags above nodes, the marked path."""

    title: str
    says: str
    nodes: Mapping[str, int]
    edges: Mapping[Edge, int]
    tags: Mapping[str, str]
    way: Sequence[str] = ()


def render_svg(drawing: Drawing) -> str:
    """Return the SVG, the same for the same drawing."""
    places = _place_nodes(list(drawing.nodes), drawing.edges, _TOP)
    right = max((place.x for place in places.values()), default=0) + _NODE_WIDTH / 2
    bottom = max((place.y for place in places.values()), default=_TOP) + _NODE_HEIGHT / 2
    width, height = max(right + 2 * _MARGIN, _NARROWEST), bottom + 2 * _MARGIN
    own = f"{crc32(repr(drawing).encode(errors='replace')):08x}"  # ids differ on a page of several
    head = (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width:g} {height:g}' "
        f"width='{width:g}' height='{height:g}' role='img' "
        f"aria-labelledby='title-{own} desc-{own}' {_FONT}>"
    )
    return "\n".join(
        (
            head,
            f"<title id='title-{own}'>{_escape(drawing.title)}</title>",
            f"<desc id='desc-{own}'>{_escape(drawing.says)}</desc>",
            _draw_arrow(f"arrow-{own}", _LINE),
            _draw_arrow(f"way-{own}", _WAY),
            _draw_text(_MARGIN, 30, drawing.title, size=16, colour=_LINE, weight=600),
            _draw_text(
                _MARGIN, 50, shorten_label(drawing.says, _LINE_CHARS), size=13, colour=_LINE
            ),
            *_draw_edges(drawing, places, own),
            *_draw_nodes(drawing, places),
            "</svg>\n",
        )
    )


def _place_nodes(nodes: Sequence[str], edges: Iterable[Edge], top: float) -> dict[str, _Place]:
    edges = list(edges)
    levels = _order_levels(_list_levels(nodes, edges), edges)
    pitch, step = _NODE_HEIGHT + _ROW_GAP, _NODE_WIDTH + _COLUMN_GAP
    places: dict[str, _Place] = {}
    for band in range(-(-len(levels) // _COLUMNS)):
        columns = levels[band * _COLUMNS : (band + 1) * _COLUMNS]
        rows = max(map(len, columns))
        for column, names in enumerate(columns):
            offset = (rows - len(names)) / 2
            for row, name in enumerate(names):
                x = _MARGIN + _NODE_WIDTH / 2 + column * step
                y = top + _NODE_HEIGHT / 2 + (offset + row) * pitch
                places[name] = _Place(x, y, column, band)
        top += rows * pitch + _BAND_GAP
    return places


def _list_levels(nodes: Sequence[str], edges: Sequence[Edge]) -> list[list[str]]:
    """Return the nodes by distance from the first one; unreachable ones start over."""
    after: dict[str, list[str]] = {}
    for a, b in edges:
        after.setdefault(a, []).append(b)
    level: dict[str, int] = {}
    for root in nodes:
        if root in level:
            continue
        level[root] = 1 + max(level.values()) if level and root not in after else 0
        waiting = deque([root])
        while waiting:
            here = waiting.popleft()
            for node in after.get(here, ()):
                if node not in level:
                    level[node] = level[here] + 1
                    waiting.append(node)
    found: list[list[str]] = [[] for _ in range(1 + max(level.values(), default=-1))]
    for name in nodes:
        found[level[name]].append(name)
    return found


def _order_levels(levels: list[list[str]], edges: Sequence[Edge]) -> list[list[str]]:
    """Return each column in the order of what leads to it, so that fewer edges cross."""
    before: dict[str, list[str]] = {}
    for a, b in edges:
        before.setdefault(b, []).append(a)
    height: dict[str, float] = {}
    ordered: list[list[str]] = []
    for names in levels:
        wanted = {name: _average_height(before.get(name, ()), height) for name in names}
        column = sorted(names, key=wanted.__getitem__)
        height |= {name: row - len(column) / 2 for row, name in enumerate(column)}
        ordered.append(column)
    return ordered


def _average_height(names: Iterable[str], height: Mapping[str, float]) -> float:
    known = [height[name] for name in names if name in height]
    return sum(known) / len(known) if known else 0.0


def _draw_arrow(name: str, colour: str) -> str:
    return (
        f"<marker id='{name}' viewBox='0 0 10 10' refX='9' refY='5' markerWidth='8' "
        f"markerHeight='8' markerUnits='userSpaceOnUse' orient='auto'>"
        f"<path d='M0 1 10 5 0 9z' fill='{colour}'/></marker>"
    )


def _draw_edges(drawing: Drawing, places: Mapping[str, _Place], own: str) -> Iterator[str]:
    """Yield the edges, those of the path last and so on top, and the counts of repeated ones."""
    counts: list[str] = []
    way = {*pairwise(drawing.way)}
    for edge in sorted(drawing.edges, key=way.__contains__):
        count, is_way = drawing.edges[edge], edge in way
        points = _bend(places[edge[0]], places[edge[1]])
        colour, marker = (_WAY, "way") if is_way else (_LINE, "arrow")
        thickness = min(5.0, 1.2 + 0.7 * log2(count)) + is_way
        (x0, y0), (x1, y1), (x2, y2), (x3, y3) = points
        yield (
            f"<path d='M{x0:.1f} {y0:.1f}C{x1:.1f} {y1:.1f} {x2:.1f} {y2:.1f} {x3:.1f} {y3:.1f}' "
            f"fill='none' stroke='{colour}' stroke-width='{thickness:.1f}' "
            f"stroke-opacity='{1 if is_way else 0.7}' marker-end='url(#{marker}-{own})'>"
            f"<title>{_escape(edge[0])} → {_escape(edge[1])}: {count}</title></path>"
        )
        if count > 1:
            counts.append(_draw_count(points, count, colour))
    yield from counts


def _bend(a: _Place, b: _Place) -> tuple[Point, Point, Point, Point]:
    """Return the curve from node to node: rightwards along the columns, else around others."""
    half_width, half_height = _NODE_WIDTH / 2, _NODE_HEIGHT / 2
    if a == b:
        top = a.y - half_height
        return (a.x + 34, top), (a.x + 44, top - 32), (a.x + 70, top - 32), (a.x + 62, top)
    if a.band == b.band and a.column < b.column:
        begin, end = (a.x + half_width, a.y), (b.x - half_width, b.y)
        reach = (end[0] - begin[0]) / 2
        return begin, (begin[0] + reach, begin[1]), (end[0] - reach, end[1]), end
    if a.band == b.band and a.column == b.column:
        begin, end = (a.x + half_width, a.y), (b.x + half_width, b.y)
        return begin, (begin[0] + 46, begin[1]), (end[0] + 46, end[1]), end
    down = 1 if a.band <= b.band else -1
    begin = (a.x, a.y + down * half_height)
    end = (b.x, b.y + (half_height if a.band == b.band else -down * half_height))
    bow = 34 + min(30.0, abs(a.x - b.x) / 14)
    turn = bow if a.band == b.band else -down * bow
    return begin, (begin[0], begin[1] + down * bow), (end[0], end[1] + turn), end


def _draw_count(points: tuple[Point, Point, Point, Point], count: int, colour: str) -> str:
    """Return how often an edge was taken, in a pill on it, where edges of one node part."""
    far = _PILL if points[0][0] < points[-1][0] else 1 - _PILL
    near = 1 - far
    weights = near**3, 3 * far * near**2, 3 * far**2 * near, far**3
    x, y = (sum(map(mul, weights, along)) for along in zip(*points, strict=True))
    label = f"{count:,}"
    width = 10 + 7 * len(label)
    pill = (
        f"<rect x='{x - width / 2:.1f}' y='{y - 8:.1f}' width='{width}' height='16' rx='8' "
        f"fill='{_BOX}' stroke='{colour}' stroke-width='0.8'/>"
    )
    return pill + _draw_text(x, y + 4, label, size=11, colour=_INK, anchor="middle")


def _draw_nodes(drawing: Drawing, places: Mapping[str, _Place]) -> Iterator[str]:
    marked = {*drawing.way, *drawing.tags}
    for name, count in drawing.nodes.items():
        place = places[name]
        left, top = place.x - _NODE_WIDTH / 2, place.y - _NODE_HEIGHT / 2
        colour, thickness = (_WAY, 2.5) if name in marked else (_LINE, 1.2)
        times = f"×{count:,}" if count > 1 else ""
        yield (
            f"<g><title>{_escape(name)}: {count}</title>"
            f"<rect x='{left:.1f}' y='{top:.1f}' width='{_NODE_WIDTH}' height='{_NODE_HEIGHT}' "
            f"rx='7' fill='{_BOX}' stroke='{colour}' stroke-width='{thickness}'/>"
        )
        room = _LABEL - len(times) - bool(times)
        yield _draw_text(
            left + 9, place.y + 4.5, shorten_label(name, room) or "(no name)", size=13, colour=_INK
        )
        if times:
            right = left + _NODE_WIDTH - 9
            yield _draw_text(right, place.y + 4.5, times, size=12, colour=_INK, anchor="end")
        if name in drawing.tags:
            yield _draw_text(
                left + 2, top - 6, drawing.tags[name], size=11, colour=_WAY, weight=600
            )
        yield "</g>"


def _draw_text(
    x: float,
    y: float,
    text: str,
    *,
    size: int,
    colour: str,
    anchor: str = "start",
    weight: int = 400,
) -> str:
    return (
        f"<text x='{x:.1f}' y='{y:.1f}' font-size='{size}' fill='{colour}' "
        f"text-anchor='{anchor}' font-weight='{weight}'>{_escape(text)}</text>"
    )


def shorten_label(text: str, room: int) -> str:
    """Return the text, cut to the room."""
    return text if len(text) <= room else f"{text[: max(room - 1, 1)]}…"


def _escape(text: str) -> str:
    """Return untrusted text, escaped for XML."""
    return escape(_NOT_XML.sub("\ufffd", text), {"'": "&apos;", '"': "&quot;"})


MOST_NODES = 60
_NAME_CHARS = 32  # characters of a name in a sentence


def draw_trace(trace: Trace, graph: str | None, start: str | None, goal: str | None) -> str:
    """Return one trace as SVG: the graph of its tools, or of its agents if it has no calls."""
    if graph is None:
        graph = "tools" if trace.tool_calls or not trace.agent_interactions else "agents"
    drawing = _draw_tools(trace, start, goal) if graph == "tools" else _draw_agents(trace)
    return render_svg(_limit_nodes(drawing))


def _draw_tools(trace: Trace, start: str | None, goal: str | None) -> Drawing:
    names = [call.tool_name for call in trace.tool_calls or ()]
    if not names:
        return Drawing("Tools of a run", "The trace has no tool calls.", {}, {}, {})
    start, goal = names[0] if start is None else start, names[-1] if goal is None else goal
    nodes, edges = Counter(names), Counter(pairwise(names))
    way = find_shortest(edges, start, goal) if {start, goal} <= nodes.keys() else []
    tags = {start: "start", goal: "goal"} if start != goal else {start: "start and goal"}
    return Drawing(
        f"Tools of a run: {_count_things(len(nodes), 'tool')}, {_count_things(len(names), 'call')}",
        _describe_path(names, start, goal, way),
        nodes,
        edges,
        {name: tag for name, tag in tags.items() if name in nodes},
        way,
    )


def _describe_path(names: Sequence[str], start: str, goal: str, way: Sequence[str]) -> str:
    here, there = shorten_label(start, _NAME_CHARS), shorten_label(goal, _NAME_CHARS)
    if len(way) > 1:
        taken = len(names) - 1 - names[::-1].index(goal) - names.index(start)
        shortest = f"Shortest way from {here} to {there}: {_count_things(len(way) - 1, 'step')}"
        return f"{shortest}; {_count_things(taken, 'step')} taken." if taken > 0 else f"{shortest}."
    if start == goal:
        return f"It began and ended with {here}."
    return f"There is no way from {here} to {there}."


def _draw_agents(trace: Trace) -> Drawing:
    messages = trace.agent_interactions or ()
    named = [(each.sender, each.receiver) for each in messages]
    nodes = Counter(agent for pair in named for agent in pair if agent is not None)
    if not nodes:
        return Drawing("Agents of a run", "The trace has no messages between agents.", {}, {}, {})
    edges = Counter((a, b) for a, b in named if a is not None and b is not None)
    central, how_much = _find_most_central(list(nodes), edges)
    return Drawing(
        f"Agents of a run: {_count_things(len(nodes), 'agent')}, "
        f"{_count_things(len(messages), 'message')}",
        f"Most central: {shorten_label(central, _NAME_CHARS)}, {how_much:.2f}.",
        nodes,
        edges,
        {central: f"most central, {how_much:.2f}"},
    )


def _find_most_central(names: Sequence[str], edges: Iterable[Edge]) -> tuple[str, float]:
    place = {name: number for number, name in enumerate(names)}
    ends = np.array([(place[a], place[b]) for a, b in edges], dtype=np.int64).reshape(-1, 2)
    graph = Graphs.of(np.zeros(len(names), dtype=np.int64), 1, ends[:, 0], ends[:, 1])
    combined = (graph.betweenness() + graph.closeness() + graph.degree()) / 3
    best = int(combined.argmax())
    return names[best], float(combined[best])


def find_shortest(edges: Iterable[Edge], start: str, goal: str) -> list[str]:
    """Return the nodes of a shortest path, by the order of edges if several; empty if none."""
    after: dict[str, list[str]] = {}
    for a, b in edges:
        after.setdefault(a, []).append(b)
    came_from: dict[str, str | None] = {start: None}
    waiting = deque([start])
    while waiting and goal not in came_from:
        here = waiting.popleft()
        for node in after.get(here, ()):
            if node not in came_from:
                came_from[node] = here
                waiting.append(node)
    way: list[str] = []
    back = goal if goal in came_from else None
    while back is not None:
        way.append(back)
        back = came_from[back]
    return way[::-1]


def _limit_nodes(drawing: Drawing) -> Drawing:
    """Return the nodes that are marked or busiest, if there are too many to read."""
    left_out = len(drawing.nodes) - MOST_NODES
    if left_out <= 0:
        return drawing
    on_way = {*drawing.way}
    ranked = sorted(
        drawing.nodes,
        key=lambda name: (name not in drawing.tags, name not in on_way, -drawing.nodes[name]),
    )
    kept = {*ranked[:MOST_NODES]}
    return replace(
        drawing,
        says=f"{drawing.says} {left_out} less busy ones are not shown.",
        nodes={name: count for name, count in drawing.nodes.items() if name in kept},
        edges={edge: count for edge, count in drawing.edges.items() if kept.issuperset(edge)},
    )


def _count_things(count: int, thing: str) -> str:
    return f"{count} {thing}{'' if count == 1 else 's'}"


def trace_svg(
    trace: Any,
    *,
    graph: Literal["tools", "agents"] | None = None,
    start: str | None = None,
    goal: str | None = None,
) -> str:
    """Draw one trace as SVG.

    Args:
        trace: An object, or its JSON text.
        graph: The graph of its tools with the shortest way from start to goal, or of its agents
            with the most central one; by default the tools, if any was called.
        start: Tool at which the path starts; by default that of the first call.
        goal: Tool at which the path ends; by default that of the last call.

    Returns:
        The text of an SVG picture.

    >>> trace_svg({"tool_calls": [{"tool_name": "search"}, {"tool_name": "write"}]})[:4]
    '<svg'
    """
    require_type(
        "trace",
        trace,
        Mapping | str | None,
        expected="a mapping, or its JSON text",
        fix='for example {"tool_calls": [{"tool_name": "search"}]}',
    )
    if graph not in (None, "tools", "agents"):
        raise UsageError(f"no graph of a trace is called {graph}", fix="tools or agents")
    try:
        return draw_trace(read_trace(trace) or Trace(None, None, None), graph, start, goal)
    except BadValue as problem:
        raise DataError(f"trace: {problem}", fix="fix the trace; other keys are ignored") from None

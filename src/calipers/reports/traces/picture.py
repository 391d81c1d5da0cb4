"""A picture of one trace: its tools or agents, who follows whom how often, the path marked."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from calipers.metrics.traces.graphs.graphs import Graphs
from calipers.records.trace_shape import Trace
from calipers.reports.traces.svg import Drawing, Edge, render_svg, shorten

MOST_NODES = 60
_NAME = 32  # characters of a name in a sentence


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
        f"Tools of a run: {_count(len(nodes), 'tool')}, {_count(len(names), 'call')}",
        _describe_path(names, start, goal, way),
        nodes,
        edges,
        {name: tag for name, tag in tags.items() if name in nodes},
        way,
    )


def _describe_path(names: Sequence[str], start: str, goal: str, way: Sequence[str]) -> str:
    here, there = shorten(start, _NAME), shorten(goal, _NAME)
    if len(way) > 1:
        taken = len(names) - 1 - names[::-1].index(goal) - names.index(start)
        shortest = f"Shortest way from {here} to {there}: {_count(len(way) - 1, 'step')}"
        return f"{shortest}; {_count(taken, 'step')} taken." if taken > 0 else f"{shortest}."
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
        f"Agents of a run: {_count(len(nodes), 'agent')}, {_count(len(messages), 'message')}",
        f"Most central: {shorten(central, _NAME)}, {how_much:.2f}.",
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


def _count(count: int, thing: str) -> str:
    return f"{count} {thing}{'' if count == 1 else 's'}"

"""The trace metrics in plain Python, straight from P's code and D; graphs by networkx.

P is specs/003, D is DEFINITIONS.
"""

from __future__ import annotations

import statistics
from collections import Counter
from itertools import pairwise
from typing import Any

import networkx as nx

Trace = dict[str, Any]
Value = float | None

COORDINATION = ("coordination", "status_update", "handoff")
PRODUCTIVE = ("task_request", "result_delivery", "data_transfer")


def tool_graph(calls: list[dict[str, Any]]) -> nx.DiGraph[str]:
    """D: a node per tool, an edge per consecutive pair of calls, in list order."""
    graph: nx.DiGraph[str] = nx.DiGraph()
    names = [call["tool_name"] for call in calls]
    graph.add_nodes_from(names)
    graph.add_edges_from(pairwise(names))
    return graph


def path_convergence(trace: Trace, start: str | None = None, goal: str | None = None) -> Value:
    calls = trace.get("tool_calls")
    if calls is None:
        return None
    if not calls:
        return 0.0
    names = [call["tool_name"] for call in calls]
    start = names[0] if start is None else start
    goal = names[-1] if goal is None else goal
    try:
        minimum_steps = len(nx.shortest_path(tool_graph(calls), start, goal)) - 1
    except (nx.NetworkXNoPath, nx.NodeNotFound):
        return 0.0
    first, last = names.index(start), len(names) - 1 - names[::-1].index(goal)
    actual_steps = last - first
    return minimum_steps / actual_steps if actual_steps > 0 else 0.0


def optimal_tool(context: str, optimal_tools: dict[str, str]) -> str | None:
    """D: exact key, else the longest key contained in it, else `*`; the first of equally long."""
    if context in optimal_tools:
        return optimal_tools[context]
    contained = [key for key in optimal_tools if key != "*" and key in context]
    if contained:
        return optimal_tools[min(contained, key=lambda key: (-len(key), key))]
    return optimal_tools.get("*")


def tool_selection_accuracy(
    trace: Trace, optimal_tools: dict[str, str] | None, own: dict[str, str] | None = None
) -> Value:
    calls = trace.get("tool_calls")
    if calls is None or (optimal_tools is None and own is None):
        return None
    if not calls:
        return 0.0
    right = 0
    for call in calls:
        context = call.get("context") or ""
        optimal = optimal_tool(context, own or {}) or optimal_tool(context, optimal_tools or {})
        if call["tool_name"] == optimal:
            right += 1
    return right / len(calls)


def communication_overhead(trace: Trace) -> Value:
    messages = trace.get("agent_interactions")
    if messages is None:
        return None
    if not messages:
        return 0.0
    return sum(1 for each in messages if each.get("type") in COORDINATION) / len(messages)


def unknown_types(trace: Trace) -> int:
    messages = trace.get("agent_interactions") or []
    return sum(1 for each in messages if each.get("type") not in COORDINATION + PRODUCTIVE)


def interaction_graph(messages: list[dict[str, Any]]) -> nx.DiGraph[str]:
    """D: the nodes are the agents named in messages."""
    graph: nx.DiGraph[str] = nx.DiGraph()
    for message in messages:
        agents = [message.get(key) for key in ("from", "to")]
        graph.add_nodes_from(agent for agent in agents if agent is not None)
        if None not in agents:
            graph.add_edge(*agents)
    return graph


def coordination_centrality(trace: Trace) -> Value:
    graph = interaction_graph(trace.get("agent_interactions") or [])
    if not graph:
        return None
    betweenness = nx.betweenness_centrality(graph)
    closeness = nx.closeness_centrality(graph)
    degree = nx.degree_centrality(graph)
    combined = [(betweenness[node] + closeness[node] + degree[node]) / 3.0 for node in graph]
    return float(max(combined))


def task_distribution_balance(trace: Trace) -> Value:
    tasks = trace.get("agent_tasks")
    if tasks is None:  # D: the calls per agent, where calls name their agents
        calls = trace.get("tool_calls") or []
        tasks = Counter(call["agent_id"] for call in calls if call.get("agent_id") is not None)
        tasks = tasks or None
    if tasks is None:
        return None
    counts = [count for count in tasks.values() if count is not None]
    if len(counts) < 2 or all(count == 0 for count in counts):
        return 1.0
    mean = statistics.mean(counts)
    if mean == 0:
        return 1.0
    return float(max(0.0, 1 - statistics.stdev(counts) / mean))

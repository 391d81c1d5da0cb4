"""Draw a trace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from calipers.records.fields import BadValue
from calipers.records.trace_shape import Trace, read_trace
from calipers.reports.traces.picture import draw_trace
from calipers.support.arguments import require_type
from calipers.support.errors import DataError, UsageError


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

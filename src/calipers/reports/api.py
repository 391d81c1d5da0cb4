"""Draw a trace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from calipers.records.fields import BadValue
from calipers.reports.traces.picture import trace_picture
from calipers.support.errors import DataError, UsageError

if TYPE_CHECKING:
    pass


def trace_svg(
    trace: Any,
    *,
    graph: Literal["tools", "agents"] | None = None,
    start: str | None = None,
    goal: str | None = None,
) -> str:
    """A picture of one trace, an object or its JSON text, as SVG.

    The graph of its tools with the shortest way from start to goal, or of its agents with the most
    central one; without a choice the tools, if any was called.

    >>> trace_svg({"tool_calls": [{"tool_name": "search"}, {"tool_name": "write"}]})[:4]
    '<svg'
    """
    if graph not in (None, "tools", "agents"):
        raise UsageError(f"no graph of a trace is called {graph}", fix="tools or agents")
    try:
        return trace_picture(trace, graph=graph, start=start, goal=goal)
    except BadValue as problem:
        raise DataError(f"trace: {problem}", fix="fix the trace; other keys are ignored") from None

"""Tool calls and messages of a run to graphs, and the numbers and pictures of these: all pure."""

from calipers.metrics.traces.graphs.decode import AS_READ, DECODED, decoded
from calipers.metrics.traces.graphs.messages import highest_centrality
from calipers.metrics.traces.graphs.paths import path_convergence
from calipers.reports.traces.picture import trace_picture
from calipers.metrics.traces.graphs.tools import OptimalTools, read_optimal_tools, tool_selection

__all__ = [
    "AS_READ",
    "DECODED",
    "OptimalTools",
    "decoded",
    "highest_centrality",
    "path_convergence",
    "read_optimal_tools",
    "tool_selection",
    "trace_picture",
]

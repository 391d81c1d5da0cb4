"""Tool calls and messages of a run as graphs, and the numbers that these give."""

from calipers.metrics.traces.graphs.decode import DECODED, decoded
from calipers.metrics.traces.graphs.messages import highest_centrality
from calipers.metrics.traces.graphs.paths import path_convergence
from calipers.metrics.traces.graphs.tools import OptimalTools, read_optimal_tools, tool_selection

__all__ = [
    "DECODED",
    "OptimalTools",
    "decoded",
    "highest_centrality",
    "path_convergence",
    "read_optimal_tools",
    "tool_selection",
]

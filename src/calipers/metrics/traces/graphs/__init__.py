"""Tool calls and messages of a run as graphs, and the numbers that these give."""

from calipers.metrics.traces.graphs.decode import DECODED, decode_traces
from calipers.metrics.traces.graphs.messages import find_highest_centrality
from calipers.metrics.traces.graphs.paths import measure_convergence
from calipers.metrics.traces.graphs.tools import OptimalTools, measure_selection, read_optimal_tools

__all__ = [
    "DECODED",
    "OptimalTools",
    "decode_traces",
    "find_highest_centrality",
    "measure_convergence",
    "measure_selection",
    "read_optimal_tools",
]

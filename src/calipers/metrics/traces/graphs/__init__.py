"""Tool calls and messages of a run as graphs, and the numbers that these give."""

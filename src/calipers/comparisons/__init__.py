"""Two runs or more, task by task: what changed, how sure that is, and which tasks flipped."""

from calipers.comparisons.runs import CompareOptions, compare_data

__all__ = ["CompareOptions", "compare_data"]

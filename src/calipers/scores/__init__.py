"""From data to a score: choose the metrics, run an engine, turn totals into values."""

from calipers.scores.keys import natural_key, sorted_keys
from calipers.scores.options import Options
from calipers.scores.score import Progress, check_fields, plan_for, run_engine, score_data

__all__ = [
    "Options",
    "Progress",
    "check_fields",
    "natural_key",
    "plan_for",
    "run_engine",
    "score_data",
    "sorted_keys",
]

"""The public functions, as a notebook calls them."""

from calipers.api.data import convert, read, trace_svg
from calipers.api.deciding import gate, report, run
from calipers.api.judges import agree, audit_judges, calibrate_judges, judge_records
from calipers.api.measuring import compare, explain, power, score

__all__ = [
    "agree",
    "audit_judges",
    "calibrate_judges",
    "compare",
    "convert",
    "explain",
    "gate",
    "judge_records",
    "power",
    "read",
    "report",
    "run",
    "score",
    "trace_svg",
]

"""The public functions, as a notebook calls them."""

from calipers.cli.api.data import convert, read, trace_svg
from calipers.cli.api.deciding import gate, report, run
from calipers.cli.api.judges import agree, audit_judges, calibrate_judges, judge_records
from calipers.cli.api.measuring import compare, explain, power, score

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

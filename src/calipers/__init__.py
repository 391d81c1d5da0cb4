"""Calipers measures language models and agents.

>>> import calipers as cal
>>> score = cal.score([{"answer": "18.0", "target": "18"}, {"answer": "7", "target": "8"}])
>>> score.groups[0].metrics["accuracy"].value
0.5
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from calipers.support.errors import (
    CalipersError,
    DataError,
    EmptyError,
    MissingExtraError,
    UsageError,
)
from calipers.support.version import __version__

if TYPE_CHECKING:
    from calipers.comparisons.agree import Agreement
    from calipers.comparisons.api import agree, compare, power
    from calipers.comparisons.power import PowerAnalysis
    from calipers.comparisons.results import Compared
    from calipers.gates.api import gate
    from calipers.gates.result import GateResult
    from calipers.judges.api import audit_judges, calibrate_judges, judge_records
    from calipers.judges.audit import Audit
    from calipers.metrics.scenarios.case_weights import CaseWeights
    from calipers.records.api import convert, read
    from calipers.records.convert import Converted
    from calipers.records.limits import limit_reading
    from calipers.reports.api import trace_svg
    from calipers.runs.api import report, run
    from calipers.runs.finish import RunResult
    from calipers.runs.report_data import Report
    from calipers.scores.api import explain, score
    from calipers.scores.calibration import Calibrations
    from calipers.scores.explain import Explanation
    from calipers.scores.results import Group, Measured, Score
    from calipers.support.timing import Timed, timed

__all__ = [
    "Agreement",
    "Audit",
    "Calibrations",
    "CalipersError",
    "CaseWeights",
    "Compared",
    "Converted",
    "DataError",
    "EmptyError",
    "Explanation",
    "GateResult",
    "Group",
    "Measured",
    "MissingExtraError",
    "PowerAnalysis",
    "Report",
    "RunResult",
    "Score",
    "Timed",
    "UsageError",
    "__version__",
    "agree",
    "audit_judges",
    "calibrate_judges",
    "compare",
    "convert",
    "explain",
    "gate",
    "judge_records",
    "limit_reading",
    "power",
    "read",
    "report",
    "run",
    "score",
    "timed",
    "trace_svg",
]

_MODULES = {
    "calipers.comparisons.agree": ("Agreement",),
    "calipers.cli.api": (
        *("agree", "audit_judges", "calibrate_judges", "compare", "convert", "explain"),
        *("gate", "judge_records", "power", "read", "report", "run", "score", "trace_svg"),
    ),
    "calipers.judges.audit": ("Audit",),
    "calipers.scores.calibration": ("Calibrations",),
    "calipers.comparisons.results": ("Compared",),
    "calipers.records.convert": ("Converted",),
    "calipers.scores.explain": ("Explanation",),
    "calipers.gates.result": ("GateResult",),
    "calipers.metrics.scenarios.case_weights": ("CaseWeights",),
    "calipers.comparisons.power": ("PowerAnalysis",),
    "calipers.runs.report_data": ("Report",),
    "calipers.scores.results": ("Group", "Measured", "Score"),
    "calipers.runs.finish": ("RunResult",),
    "calipers.records.limits": ("limit_reading",),
    "calipers.support.timing": ("Timed", "timed"),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Load what is heavy when it is first used: `import calipers` takes milliseconds."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415

    return getattr(import_module(_MODULE_OF[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)

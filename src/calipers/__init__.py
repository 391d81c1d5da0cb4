"""Calipers measures language models and agents.

>>> import calipers as cal
>>> score = cal.score([{"answer": "18.0", "target": "18"}, {"answer": "7", "target": "8"}])
>>> score.groups[0].metrics["accuracy"].value
0.5
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from calipers.errors import CalipersError, DataError, EmptyError, MissingExtraError, UsageError
from calipers.version import __version__

if TYPE_CHECKING:
    from calipers.agreeing import Agreement
    from calipers.api import (
        agree,
        audit_judges,
        calibrate_judges,
        compare,
        convert,
        explain,
        gate,
        judge_records,
        power,
        read,
        report,
        run,
        score,
        trace_svg,
    )
    from calipers.audits import Audit
    from calipers.calibrations import Calibrations
    from calipers.comparisons import Compared
    from calipers.converting import Converted
    from calipers.explaining import Explanation
    from calipers.gating.result import GateResult
    from calipers.metrics.case_weights import CaseWeights
    from calipers.powering import PowerAnalysis
    from calipers.reports import Report
    from calipers.results import Group, Measured, Score
    from calipers.runner.ending import RunResult
    from calipers.sources.limits import limit_reading
    from calipers.timing import Timed, timed

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
    "calipers.agreeing": ("Agreement",),
    "calipers.api": (
        *("agree", "audit_judges", "calibrate_judges", "compare", "convert", "explain"),
        *("gate", "judge_records", "power", "read", "report", "run", "score", "trace_svg"),
    ),
    "calipers.audits": ("Audit",),
    "calipers.calibrations": ("Calibrations",),
    "calipers.comparisons": ("Compared",),
    "calipers.converting": ("Converted",),
    "calipers.explaining": ("Explanation",),
    "calipers.gating.result": ("GateResult",),
    "calipers.metrics.case_weights": ("CaseWeights",),
    "calipers.powering": ("PowerAnalysis",),
    "calipers.reports": ("Report",),
    "calipers.results": ("Group", "Measured", "Score"),
    "calipers.runner.ending": ("RunResult",),
    "calipers.sources.limits": ("limit_reading",),
    "calipers.timing": ("Timed", "timed"),
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

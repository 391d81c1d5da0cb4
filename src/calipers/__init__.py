"""Calipers measures language models and agents.

>>> import calipers as cal
>>> score = cal.score([{"answer": "18.0", "target": "18"}, {"answer": "7", "target": "8"}])
>>> score.groups[0].metrics["accuracy"].value
0.5
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from calipers.errors import CalipersError, DataError, UsageError
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
    from calipers.converting import Converted
    from calipers.gating.result import GateResult
    from calipers.metrics.case_weights import CaseWeights
    from calipers.powering import PowerAnalysis
    from calipers.reports import Report
    from calipers.results import Group, Measured, Score
    from calipers.runner.ending import RunResult
    from calipers.timing import Timed, timed

__all__ = [
    "Agreement",
    "Audit",
    "CalipersError",
    "CaseWeights",
    "Converted",
    "DataError",
    "GateResult",
    "Group",
    "Measured",
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
    "power",
    "read",
    "report",
    "run",
    "score",
    "timed",
    "trace_svg",
]

_LAZY = {
    "agree": "calipers.api",
    "audit_judges": "calipers.api",
    "calibrate_judges": "calipers.api",
    "compare": "calipers.api",
    "convert": "calipers.api",
    "explain": "calipers.api",
    "gate": "calipers.api",
    "judge_records": "calipers.api",
    "power": "calipers.api",
    "read": "calipers.api",
    "report": "calipers.api",
    "run": "calipers.api",
    "score": "calipers.api",
    "timed": "calipers.timing",
    "trace_svg": "calipers.api",
    "Agreement": "calipers.agreeing",
    "Audit": "calipers.audits",
    "CaseWeights": "calipers.metrics.case_weights",
    "Converted": "calipers.converting",
    "GateResult": "calipers.gating.result",
    "Group": "calipers.results",
    "Measured": "calipers.results",
    "PowerAnalysis": "calipers.powering",
    "Report": "calipers.reports",
    "RunResult": "calipers.runner.ending",
    "Score": "calipers.results",
    "Timed": "calipers.timing",
}


def __getattr__(name: str) -> Any:
    """Load what is heavy when it is first used: `import calipers` takes milliseconds."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415

    return getattr(import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)

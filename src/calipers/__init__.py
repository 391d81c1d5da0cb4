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
    from calipers.api import explain, read, score
    from calipers.results import Group, Measured, Score

__all__ = [
    "CalipersError",
    "DataError",
    "Group",
    "Measured",
    "Score",
    "UsageError",
    "__version__",
    "explain",
    "read",
    "score",
]

_LAZY = {
    "explain": "calipers.api",
    "read": "calipers.api",
    "score": "calipers.api",
    "Group": "calipers.results",
    "Measured": "calipers.results",
    "Score": "calipers.results",
}


def __getattr__(name: str) -> Any:
    """Load what is heavy when it is first used: `import calipers` takes milliseconds."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415

    return getattr(import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)

"""Every kind of check, by its key."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from calipers.metrics.checks.kind import ReplyTest

_FILES = (
    *(
        "exact_text",
        "numeric",
        "json_texts",
        "similar",
        "tool_calls",
        "pii",
        "language",
        "external",
    ),
)


@cache
def load_kinds() -> dict[str, type[ReplyTest]]:
    """Return every built-in kind of check by its key."""
    modules = (import_module(f"{__name__}.{file}") for file in _FILES)
    return {kind.key: kind for module in modules for kind in module.KINDS}

"""Logs of other tools, told by what is in them: Inspect, lm-eval, promptfoo, garak, and more."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from calipers.records.bytestream import UNREADABLE
from calipers.records.heads import Head, read_head
from calipers.records.logs.garak import GARAK
from calipers.records.logs.inspect_ai import INSPECT
from calipers.records.logs.lm_eval import LM_EVAL
from calipers.records.logs.log import Log, LogFormat, log_notices
from calipers.records.logs.openai_evals import OPENAI_EVALS
from calipers.records.logs.otel import OPENTELEMETRY
from calipers.records.logs.parts import mapping, whole
from calipers.records.logs.promptfoo import PROMPTFOO
from calipers.support.errors import DataError

__all__ = ["FORMATS", "Log", "log_at", "log_notices"]

FORMATS: tuple[LogFormat, ...] = (
    INSPECT,
    LM_EVAL,
    PROMPTFOO,
    GARAK,
    OPENAI_EVALS,
    OPENTELEMETRY,
)

_DOCUMENT = ".json"


def log_at(path: Path, suffix: str, head: Head | None = None) -> Log | None:
    """Return the log in a file, if it is one of another tool; `head` is what it begins with."""
    if suffix == ".eval":
        return Log(path, INSPECT)
    head = head or read_head(path)
    first = head.first
    if _is_lm_eval_results(first):
        raise DataError(
            f"{path}: results of lm-eval, without its samples",
            fix="run lm-eval with --log_samples, and name the samples_….jsonl beside it",
        )
    found = _format_of(first)
    if found is None and suffix == _DOCUMENT and not head.is_whole and not head.is_array:
        # What tells the format may stand behind a long beginning.
        with suppress(DataError, *UNREADABLE):
            found = _format_of(whole(path))
    return None if found is None else Log(path, found)


def _format_of(first: Any) -> LogFormat | None:
    return next((each for each in FORMATS if each.fits(first)), None)


def _is_lm_eval_results(head: Any) -> bool:
    found = mapping(head)
    return "results" in found and "lm_eval_version" in found

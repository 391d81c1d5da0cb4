"""Logs of other tools, told by what is in them: Inspect, lm-eval, promptfoo, garak, and more."""

from __future__ import annotations

import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any

from zstandard import ZstdError

from calipers.errors import DataError
from calipers.sources.bytestream import decompressed
from calipers.sources.logs.garak import GARAK
from calipers.sources.logs.inspect_ai import INSPECT
from calipers.sources.logs.lm_eval import LM_EVAL
from calipers.sources.logs.log import Log, LogFormat, log_notices
from calipers.sources.logs.openai_evals import OPENAI_EVALS
from calipers.sources.logs.otel import OPENTELEMETRY
from calipers.sources.logs.parts import mapping, parsed, values
from calipers.sources.logs.promptfoo import PROMPTFOO

__all__ = ["FORMATS", "Log", "log_at", "log_notices"]

FORMATS: tuple[LogFormat, ...] = (
    INSPECT,
    LM_EVAL,
    PROMPTFOO,
    GARAK,
    OPENAI_EVALS,
    OPENTELEMETRY,
)

_FIRST_LINE = 4 << 20
_DOCUMENT = ".json"


def log_at(path: Path, suffix: str) -> Log | None:
    """The log in a file, if it is one of another tool."""
    if suffix == ".eval":
        return Log(path, INSPECT)
    head = _head(path, whole=suffix == _DOCUMENT)
    if head is None:
        return None
    if _is_lm_eval_results(head):
        raise DataError(
            f"{path}: results of lm-eval, without its samples",
            fix="run lm-eval with --log_samples, and name the samples_….jsonl beside it",
        )
    return next((Log(path, each) for each in FORMATS if each.fits(head)), None)


def _head(path: Path, *, whole: bool) -> Any:
    """The JSON of the first line, else of the whole file, else the first of several in it."""
    try:
        with path.open("rb") as file:
            stream = decompressed(file)
            line = stream.readline(_FIRST_LINE)
            with suppress(DataError):
                return parsed(line.removeprefix(b"\xef\xbb\xbf"), str(path))
            data = line + stream.read() if whole else b""
            with suppress(DataError):
                return parsed(data, str(path))
            return next(values(data, str(path)), None)
    except (DataError, OSError, EOFError, zlib.error, ZstdError):
        return None  # whoever reads it as JSON lines says what is wrong


def _is_lm_eval_results(head: Any) -> bool:
    found = mapping(head)
    return "results" in found and "lm_eval_version" in found

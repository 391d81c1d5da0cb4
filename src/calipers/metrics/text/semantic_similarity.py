"""Semantic similarity of pairs of texts: by a language model, or by a stand-in that is asked for.

The model is an extra, and its weights may be out of reach; then there is no value but a reason. A
cheaper measure never takes its place unasked.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from math import isfinite
from threading import Lock
from typing import Any

import polars as pl

from calipers.metrics.declare.settings import Settings
from calipers.metrics.text.words import match_words
from calipers.support.errors import CalipersError

STAND_IN = "lexical"
SEMANTIC, REASON, CUT = "semantic", "reason", "cut"

FOUND: dict[str, pl.DataType] = {
    SEMANTIC: pl.Float64(),
    REASON: pl.String(),  # why there is no score
    CUT: pl.Boolean(),  # whether a text is longer than the model reads
}

_NOT_INSTALLED = "the model is an extra: pip install 'calipers[semantic]'"
_LONGEST_REASON = 200

_failed: dict[str, str] = {}  # unavailable models, and why: each is tried once in a run
# A model keeps all cores busy by itself. Nothing of Polars is called under the lock: it could run
# another batch meanwhile, in this very thread, which would wait here for ever.
_one_at_a_time = Lock()


def score_semantic(first: pl.Series, second: pl.Series, settings: Settings) -> pl.DataFrame:
    """Return the score of each pair, or the reason why there is none."""
    if settings.semantic_model == STAND_IN:
        return pl.DataFrame([match_words(first, second).alias(SEMANTIC)]).select(
            SEMANTIC, *(pl.lit(None, FOUND[name]).alias(name) for name in (REASON, CUT))
        )
    return _score_by_model(list(zip(first, second, strict=True)), settings)


def forget_failures() -> None:
    """Try every model again: in a notebook the weights may be there by now."""
    _failed.clear()


def _score_by_model(pairs: Sequence[tuple[str, str]], settings: Settings) -> pl.DataFrame:
    model = settings.semantic_model
    with _one_at_a_time:
        if not pairs or model in _failed:
            return _fill_nulls(len(pairs), _failed.get(model))
        try:
            semantic: Any = import_module("calipers.metrics.text.semantic")
            found = semantic.score_pairs(pairs, model=model, cache=settings.semantic_cache)
        except (CalipersError, ImportError, OSError, RuntimeError, ValueError) as error:
            _failed[model] = _explain(error)
            return _fill_nulls(len(pairs), _failed[model])
    rows = [(each.f1 if isfinite(each.f1) else None, None, each.cut) for each in found]
    return pl.DataFrame(rows, schema=FOUND, orient="row")


def _fill_nulls(rows: int, reason: str | None) -> pl.DataFrame:
    return pl.DataFrame([(None, reason, None)] * rows, schema=FOUND, orient="row")


def _explain(error: Exception) -> str:
    if isinstance(error, ModuleNotFoundError):
        return _NOT_INSTALLED
    if isinstance(error, CalipersError):
        return f"{error.message}: {error.fix}"
    first_line = next(iter(str(error).splitlines()), type(error).__name__)
    return first_line[:_LONGEST_REASON]

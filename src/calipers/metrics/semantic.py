"""Semantic similarity of pairs of texts: by a language model, or by a stand-in that is asked for.

The model is an extra, and its weights may be out of reach; then there is no value but a reason. A
cheaper measure never takes its place unasked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from math import isfinite
from threading import Lock

import polars as pl

from calipers.errors import CalipersError
from calipers.texts import word_match

STAND_IN = "lexical"
SEMANTIC, REASON = "semantic", "reason"

_NOT_INSTALLED = "the model is an extra: pip install 'calipers[semantic]'"
_LONGEST_REASON = 200

Scorer = Callable[..., Sequence[float]]

_failed: dict[str, str] = {}  # models that could not be had, and why: each is tried once in a run
# A model keeps all cores busy by itself. Nothing of Polars is called under the lock: it could run
# another batch meanwhile, in this very thread, which would wait here for ever.
_one_at_a_time = Lock()


def semantic_scores(first: pl.Series, second: pl.Series, model: str) -> pl.DataFrame:
    """The score of each pair, or the reason why there is none."""
    if model == STAND_IN:
        scores, reason = word_match(first, second), None
    else:
        scores, reason = _by_model(list(zip(first, second, strict=True)), model)
    reasons = pl.repeat(reason, len(first), dtype=pl.String, eager=True)
    return pl.DataFrame([scores.alias(SEMANTIC), reasons.alias(REASON)])


def forget_failures() -> None:
    """Try every model anew: in a notebook the weights may be there by now."""
    _failed.clear()


def _by_model(pairs: Sequence[tuple[str, str]], model: str) -> tuple[pl.Series, str | None]:
    nothing = pl.Series([None] * len(pairs), dtype=pl.Float64)
    with _one_at_a_time:
        if not pairs or model in _failed:
            return nothing, _failed.get(model)
        try:
            bert_scores: Scorer = import_module("calipers.semantic").bert_scores
            found = bert_scores(pairs, model=model, device=None, cache=None)
        except (CalipersError, ImportError, OSError, RuntimeError, ValueError) as error:
            _failed[model] = _why(error)
            return nothing, _failed[model]
    known = [float(score) if score is not None and isfinite(score) else None for score in found]
    return pl.Series(known, dtype=pl.Float64), None


def _why(error: Exception) -> str:
    if isinstance(error, ImportError):
        return _NOT_INSTALLED
    if isinstance(error, CalipersError):
        return f"{error.message}: {error.fix}"
    first_line = next(iter(str(error).splitlines()), type(error).__name__)
    return first_line[:_LONGEST_REASON]

"""The score that judges give a record: the mean of theirs, or the share of them that pass it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from calipers.records.fields import BadValue
from calipers.records.judgment_shape import read_list


def judge_scores(judgments: pl.Series) -> pl.Series:
    """Return the mean score of each record's judgments, null where none has one."""
    if judgments.null_count() == len(judgments):
        return pl.Series([None], dtype=pl.Float64).new_from_index(0, len(judgments))
    return pl.Series(map(_average_scores, judgments), dtype=pl.Float64)


def _average_scores(text: str | None) -> float | None:
    try:
        judged = [] if text is None else read_list(text)
    except BadValue:
        return None
    found = [score for each in judged if (score := _read_score(each)) is not None]
    return sum(found) / len(found) if found else None


def _read_score(judgment: Mapping[str, Any]) -> float | None:
    for key in ("weighted_score", "overall_score", "score", "passed"):
        value = judgment.get(key)
        if isinstance(value, int | float):
            return float(value)
    return None

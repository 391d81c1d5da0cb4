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
    return pl.Series(
        [None if each is None else _score(each) for each in judgments], dtype=pl.Float64
    )


def _score(text: str) -> float | None:
    try:
        found = [score for each in read_list(text) if (score := _of_one(each)) is not None]
    except BadValue:
        return None
    return sum(found) / len(found) if found else None


def _of_one(judgment: Mapping[str, Any]) -> float | None:
    for key in ("weighted_score", "overall_score", "score", "passed"):
        value = judgment.get(key)
        if isinstance(value, int | float):
            return float(value)
    return None

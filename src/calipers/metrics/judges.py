"""Who made the judged values of a row: a short text, whose distinct values an engine counts.

>>> judgment = {"model": "openai:m", "rubric_hash": "ab12", "passed": True}
>>> judged_values([judgment], recorded=())
{'passed': [['openai:m', 'ab12']]}
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import polars as pl

from calipers.judgment_shape import listed, score_of, vote_of, who_judged
from calipers.metrics.declaration import Feature, Metric
from calipers.metrics.judged import RUBRICS, SCORES
from calipers.metrics.judgments import judged_impl_rate, judged_passed

PASSED, IMPL_RATE = "passed", "impl_rate"
_RECORDED = (PASSED, IMPL_RATE)  # a recorded one wins over the judges'

JUDGED_VALUES: Mapping[str, Feature] = {
    PASSED: judged_passed,
    IMPL_RATE: judged_impl_rate,
    **SCORES,
}
"""What judges say of a row, and the feature that holds it."""

ASPECTS: Mapping[str, str] = {name: name for name in JUDGED_VALUES} | {IMPL_RATE: "score"}
"""Which aspect of a calibration speaks of which judged value."""


def judged_parts(metric: Metric) -> tuple[str, ...]:
    """Which judged values a metric may stand on."""
    stands_on = {each for feature in metric.features for each in feature.with_inputs()}
    return tuple(name for name, feature in JUDGED_VALUES.items() if feature in stands_on)


def judged_values(
    judgments: Sequence[Mapping[str, Any]], recorded: Collection[str]
) -> dict[str, list[list[str]]]:
    """Who made each judged value that is not recorded."""
    found: dict[str, set[tuple[str, str]]] = {}
    for judgment in judgments:
        for name in _values(judgment):
            if name not in recorded:
                found.setdefault(name, set()).add(who_judged(judgment))
    return {name: sorted(map(list, found[name])) for name in JUDGED_VALUES if name in found}


def _values(judgment: Mapping[str, Any]) -> list[str]:
    scores = judgment.get("scores")
    pairs = scores.items() if isinstance(scores, Mapping) else ()
    named = {name for name, score in pairs if score is not None}
    return [
        *([PASSED] if vote_of(judgment) is not None else []),
        *([IMPL_RATE] if score_of(judgment) is not None else []),
        *(rubric.name for rubric in RUBRICS if not named.isdisjoint(rubric.weights)),
    ]


def _of_rows(rows: pl.Series) -> pl.Series:
    frame = rows.struct.unnest()
    texts: list[str | None] = [None] * frame.height
    known = [frame[name].is_not_null() for name in _RECORDED]
    for row in frame["judgments"].is_not_null().arg_true():
        recorded = [name for name, has in zip(_RECORDED, known, strict=True) if has[row]]
        if values := judged_values(listed(frame["judgments"][row]), recorded):
            texts[row] = json.dumps(values, ensure_ascii=False, separators=(",", ":"))
    return pl.Series(rows.name, texts, dtype=pl.String())


judged_by = Feature(
    name="_judged_by",
    reads=("judgments", *_RECORDED),
    dtype=pl.String(),
    expression=lambda _: pl.struct("judgments", *_RECORDED).map_batches(
        _of_rows, return_dtype=pl.String
    ),
    stored=False,
    listed=False,
)

"""Who made the judged values of a row: a short text, whose distinct values an engine counts.

>>> judgment = {"model": "openai:m", "rubric_hash": "ab12", "passed": True}
>>> list_judged_values([judgment], recorded=())
{'passed': [['openai:m', 'ab12']]}
>>> silent = {"model": "openai:m", "rubric_hash": "cd34", "scores": None, "reason": "timeout"}
>>> list_judged_values([judgment, silent], recorded=())
{'passed': [['openai:m', 'ab12']], 'failed': ['cd34']}
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

import polars as pl

from calipers.metrics.cost.tiers import impl_rate
from calipers.metrics.declare.declaration import Feature, Metric
from calipers.metrics.judged.judgments import judged_impl_rate, judged_passed
from calipers.metrics.judged.rubrics import RUBRICS, SCORES
from calipers.metrics.scenarios.passing import passed, told_passed
from calipers.records.judgment_shape import (
    identify_judge,
    identify_rubric,
    is_empty,
    read_list,
    read_score,
    read_vote,
    record_hash,
)

PASSED, IMPL_RATE = "passed", "impl_rate"
# What the text says beside the values.
FAILED, OTHER, RUBRICS_OF, RATED = "failed", "other", "rubrics", "rated"
FLAGGED = "flagged"  # the values that are based on judgments with flags

JUDGED_VALUES: Mapping[str, Feature] = {
    PASSED: judged_passed,
    IMPL_RATE: judged_impl_rate,
    **SCORES,
}
"""What judges say of a row, and the feature that holds it."""

VALUES: Mapping[str, Feature] = {PASSED: passed, IMPL_RATE: impl_rate, **SCORES}
"""The same with what is recorded, or what lists decide, before it."""

ASPECTS: Mapping[str, str] = {name: name for name in JUDGED_VALUES} | {IMPL_RATE: "score"}
"""Which aspect of a calibration speaks of which judged value."""


def list_judged_parts(metric: Metric) -> tuple[str, ...]:
    """Return the judged values that a metric may be based on."""
    stands_on = {each for feature in metric.features for each in feature.inputs}
    return tuple(name for name, feature in JUDGED_VALUES.items() if feature in stands_on)


def list_judged_values(
    judgments: Sequence[Mapping[str, Any]], recorded: Collection[str]
) -> dict[str, Any]:
    """Return who made each judged value that is not recorded, and which rubrics gave none.

    `failed` names the rubrics of judgments that say nothing, unless another judge said something by
    the same rubric; `other` those that are for none of these values. `rubrics` names a value's
    rubrics where a judgment has a name but no hash of it.
    """
    found: dict[str, set[tuple[str, str]]] = {}
    rubrics: dict[str, set[str]] = {}
    flagged: set[str] = set()
    for judgment in judgments:
        for name in _list_values(judgment):
            if name not in recorded:
                found.setdefault(name, set()).add(identify_judge(judgment))
                rubrics.setdefault(name, set()).add(identify_rubric(judgment))
                flagged |= {name} if judgment.get("flags") else set()
    told = {identify_rubric(each) for each in judgments if not is_empty(each)}
    other = told - {identify_rubric(each) for each in judgments if _list_values(each)}
    failed = {identify_rubric(each) for each in judgments if is_empty(each)} - told
    named = {
        name: sorted(keys)
        for name, keys in rubrics.items()
        if keys != {of for _, of in found[name]}
    }
    return {
        **{name: sorted(map(list, found[name])) for name in JUDGED_VALUES if name in found},
        **({FLAGGED: [name for name in JUDGED_VALUES if name in flagged]} if flagged else {}),
        **({FAILED: sorted(failed)} if failed else {}),
        **({OTHER: sorted(other)} if other else {}),
        **({RUBRICS_OF: named} if named else {}),
    }


def _list_values(judgment: Mapping[str, Any]) -> list[str]:
    scores = judgment.get("scores")
    pairs = scores.items() if isinstance(scores, Mapping) else ()
    named = {name for name, score in pairs if score is not None}
    return [
        *([PASSED] if read_vote(judgment) is not None else []),
        *([IMPL_RATE] if read_score(judgment) is not None else []),
        *(rubric.name for rubric in RUBRICS if not named.isdisjoint(rubric.weights)),
    ]


_impl_rate_told = Feature(
    "_impl_rate_told",
    ("impl_rate",),
    lambda _: pl.col("impl_rate").is_not_null(),
    pl.Boolean(),
    stored=False,
)

JUDGED_BY = "_judged_by"


def declare_judged_by(rated: Sequence[Collection[str]] = ()) -> Feature:
    """Return the feature that says who made a row's judged values.

    `rated` holds the hashes of the records that each calibration was made from: the text then
    names the calibrations, by their place, that were made from this very record.
    """
    ours = ("id", "answer") if any(rated) else ()
    texts_of: Callable[[pl.Series], pl.Series] = partial(_name_judges, rated=rated if ours else ())
    return Feature(
        JUDGED_BY,
        ("judgments", told_passed, _impl_rate_told, *ours),
        lambda _: pl.struct(
            "judgments",
            pl.col(told_passed.name).is_not_null().alias(PASSED),
            pl.col(_impl_rate_told.name).alias(IMPL_RATE),
            *ours,
        ).map_batches(texts_of, return_dtype=pl.String),
        pl.String(),
        stored=False,
    )


def _name_judges(rows: pl.Series, rated: Sequence[Collection[str]]) -> pl.Series:
    frame = rows.struct.unnest()
    texts: list[str | None] = [None] * frame.height
    told = {name: frame[name] for name in (PASSED, IMPL_RATE)}
    for row in frame["judgments"].is_not_null().arg_true():
        recorded = [name for name, is_told in told.items() if is_told[row]]
        values = list_judged_values(read_list(frame["judgments"][row]), recorded)
        if rated and values:
            own = record_hash(frame["id"][row], frame["answer"][row])
            if places := [at for at, hashes in enumerate(rated) if own in hashes]:
                values[RATED] = places
        if values:
            texts[row] = json.dumps(values, ensure_ascii=False, separators=(",", ":"))
    return pl.Series(rows.name, texts, dtype=pl.String())

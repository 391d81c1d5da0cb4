"""What a metric rests on: the target, a check, a judge, a file, the system, or the harness.

What decides a row is counted while rows are measured (`WORDS`), since one row may have a recorded
verdict where the next is compared with its target. For everything else, the fields that a metric
reads determine the source (`Author` of a field). Who made the judged values of a row is a short
text, whose distinct values an engine counts:

>>> judgment = {"model": "openai:m", "rubric_hash": "ab12", "passed": True}
>>> list_judged_values([judgment], recorded=())
{'passed': [['openai:m', 'ab12']]}
>>> silent = {"model": "openai:m", "rubric_hash": "cd34", "scores": None, "reason": "timeout"}
>>> list_judged_values([judgment, silent], recorded=())
{'passed': [['openai:m', 'ab12']], 'failed': ['cd34']}
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import polars as pl

from calipers.metrics.declare.declaration import Feature, Metric, Rank
from calipers.metrics.declare.settings import Settings
from calipers.metrics.families.answers import correct
from calipers.metrics.families.cost import impl_rate
from calipers.metrics.families.judged import RUBRICS, SCORES, judged_impl_rate, judged_passed
from calipers.metrics.families.scenarios import (
    has_failed_expect,
    has_violation,
    passed,
    ruled_passed,
    unjudged_passed,
)
from calipers.records.fields import FIELDS, Author
from calipers.records.nested_fields import (
    hash_record,
    identify_judge,
    identify_rubric,
    is_empty_judgment,
    read_judgment_list,
    read_judgment_score,
    read_judgment_vote,
)
from calipers.support.field_paths import split_root

if TYPE_CHECKING:
    from calipers.records.trusted_fields import TrustedFields

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
    stands_on = {source for feature in metric.features for source in feature.inputs}
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
    told = {identify_rubric(judgment) for judgment in judgments if not is_empty_judgment(judgment)}
    other = told - {identify_rubric(judgment) for judgment in judgments if _list_values(judgment)}
    failed = {
        identify_rubric(judgment) for judgment in judgments if is_empty_judgment(judgment)
    } - told
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
        *([PASSED] if read_judgment_vote(judgment) is not None else []),
        *([IMPL_RATE] if read_judgment_score(judgment) is not None else []),
        *(
            rubric.name
            for rubric in RUBRICS
            if rubric.is_of(judgment) and not named.isdisjoint(rubric.criteria)
        ),
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
        ("judgments", unjudged_passed, _impl_rate_told, *ours),
        lambda _: pl.struct(
            "judgments",
            pl.col(unjudged_passed.name).is_not_null().alias(PASSED),
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
        values = list_judged_values(read_judgment_list(frame["judgments"][row]), recorded)
        if rated and values:
            own = hash_record(frame["id"][row], frame["answer"][row])
            if places := [at for at, hashes in enumerate(rated) if own in hashes]:
                values[RATED] = places
        if values:
            texts[row] = json.dumps(values, ensure_ascii=False, separators=(",", ":"))
    return pl.Series(rows.name, texts, dtype=pl.String())


TARGET, CHECK, JUDGE, FILE, SYSTEM, HARNESS = SOURCES = (
    *("target", "check", "judge", "file", "system", "harness"),
)
"""Whose word a value can rest on, in the order in which they are listed."""

RECORDED = "recorded"  # in a row: by the file it is read from, or by the system that a run called
_LISTS = "lists"  # the lists of behaviors and violations
_PARTS: Mapping[str, Feature] = {"correct": correct, "passed": passed, "impl_rate": impl_rate}
_OF_LISTS = ("observed_behaviors", "violations")
_TARGETS = ("target", "reference", "actual", "optimal_tools")
_MATERIAL = ("answer", "predicted", "messages")  # what is measured, not a word about it
_CLOCK = ("latency_ms", "duration_seconds", "start_time", "end_time")


def _declare_recorded(name: str) -> Feature:
    """Return whether a row has a field, before a feature of the same name takes its place."""
    return Feature(
        f"_has_{name}", (name,), lambda _: pl.col(name).is_not_null(), pl.Boolean(), stored=False
    )


_RECORDED = {part: _declare_recorded(part) for part in (*_PARTS, "target")}


def _name_words(settings: Settings) -> pl.Expr:
    """Return what decided each part of a row, as a text such as `correct=target passed=check`."""
    has_checks = pl.lit(value=True) if settings.checks else pl.col("checks").is_not_null()
    lists = pl.when(has_checks).then(pl.lit(CHECK)).otherwise(pl.lit(RECORDED))
    has_lists = pl.col(has_violation.name) | pl.col(ruled_passed.name).is_not_null()
    with_checks = pl.lit(f"{RECORDED},{CHECK}")
    words = {
        "correct": pl.when(_RECORDED["correct"].name)
        .then(pl.lit(RECORDED))
        .when(_RECORDED["target"].name)
        .then(pl.lit(TARGET)),
        "passed": pl.when(has_violation.name)
        .then(lists)
        .when(has_failed_expect.name)
        .then(pl.lit(CHECK))
        .when(_RECORDED["passed"].name)
        .then(pl.when(has_checks).then(with_checks).otherwise(pl.lit(RECORDED)))
        .when(pl.col(ruled_passed.name).is_not_null())
        .then(lists)
        .when(pl.col(judged_passed.name).is_not_null())
        .then(pl.lit(JUDGE)),
        "impl_rate": pl.when(_RECORDED["impl_rate"].name)
        .then(pl.lit(RECORDED))
        .when(pl.col(judged_impl_rate.name).is_not_null())
        .then(pl.lit(JUDGE)),
        _LISTS: pl.when(has_lists).then(lists),
    }
    named = (pl.lit(f"{part}=") + expression for part, expression in words.items())
    return pl.concat_str(list(named), separator=" ", ignore_nulls=True)


WORDS = Feature(
    "_words",
    (
        "checks",
        *_RECORDED.values(),
        *(has_violation, has_failed_expect, ruled_passed, judged_passed, judged_impl_rate),
    ),
    _name_words,
    pl.String(),
    stored=False,
)
"""What decided each part of a row, as a text whose distinct values an engine counts."""


def read_words(texts: Iterable[str]) -> dict[str, frozenset[str]]:
    """Return what decided each part in any of the rows that have these texts.

    >>> sorted(read_words(["correct=target passed=recorded,check", "correct=recorded"])["correct"])
    ['recorded', 'target']
    """
    words: dict[str, frozenset[str]] = {}
    for text in texts:
        for part, _, found in (word.partition("=") for word in text.split()):
            words[part] = words.get(part, frozenset()).union(found.split(","))
    return words


def list_sources(
    metrics: Iterable[Metric], words: Mapping[str, frozenset[str]], own: TrustedFields | None
) -> tuple[str, ...]:
    """Return whose word metrics rest on.

    Args:
        metrics: The metrics behind one decision.
        words: What decided each part of the rows, as `read_words` returns it.
        own: What systems may say of themselves in a run's records: in these a recorded value is the
            system's word, and times are measured. None for records of files, which are what the
            file says.
    """
    of_file = {RECORDED: FILE, HARNESS: FILE}
    given: Collection[str] = ()
    if own is None:
        named = [of_file]
    else:
        trusted, given = own.trusted, own.given
        if not set(_OF_LISTS).isdisjoint(trusted):
            words = dict(words)
            for part in ("passed", _LISTS):
                if CHECK in (found := words.get(part, frozenset())):
                    words[part] = found | {RECORDED}
        of_run = {RECORDED: SYSTEM, **({JUDGE: SYSTEM} if "judgments" in trusted else {})}
        named = [of_run] if own.is_all else [of_run, of_file]
    decided = {
        source
        for metric in metrics
        for feature in _list_features(metric)
        for source in _list_sources_of(feature, words, given)
    } or {RECORDED}
    sources = {names.get(source, source) for source in decided for names in named}
    return tuple(source for source in SOURCES if source in sources)


def list_metric_fields(metrics: Iterable[Metric]) -> set[str]:
    """Return the fields of a record that metrics are computed from; of a path, its first part."""
    features = (feature for metric in metrics for feature in _list_features(metric))
    return {split_root(name)[0] for feature in features for name in feature.fields}


def _list_features(metric: Metric) -> Iterable[Feature]:
    """Return the features that make the value, without those that are only counted beside it."""
    if isinstance(metric.averaged, Feature):
        return (metric.averaged,)
    return [
        feature
        for measure in metric.measures
        for feature in ((measure.feature,) if isinstance(measure, Rank) else measure.features)
    ]


def _list_sources_of(
    feature: Feature, words: Mapping[str, frozenset[str]], given: Collection[str]
) -> Iterator[str]:
    for part, decided in _PARTS.items():
        if feature is decided:
            yield from words.get(part, ())
            return
    if feature in SCORES.values():
        yield JUDGE
    elif feature.of_record is not None:
        yield CHECK  # a function of the user's own
    else:
        for source in feature.reads:
            if isinstance(source, Feature):
                yield from _list_sources_of(source, words, given)
            else:
                yield from _list_sources_of_field(source, words, given)


def _list_sources_of_field(
    name: str, words: Mapping[str, frozenset[str]], given: Collection[str]
) -> Iterable[str]:
    author = FIELDS[name].author if name in FIELDS else None
    if name in _OF_LISTS:
        return words.get(_LISTS, ())
    if name in _TARGETS or split_root(name)[0] in given:
        return (TARGET,)
    if name in _CLOCK:
        return (HARNESS,)
    if name in (*_MATERIAL, "checks", "judgments") or author in (Author.TASK, Author.HARNESS):
        return ()
    return (RECORDED,)

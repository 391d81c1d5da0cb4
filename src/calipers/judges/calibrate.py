"""Agreement of judges with people on the same records: a judge's licence.

A calibration is bound to the judge's model and the rubric's hash: another model, or one changed
word in the rubric, is another judge. Several samples of one judge are combined, and so are the
judges of a panel, which is calibrated in addition to its members.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import inf
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np

from calipers.judges.bias import estimate_by_student
from calipers.metrics.families.judged import RUBRICS
from calipers.records.fields import FIELDS, BadValue
from calipers.records.nested_fields import (
    get_judgments,
    hash_record,
    identify_judge,
    read_judgment_score,
)
from calipers.records.task_data import read_records
from calipers.scores.calibration import (
    BIAS,
    KAPPA,
    PASSED,
    SCORE,
    SENSITIVITY,
    SPECIFICITY,
    WEIGHTED_KAPPA,
    Calibration,
    Calibrations,
    Member,
    sort_members,
)
from calipers.statistics import agreement
from calipers.statistics.agreement import Level, spearman
from calipers.statistics.clusters import Floats
from calipers.statistics.correction import compute_moments, count_verdicts
from calipers.statistics.estimates import Estimate, Sampling, Strata
from calipers.support.errors import DataError, UsageError

STRATUM, STRATUM_SIZE = "stratum", "stratum_size"  # what a rated record was drawn from
_TELLS_APART = ("model", "tier", "variant", "run")
_SCORES = ("weighted_score", "overall_score")
_PANELS = 20  # the most frequent ones: members without an answer leave many small panels
_NONE_SHARED = "no record was judged by both"

Key = tuple[str, ...]
Rated = Mapping[str, float]  # aspect to value


@dataclass(slots=True)
class _Judge:
    """A judge, or a panel of judges, and its ratings of each record."""

    names: dict[str, dict[str, None]]  # of judge, model, rubric and rubric_hash, each once
    rated: dict[Key, dict[str, float]] = field(default_factory=dict)
    hashes: dict[Key, str] = field(default_factory=dict)  # of the records

    def name(self, what: str) -> str | None:
        return ", ".join(self.names[what]) or None


def calibrate_files(
    judged: Sequence[str | Path], human: Sequence[str | Path], *, confidence: float = 0.95
) -> Calibrations:
    """Compare every judge in the judged files with the people in the others."""
    return calibrate_records(_read_called(judged), _read_called(human), confidence=confidence)


def calibrate_records(
    judged: Iterable[Mapping[str, Any]],
    human: Iterable[Mapping[str, Any]],
    *,
    confidence: float = 0.95,
) -> Calibrations:
    """Compare every judge of some records with the people who rated them."""
    people, fields, strata = _read_people(human)
    judges = _list_judges(judged, fields)
    if not judges:
        raise UsageError("no record has judgments", fix="calipers judge FILES… makes them")
    return Calibrations(
        judges=tuple(_calibrate(*judge, people, strata, confidence) for judge in judges.items()),
        confidence=confidence,
    )


def _list_judges(
    records: Iterable[Mapping[str, Any]], fields: Sequence[str]
) -> dict[tuple[Member, ...], _Judge]:
    """Return each judge's ratings, then those of the panels that rated an aspect together."""
    judges: dict[tuple[Member, ...], _Judge] = {}
    panels: dict[tuple[Member, ...], _Judge] = {}
    for record in records:
        key = _make_key(record, fields)
        own_hash = _hash(record)
        own: dict[Member, list[Mapping[str, Any]]] = {}
        for judgment in get_judgments(record):
            own.setdefault(identify_judge(judgment), []).append(judgment)
        rated = {
            who: _combine(map(_read_rated, judgments), median) for who, judgments in own.items()
        }
        for who, judgments in own.items():
            judge = judges.setdefault((who,), _Judge({}))
            _add_names(judge, judgments)
            if key in judge.rated:
                raise DataError(
                    f"{judge.name('judge')} ({who[0]}) judged {' '.join(key)} twice, and people's "
                    "records do not say which is which",
                    fix=f"give people's records {', '.join(_TELLS_APART)} as the judged have them",
                )
            judge.rated[key] = dict(rated[who])
            judge.hashes[key] = own_hash
        for aspect in dict.fromkeys(name for ratings in rated.values() for name in ratings):
            together = sort_members(who for who, ratings in rated.items() if aspect in ratings)
            if len(together) > 1:
                panel = panels.setdefault(together, _Judge({}))
                _add_names(panel, [judgment for who in together for judgment in own[who]])
                said_of_it = [_read_rated(judgment) for who in together for judgment in own[who]]
                panel.rated.setdefault(key, {})[aspect] = _combine(said_of_it, median)[aspect]
                panel.hashes[key] = own_hash
    common = sorted(panels, key=lambda members: -len(panels[members].rated))[:_PANELS]
    return judges | {members: panels[members] for members in common}


def _add_names(judge: _Judge, judgments: Iterable[Mapping[str, Any]]) -> None:
    for what in ("judge", "model", "rubric", "rubric_hash"):
        names = judge.names.setdefault(what, {})
        named = (judgment.get(what) for judgment in judgments)
        names.update(dict.fromkeys(str(name) for name in named if name is not None))


def _read_called(files: Sequence[str | Path]) -> Iterator[dict[str, Any]]:
    for path in files:
        for number, record in enumerate(read_records(path), 1):
            if record.get("error") not in (None, ""):
                continue
            if record.get("id") is None:
                raise DataError(
                    f"{path}: record {number} has no id", fix="records are matched by it"
                )
            yield record


def _read_people(
    records: Iterable[Mapping[str, Any]],
) -> tuple[dict[Key, Rated], tuple[str, ...], Strata | None]:
    """Return people's ratings of each record, combined as judges' are, and what tells apart.

    And what the records were drawn from, if they say so.
    """
    people: dict[Key, list[Rated]] = {}
    drawn: dict[Key, tuple[str, int] | None] = {}
    fields: tuple[str, ...] | None = None
    for record in records:
        own = tuple(name for name in _TELLS_APART if record.get(name) is not None)
        if fields is not None and own != fields:
            raise DataError(
                f"some of people's records have {', '.join(own or fields)}, others do not",
                fix="give it to all, or to none",
            )
        fields = own
        judgments = get_judgments(record) or [dict(record)]
        try:
            for judgment in judgments:
                read_judgment_score(judgment)
        except BadValue as problem:
            raise DataError(
                f"people's record {record['id']}: {problem}", fix="divide it by the most there is"
            ) from None
        key = _make_key(record, own)
        people.setdefault(key, []).extend(map(_read_rated, judgments))
        drawn[key] = _read_stratum(record) or drawn.get(key)
    if not any(any(rated) for rated in people.values()):
        raise UsageError(
            "people's records hold no passed, weighted_score or scores",
            fix="{id, passed, scores: {criterion: number}}, or judgments with these fields",
        )
    combined = {key: _combine(rated, fmean) for key, rated in people.items()}
    return combined, fields or (), _find_strata(drawn)


def _read_stratum(record: Mapping[str, Any]) -> tuple[str, int] | None:
    """Return what a record was drawn from, and how many records that holds; None if not said."""
    stratum, size = record.get(STRATUM), record.get(STRATUM_SIZE)
    if stratum is None or size is None:
        return None
    if not _is_number(size) or not 1 <= size < inf or size != int(size):
        raise DataError(
            f"people's record {record['id']}: {STRATUM_SIZE} is {size!r}",
            fix=f"the number of records in its stratum, or neither {STRATUM} nor {STRATUM_SIZE}",
        )
    return str(stratum), int(size)


def _find_strata(drawn: Mapping[Key, tuple[str, int] | None]) -> Strata | None:
    """Return the strata of records; None if they do not say, or all chances were the same.

    A stratum may have grown while people rated: its last size is taken.
    """
    known = [each for each in drawn.values() if each is not None]
    if not known:
        return None
    if len(known) < len(drawn):
        raise DataError(
            f"{len(drawn) - len(known):,} of {len(drawn):,} records that people rated do not say "
            "what they were drawn from, the others do",
            fix=f"give all of them {STRATUM} and {STRATUM_SIZE}, or calibrate by one kind alone",
        )
    strata = Strata.of([name for name, _ in known], dict(known))
    return None if strata.weights.min() == 1 else strata


def _combine(rated: Iterable[Rated], of_scores: Callable[[list[float]], float]) -> Rated:
    """Return verdicts by majority, a tie fails; criteria by their mean; scores as asked."""
    by_name: dict[str, list[float]] = {}
    for ratings in rated:
        for name, value in ratings.items():
            by_name.setdefault(name, []).append(value)
    ways = {PASSED: lambda values: float(fmean(values) > 1 / 2), SCORE: of_scores}
    return {name: ways.get(name, fmean)(values) for name, values in by_name.items()}


def _make_key(record: Mapping[str, Any], fields: Sequence[str]) -> Key:
    return (str(record["id"]), *(str(record.get(name)) for name in fields))


def _hash(record: Mapping[str, Any]) -> str:
    """Return the hash by which `score` recognizes the record."""
    digest = hash_record(*(FIELDS[name].read(record.get(name)) for name in ("id", "answer")))
    assert digest is not None  # records without an id are refused
    return digest


def _read_rated(judgment: Mapping[str, Any]) -> Rated:
    """Return the verdict, the score, those of built-in rubrics, and each criterion's, if any."""
    ratings: dict[str, float] = {}
    if isinstance(passed := judgment.get(PASSED), bool):
        ratings[PASSED] = float(passed)
    score = next((judgment[key] for key in _SCORES if _is_number(judgment.get(key))), None)
    if score is not None:
        ratings[SCORE] = float(score)
    scores = judgment.get("scores")
    criteria = scores if isinstance(scores, Mapping) else {}
    numbers = {name: float(value) for name, value in criteria.items() if _is_number(value)}
    for rubric in RUBRICS:
        lowest, highest = rubric.ends
        on_scale = {n: [value] for n, value in numbers.items() if lowest <= value <= highest}
        is_of = rubric.is_of(judgment) or numbers.keys() <= rubric.criteria.keys()
        if is_of and (overall := rubric.score(on_scale)) is not None:
            ratings[rubric.name] = overall
    return ratings | {f"scores.{name}": value for name, value in numbers.items()}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _calibrate(
    members: tuple[Member, ...],
    judge: _Judge,
    people: Mapping[Key, Rated],
    strata: Strata | None,
    confidence: float,
) -> Calibration:
    own = judge.rated
    shared = [key for key in own if key in people]
    places = {key: at for at, key in enumerate(people)}
    tasks = {task: at for at, task in enumerate(dict.fromkeys(key[0] for key in shared))}
    tables: dict[str, tuple[Floats, Sampling]] = {}
    counted, worth = 0, None
    for aspect in dict.fromkeys(aspect for key in shared for aspect in own[key]):
        both = [key for key in shared if aspect in own[key] and aspect in people[key]]
        if both:
            pairs = np.array([[own[key][aspect], people[key][aspect]] for key in both])
            sampling = Sampling(
                clusters=np.array([tasks[key[0]] for key in both], dtype=np.int64),
                confidence=confidence,
                strata=strata and strata.keep(np.array([places[key] for key in both])),
            )
            tables[aspect] = pairs, sampling
            if len(both) > counted:
                counted, worth = len(both), sampling.effective_units
    verdicts = None
    if PASSED in tables:
        pairs, sampling = tables[PASSED]
        verdicts = count_verdicts(pairs[:, 0], pairs[:, 1], sampling)
    return Calibration(
        judge=judge.name("judge"),
        model=judge.name("model"),
        rubric=judge.name("rubric"),
        rubric_hash=judge.name("rubric_hash"),
        members=members,
        n=counted,
        effective_n=worth,
        aspects={
            aspect: {
                measure: compute(pairs, sampling)
                for measure, compute in _choose_measures(aspect).items()
            }
            for aspect, (pairs, sampling) in tables.items()
        },
        moments={
            aspect: compute_moments(pairs[:, 0], pairs[:, 1], sampling)
            for aspect, (pairs, sampling) in tables.items()
            if aspect != PASSED
        },
        verdicts=verdicts,
        confidence=confidence,
        records=frozenset(judge.hashes[key] for key in shared),
    )


def _choose_measures(aspect: str) -> dict[str, Callable[[Floats, Sampling], Estimate]]:
    """Return the measures for an aspect: verdicts are labels, criteria ordinal, scores interval."""
    is_criterion = aspect.startswith("scores.")
    level: Level = "nominal" if aspect == PASSED else "ordinal" if is_criterion else "interval"
    rates = {SENSITIVITY: agreement.sensitivity, SPECIFICITY: agreement.specificity}
    return {
        **({KAPPA: agreement.cohen_kappa} if is_criterion or aspect == PASSED else {}),
        **(rates if aspect == PASSED else {WEIGHTED_KAPPA: agreement.weighted_kappa}),
        f"krippendorff_alpha_{level}": partial(agreement.krippendorff_alpha, level=level),
        "spearman": spearman,
        BIAS: _measure_bias,
    }


def _measure_bias(table: Floats, sampling: Sampling) -> Estimate:
    return estimate_by_student(table[:, 0] - table[:, 1], sampling, _NONE_SHARED)

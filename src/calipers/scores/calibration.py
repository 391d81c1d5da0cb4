"""Calibrations: how far a judge agrees with people, and judged means corrected for its error.

A calibration is bound to the judge: the model, or the cascade or panel of models, and the rubric's
hash. The file holds numbers about records and none of their texts.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from math import isfinite
from pathlib import Path
from typing import Any

import polars as pl

from calipers.engines.group_codes import OTHERS
from calipers.engines.outcome import ROWS, TEXT
from calipers.metrics import Metric, metric_named
from calipers.metrics.declare.declaration import GROUP, Totals
from calipers.metrics.declare.interval_methods import read_spread
from calipers.metrics.families.judged import RUBRICS
from calipers.metrics.provenance import ASPECTS, FLAGGED, IMPL_RATE, JUDGED_VALUES, RATED
from calipers.scores.groups import clip
from calipers.scores.result import Group, JudgedBy, Measured
from calipers.statistics.correction import Moments, Verdicts, correct_share, correct_with_ratings
from calipers.statistics.estimates import Corrected, Estimate
from calipers.statistics.intervals import count_worth
from calipers.support.errors import EXIT_INCOMPLETE, EXIT_PASS, UsageError
from calipers.support.printing import Printed, Tabular, keep_scalars
from calipers.support.version import __version__

SCHEMA = "calipers.calibration/1"
PASSED, SCORE = "passed", "score"
KAPPA, WEIGHTED_KAPPA, BIAS = "cohen_kappa", "weighted_kappa", "bias"
SENSITIVITY, SPECIFICITY = "sensitivity", "specificity"
_ROUNDING = 1e-9
CALIBRATE = "calipers judge calibrate JUDGED HUMAN -o calibration.json"

Member = tuple[str, str]
"""A model, or who else judged, and the hash of the rubric, empty where there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """One judge, or one panel, against people, on each aspect that both rated."""

    judge: str | None
    model: str | None
    rubric: str | None
    rubric_hash: str | None
    members: tuple[Member, ...]  # who it is bound to
    n: int
    effective_n: float | None = None  # of records drawn by stratum: as many by chance (Kish 1965)
    aspects: Mapping[str, Mapping[str, Estimate]]
    moments: Mapping[str, Moments] = field(default_factory=dict)
    verdicts: Verdicts | None = None
    confidence: float = 0.95  # of its intervals
    source: str | None = None  # the file it was read from
    records: frozenset[str] = frozenset()  # hashes of the records that it was made from

    @property
    def evenness(self) -> float:
        """What part of their number the rated records are worth."""
        return 1.0 if self.effective_n is None else self.effective_n / self.n

    def kappa(self, aspect: str) -> Estimate | None:
        """Return the agreement beyond chance: Cohen's kappa, with squared weights for numbers."""
        measures = self.aspects.get(aspect, {})
        return measures.get(KAPPA if aspect == PASSED else WEIGHTED_KAPPA)

    def rate(self, measure: str, aspect: str) -> float | None:
        """Return the sensitivity or specificity, where the aspect has one."""
        measure_value = self.aspects.get(aspect, {}).get(measure)
        return None if measure_value is None else measure_value.value

    def to_dict(self) -> dict[str, Any]:
        """Return the calibration as in the file."""
        shown = asdict(self)
        del shown["source"], shown["confidence"]  # of the whole file
        members = [{"model": model, "rubric_hash": rubric} for model, rubric in self.members]
        return {**shown, "members": members, "records": sorted(self.records)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibrations(Printed, Tabular):
    """All judges of a file. `to_json` is the calibration file."""

    judges: tuple[Calibration, ...]
    confidence: float

    @property
    def exit_code(self) -> int:
        """What the command line gives back: 3 when no record was rated by judges and people."""
        return EXIT_PASS if any(judge.n for judge in self.judges) else EXIT_INCOMPLETE

    def to_dict(self) -> dict[str, Any]:
        """Return the file as Python values."""
        return {
            "schema": SCHEMA,
            "version": __version__,
            "confidence": self.confidence,
            "judges": [judge.to_dict() for judge in self.judges],
        }

    def _list_rows(self) -> Iterator[dict[str, Any]]:
        """Yield a row per judge."""
        for judge in self.judges:
            yield keep_scalars(judge.to_dict())


def describe_overlap(calibration: Calibration, overlap: int, rows: int) -> str:
    """Return the sentence that a calibration was made from some of the records being scored."""
    of = "these very records" if overlap == rows else f"{overlap:,} of these {rows:,} records"
    return f"{calibration.source or 'the calibration'} was made from {of}"


def sort_members(who: Iterable[Member]) -> tuple[Member, ...]:
    """Return the members of a panel, each once, in a fixed order."""
    return tuple(sorted(set(who)))


def read_calibrations(path: str | Path) -> tuple[Calibration, ...]:
    """Return the calibrations in a file; raise UsageError if it holds none."""
    try:
        value = json.loads(Path(path).read_text(encoding="utf-8"), parse_constant=_refuse)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", fix=f"make it: {CALIBRATE}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: cannot be read as JSON", fix=f"make it: {CALIBRATE}") from error
    try:
        confidence = value["confidence"]
        _check_finite(confidence)
        if value["schema"] != SCHEMA or not 0 < confidence < 1:
            raise ValueError("not of this version")  # noqa: TRY301 (told as all other faults are)
        return tuple(_read_calibration(entry, confidence, str(path)) for entry in value["judges"])
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise UsageError(
            f"{path}: no calibration as `calipers judge calibrate` writes it, or an older one",
            fix=f"make it again: {CALIBRATE}",
        ) from error


def read_calibration_files(paths: Iterable[str | Path]) -> tuple[Calibration, ...]:
    """Return the calibrations in several files."""
    return tuple(calibration for path in paths for calibration in read_calibrations(path))


def _refuse(_: str) -> float:
    raise ValueError("not a finite number")


def _read_calibration(value: Mapping[str, Any], confidence: float, source: str) -> Calibration:
    aspects = {
        str(aspect): {str(name): Estimate(**measure) for name, measure in measures.items()}
        for aspect, measures in value["aspects"].items()
    }
    members = sort_members((str(m["model"]), str(m["rubric_hash"])) for m in value["members"])
    if not members:
        raise ValueError("it is bound to no judge")
    verdicts = value["verdicts"]
    calibration = Calibration(
        **{name: value[name] for name in ("judge", "model", "rubric", "rubric_hash")},
        members=members,
        n=int(value["n"]),
        effective_n=value.get("effective_n"),
        aspects=aspects,
        moments={str(name): Moments(**moments) for name, moments in value["moments"].items()},
        verdicts=None if verdicts is None else Verdicts(**verdicts),
        confidence=confidence,
        source=source,
        records=frozenset(map(str, value.get("records", ()))),
    )
    _check_numbers(calibration)
    return calibration


def _check_numbers(calibration: Calibration) -> None:
    """Raise ValueError if a number of the file cannot have been measured."""
    if (worth := calibration.effective_n) is not None:
        _check_finite(worth)
        if not 0 < worth <= calibration.n + _ROUNDING:
            raise ValueError("worth more than it is")
    for measures in calibration.aspects.values():
        for name, measure in measures.items():
            numbers = (measure.low, measure.value, measure.high)
            known = [number for number in numbers if number is not None]
            _check_finite(*known)
            is_torn = any(low > high + _ROUNDING for low, high in pairwise(known))
            if is_torn or (name != BIAS and any(abs(number) > 1 + _ROUNDING for number in known)):
                raise ValueError("an interval that is none")
    for moments in calibration.moments.values():
        _check_counts(moments.n, moments.clusters, moments.n - moments.clusters)
        _check_finite(moments.judge, moments.people, moments.both_spread)
        _check_counts(moments.judge_spread, moments.people_spread, whole=False)
    if (counts := calibration.verdicts) is not None:
        for agreed, of, size in (
            (counts.both_passed, counts.passed, counts.passed_size),
            (counts.both_failed, counts.failed, counts.failed_size),
        ):
            _check_counts(agreed, of, of - agreed + _ROUNDING, size, whole=False)
            if size and not of:
                raise ValueError("a size of nothing")


def _check_finite(*numbers: Any) -> None:
    for number in numbers:
        if isinstance(number, bool) or not isinstance(number, int | float):
            raise TypeError("not a number")
        if not isfinite(number):
            raise ValueError("not a finite number")


def _check_counts(*numbers: Any, whole: bool = True) -> None:
    _check_finite(*numbers)
    if any(number < 0 or (whole and not isinstance(number, int)) for number in numbers):
        raise ValueError("no count")


_VALUES = {"pass_rate": PASSED, "impl_rate": IMPL_RATE, **{r.name: r.name for r in RUBRICS}}
"""The metrics that are plain means of a judged value."""

_ALL, _FLAGGED = -1, -2  # not positions of calibrations

Correct = Callable[[Measured, float, int], Measured]
"""A pass rate without the judge's error, by how many rows it is worth, and how many are judged."""


def list_judges(tally: pl.DataFrame) -> dict[str, tuple[JudgedBy, ...]]:
    """Return who made each judged value, by the text that stands for the group."""
    counted: dict[str, dict[tuple[str, tuple[Member, ...]], Counter[int]]] = {}
    for group, text, rows in tally.select(GROUP, TEXT, ROWS).iter_rows():
        values = dict.fromkeys(JUDGED_VALUES, ()) if text == OTHERS else json.loads(text)
        own = counted.setdefault(group, {})
        for value in JUDGED_VALUES:
            if value in values:
                key = value, tuple((model, rubric_hash) for model, rubric_hash in values[value])
                flagged = (_FLAGGED,) if value in values.get(FLAGGED, ()) else ()
                own.setdefault(key, Counter()).update(
                    dict.fromkeys((_ALL, *flagged, *values.get(RATED, ())), rows)
                )
    return {
        group: tuple(
            JudgedBy(
                value=value,
                members=members,
                rows=counts[_ALL],
                rated={place: n for place, n in counts.items() if place >= 0},
                flagged=counts[_FLAGGED],
            )
            for (value, members), counts in sorted(own.items())
        )
        for group, own in counted.items()
    }


def correct_group(
    group: Group, totals: Totals, calibrations: Sequence[Calibration], confidence: float
) -> Group:
    """Return the group with its judged means corrected, where a calibration allows it."""
    if not calibrations:
        return group
    metrics = {
        name: replace(
            measured,
            corrected=correct_mean(
                metric_named(name), measured, totals, group.judges, calibrations, confidence
            ),
        )
        for name, measured in group.metrics.items()
    }
    return replace(group, metrics=metrics)


def correct_mean(
    metric: Metric,
    measured: Measured,
    totals: Totals,
    judges: Sequence[JudgedBy],
    calibrations: Sequence[Calibration],
    confidence: float,
) -> Corrected | None:
    """Return the mean without the judge's error, or why not; None where nobody judged."""
    value = _VALUES.get(metric.name)
    who = [judge for judge in judges if judge.value == value]
    if value is None or measured.value is None or not who or metric.influence is None:
        return None
    aspect = ASPECTS[value]
    outcome = _find_calibration(who, measured.n, calibrations, aspect)
    if isinstance(outcome, str):
        return Corrected(value=None, n=0, reason=outcome)
    calibration, overlap = outcome
    spread, clusters = read_spread(metric.influence.name, totals)
    if aspect == PASSED:
        assert calibration.verdicts is not None
        size = count_worth(measured.value, measured.n, spread, clusters)
        return correct_share(
            measured.value,
            size,
            calibration.verdicts,
            confidence=confidence,
            n=measured.n,
            overlap=overlap,
            evenness=calibration.evenness,
        )
    rated = calibration.moments[aspect]
    if measured.stderr is None or measured.scope is not None:  # or only of one task
        return Corrected(value=None, n=rated.n, reason="the judged mean has no standard error")
    around = correct_with_ratings(
        measured.value,
        measured.stderr,
        clusters.count,
        rated,
        confidence=confidence,
        n=measured.n,
        overlap=overlap,
        evenness=calibration.evenness,
        within=metric.range,
    )
    low, mean, high = (clip(metric, bound) for bound in (around.low, around.value, around.high))
    return replace(around, low=low, value=mean, high=high)


def use_corrected(group: Group) -> Group:
    """Return the group with the corrected means in place of the judges' own."""
    metrics = {
        name: metric if metric.corrected is None else _replace_measured(metric, metric.corrected)
        for name, metric in group.metrics.items()
    }
    return replace(group, metrics=metrics)


def correct_part(
    judges: Sequence[JudgedBy], calibrations: Sequence[Calibration], confidence: float
) -> Correct:
    """Return the function that corrects the pass rate of a part of the group."""
    who = [judge for judge in judges if judge.value == PASSED]

    def correct(share: Measured, size: float, judged: int) -> Measured:
        if share.value is None or not judged:
            return share
        of_part = [replace(judge, rows=judged) for judge in who]
        made = _find_calibration(of_part, share.n, calibrations, ASPECTS[PASSED])
        if not isinstance(made, str) and made[1]:  # how many are in this part is not counted
            made = f"{describe_overlap(*made, who[0].rows)}; score the others alone"
        if isinstance(made, str):
            return _replace_measured(share, Corrected(value=None, n=0, reason=made))
        calibration, _ = made
        assert calibration.verdicts is not None
        corrected = correct_share(share.value, size, calibration.verdicts, confidence=confidence)
        return _replace_measured(share, corrected)

    return correct


def _replace_measured(measured: Measured, corrected: Corrected) -> Measured:
    reason = None if corrected.value is not None else f"it cannot be corrected: {corrected.reason}"
    return Measured(
        value=corrected.value,
        low=corrected.low,
        high=corrected.high,
        stderr=corrected.stderr,
        interval=corrected.interval,
        n=measured.n,
        missing=measured.missing,
        reason=reason,
    )


def _find_calibration(
    who: Sequence[JudgedBy], n: int, calibrations: Sequence[Calibration], aspect: str
) -> tuple[Calibration, int] | str:
    """Return the calibration of those who judged all of it, or why there is none.

    Also return how many of the records it was made from; one made from other records is preferred.
    """
    if len(who) > 1:
        return f"{len(who)} different judges or panels made the values"
    judged = who[0]
    if judged.rows != n:
        return f"judges made {judged.rows:,} of the {n:,} values, the others are recorded"
    bound = {
        place: candidate
        for place, candidate in enumerate(calibrations)
        if sort_members(judged.members) == candidate.members
    }
    usable = {
        place: candidate
        for place, candidate in bound.items()
        if (candidate.verdicts is not None if aspect == PASSED else aspect in candidate.moments)
    }
    others = (candidate for place, candidate in usable.items() if not judged.rated.get(place))
    if (free := next(others, None)) is not None:
        return free, 0
    for place, calibration in usable.items():
        return calibration, judged.rated[place]
    if bound:
        return f"people gave no {aspect} when the judge was calibrated"
    names = ", ".join(f"{model} with rubric {of or 'unknown'}" for model, of in judged.members)
    return f"no calibration is of {names or 'these judges'}"

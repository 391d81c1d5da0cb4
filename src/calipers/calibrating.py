"""How far judges agree with people on the same records: a judge's licence.

A calibration is bound to the judge's model and the rubric's hash: another model, or one word more
in the rubric, is another judge.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from calipers.errors import EXIT_INCOMPLETE, EXIT_PASS, DataError, UsageError
from calipers.runner.data import read_records
from calipers.stats.agreement import Level, cohen_kappa, krippendorff_alpha
from calipers.stats.correlation import spearman
from calipers.stats.influence import Estimate, Floats, Sampling
from calipers.stats.paired import mean_and_error, student
from calipers.version import __version__

SCHEMA = "calipers.calibration/1"
PASSED, SCORE = "passed", "score"

_TELLS_APART = ("model", "tier", "run")
_SCORES = ("weighted_score", "overall_score")
_NAMES = ("judge", "model", "rubric", "rubric_hash")
_NONE_SHARED = "no record was judged by both"

Key = tuple[str, ...]
Rated = Mapping[str, float]  # aspect to value
Bound = tuple[str | None, ...]  # what a calibration is bound to


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """One judge against people, on each aspect that both rated."""

    judge: str | None
    model: str | None
    rubric: str | None
    rubric_hash: str | None
    n: int
    aspects: Mapping[str, Mapping[str, Estimate]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibrations:
    """All judges of a file. `to_json` is the calibration file."""

    judges: tuple[Calibration, ...]
    confidence: float

    @property
    def exit_code(self) -> int:
        """What the command line gives back: 3 when nobody judged what people did."""
        return EXIT_PASS if any(each.n for each in self.judges) else EXIT_INCOMPLETE

    def to_dict(self) -> dict[str, Any]:
        """The file as Python values."""
        return {
            "schema": SCHEMA,
            "version": __version__,
            "confidence": self.confidence,
            "judges": [asdict(each) for each in self.judges],
        }

    def to_json(self) -> str:
        """The file: strict JSON, the same bytes for the same input."""
        return json.dumps(self.to_dict(), indent=1, ensure_ascii=False, allow_nan=False)


def calibrate_files(
    judged: Sequence[str | Path], human: Sequence[str | Path], *, confidence: float = 0.95
) -> Calibrations:
    """Compare every judge in the judged files with the people in the others."""
    if not 0 < confidence < 1:
        raise UsageError(f"--confidence {confidence:g}: not between 0 and 1", fix="such as 0.95")
    people = _people(human)
    fields = _TELLS_APART if not people else next(iter(people))[1]
    by_people = {key: rated for (key, _), rated in people.items()}
    judges: dict[Bound, dict[Key, Rated]] = {}
    for record in _called(judged):
        key = _key(record, fields)
        for judgment in _judgments(record):
            name = tuple(_text(judgment.get(each)) for each in _NAMES)
            own = judges.setdefault(name, {})
            if key in own:
                raise DataError(
                    f"{_named(name)} judged {' '.join(key)} twice, and people's records do not "
                    "tell which is which",
                    fix=f"give people's records {', '.join(_TELLS_APART)} as the judged have them",
                )
            own[key] = _rated(judgment)
    if not judges:
        raise UsageError("no record has judgments", fix="calipers judge FILES… makes them")
    return Calibrations(
        judges=tuple(
            _calibration(name, own, by_people, confidence) for name, own in judges.items()
        ),
        confidence=confidence,
    )


def _called(files: Sequence[str | Path]) -> Iterator[dict[str, Any]]:
    for path in files:
        for number, record in enumerate(read_records(path), 1):
            if record.get("error") not in (None, ""):
                continue
            if record.get("id") is None:
                raise DataError(
                    f"{path}: record {number} has no id", fix="records are matched by it"
                )
            yield record


def _people(files: Sequence[str | Path]) -> dict[tuple[Key, tuple[str, ...]], Rated]:
    """What people say of each record: several of them by mean and majority, as judges are."""
    found: dict[Key, list[Rated]] = {}
    fields: tuple[str, ...] | None = None
    for record in _called(files):
        own = tuple(name for name in _TELLS_APART if record.get(name) is not None)
        if fields is not None and own != fields:
            raise DataError(
                f"some of people's records have {', '.join(own or fields)}, others do not",
                fix="give it to all, or to none",
            )
        fields = own
        judgments = _judgments(record) or [record]
        found.setdefault(_key(record, own), []).extend(map(_rated, judgments))
    if not any(any(each) for each in found.values()):
        raise UsageError(
            "people's records hold no passed, weighted_score or scores",
            fix="{id, passed, scores: {criterion: number}}, or judgments of such",
        )
    return {(key, fields or ()): _together(rated) for key, rated in found.items()}


def _together(rated: Sequence[Rated]) -> Rated:
    aspects = dict.fromkeys(name for each in rated for name in each)
    mean = {name: fmean(each[name] for each in rated if name in each) for name in aspects}
    return {name: float(v > 1 / 2) if name == PASSED else v for name, v in mean.items()}


def _key(record: Mapping[str, Any], fields: Sequence[str]) -> Key:
    return (str(record["id"]), *(str(record.get(name)) for name in fields))


def _judgments(record: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found = record.get("judgments")
    return [e for e in found if isinstance(e, Mapping)] if isinstance(found, list) else []


def _rated(judgment: Mapping[str, Any]) -> Rated:
    """The verdict, the score and each criterion's, where there are any."""
    found: dict[str, float] = {}
    if isinstance(passed := judgment.get(PASSED), bool):
        found[PASSED] = float(passed)
    score = next((judgment[key] for key in _SCORES if _is_number(judgment.get(key))), None)
    if score is not None:
        found[SCORE] = float(score)
    scores = judgment.get("scores")
    for name, value in scores.items() if isinstance(scores, Mapping) else ():
        if _is_number(value):
            found[f"scores.{name}"] = float(value)
    return found


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _named(name: Bound) -> str:
    return f"{name[0]} ({name[1]})"


def _calibration(
    name: Bound, own: Mapping[Key, Rated], people: Mapping[Key, Rated], confidence: float
) -> Calibration:
    shared = [key for key in own if key in people]
    aspects = dict.fromkeys(aspect for key in shared for aspect in own[key])
    tasks = {task: at for at, task in enumerate(dict.fromkeys(key[0] for key in shared))}
    measured = {}
    for aspect in aspects:
        both = [key for key in shared if aspect in own[key] and aspect in people[key]]
        if both:
            table = np.array([[own[key][aspect], people[key][aspect]] for key in both])
            clusters = np.array([tasks[key[0]] for key in both], dtype=np.int64)
            sampling = Sampling(clusters=clusters, confidence=confidence)
            measured[aspect] = {
                measure: of(table, sampling) for measure, of in _measures(aspect).items()
            }
    judge, model, rubric, rubric_hash = name
    n = max((each["bias"].n for each in measured.values()), default=0)
    return Calibration(
        judge=judge, model=model, rubric=rubric, rubric_hash=rubric_hash, n=n, aspects=measured
    )


def _measures(aspect: str) -> dict[str, Callable[[Floats, Sampling], Estimate]]:
    """Verdicts are labels, criteria have an order, scores a distance."""
    level: Level = "nominal" if aspect == PASSED else "interval" if aspect == SCORE else "ordinal"
    exact = {} if aspect == SCORE else {"cohen_kappa": cohen_kappa}
    return {
        **exact,
        f"krippendorff_alpha_{level}": partial(krippendorff_alpha, level=level),
        "spearman": spearman,
        "bias": _bias,
    }


def _bias(table: Floats, sampling: Sampling) -> Estimate:
    """The mean of judge − people, with Student's interval."""
    apart = table[:, 0] - table[:, 1]
    mean, stderr, freedom = mean_and_error(apart, sampling.clusters)
    if mean is None:
        return Estimate(value=None, n=0, reason=_NONE_SHARED)
    largest = float(np.abs(apart).max())
    low, high, _, _ = student(
        mean, stderr, freedom, largest=largest, confidence=sampling.confidence
    )
    interval = None if low is None else "t"
    return Estimate(value=mean, low=low, high=high, stderr=stderr, interval=interval, n=len(apart))

"""Ratings by people: which records are asked for, in which order, and the file they go to.

A queue has the judged records of the folder, or all where none is judged. It mixes strata: records
on which judges disagree, and each verdict or range of scores of theirs. After two of each, a
stratum's share goes with the root of its size, twice that where judges disagree, so that rare
verdicts are seen early; within a stratum a hash decides. All raters are asked in the same order,
and so rate the same records. A rating says which stratum its record was drawn from, and how many
records that holds: what is measured weighs the records by that.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from hashlib import blake2b
from math import sqrt
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from calipers.dashboard.catalog import Entry
from calipers.gates.licences import count_missing_ratings
from calipers.gates.policy import Judges
from calipers.judges.calibrate import STRATUM, STRATUM_SIZE, calibrate_records
from calipers.judges.rubrics import Rubric, list_built_in, read_rubric
from calipers.records.nested_fields import get_judgments
from calipers.scores.calibration import PASSED, SCORE, Calibration
from calipers.statistics.agreement import Level, krippendorff_alpha
from calipers.statistics.estimates import Estimate, Sampling
from calipers.support.errors import CalipersError, DataError, UsageError, make_write_error
from calipers.support.files import PRIVATE
from calipers.systems.journal import encode_line

NAMES = ("id", "model", "tier", "variant", "run")
LONGEST_NAME = 60  # characters of a rater's
MOST_UNITS = 100_000
_SEED = 0
_BINS = 5
_FIRST = 2  # of each stratum: without any, nothing would be known of it
_APART = 0.25  # scores that differ by so much are a disagreement
_DISAGREE = "judges disagree"
_MOST_FILES, _LARGEST = 300, 1 << 18  # that are looked at for a rubric, and bytes of one
_RUBRIC_FILES = (".yaml", ".yml", ".json")
_SCORES = ("weighted_score", "overall_score")


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """One record to rate; `key` is all that a page says of it."""

    key: str
    entry: Entry
    row: int
    names: Mapping[str, Any]
    judgments: Sequence[Mapping[str, Any]]
    stratum: str

    @property
    def place(self) -> tuple[str, ...]:
        """What its ratings have in common."""
        return make_place(self.names)


def make_place(names: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what tells a record from others, in a line of the file or in the data."""
    return tuple("" if names.get(name) is None else str(names[name]) for name in NAMES)


def choose_stratum(judgments: Iterable[Mapping[str, Any]]) -> str:
    """Return what judges make of a record.

    >>> choose_stratum([{"passed": True}, {"passed": False}])
    'judges disagree'
    >>> choose_stratum([{"overall_score": 0.72}])
    'score 0.6 to 0.8'
    """
    judged = list(judgments)
    verdicts = {each["passed"] for each in judged if isinstance(each.get("passed"), bool)}
    if verdicts:
        return _DISAGREE if len(verdicts) > 1 else "passed" if verdicts == {True} else "failed"
    scores = [
        float(each[name])
        for each in judged
        for name in _SCORES
        if isinstance(each.get(name), int | float)
    ]
    if not scores:
        return "not judged"
    if max(scores) - min(scores) >= _APART:
        return _DISAGREE
    at = min(_BINS - 1, max(0, int(sum(scores) / len(scores) * _BINS)))
    return f"score {at / _BINS:g} to {(at + 1) / _BINS:g}"


def order_units(units: Iterable[Unit]) -> list[Unit]:
    """Return the units in the order in which people are asked."""
    strata: dict[str, list[Unit]] = {}
    for unit in sorted(units, key=_draw_lot):
        strata.setdefault(unit.stratum, []).append(unit)
    weights = {
        name: sqrt(len(members)) * (2 if name == _DISAGREE else 1)
        for name, members in strata.items()
    }
    by_turn = [
        (0 if at < _FIRST else (at + 1) / weights[name], name != _DISAGREE, name, unit)
        for name, members in strata.items()
        for at, unit in enumerate(members)
    ]
    return [unit for *_, unit in sorted(by_turn, key=lambda turn: turn[:3])]


def _draw_lot(unit: Unit) -> bytes:
    text = json.dumps([_SEED, *unit.place])
    return blake2b(text.encode("utf-8", "replace"), digest_size=16).digest()


def find_rubric(judgments: Iterable[Mapping[str, Any]], folders: Iterable[Path]) -> Rubric | None:
    """Return the rubric that most judgments are by: a built-in one, or a file with its hash.

    The hash makes sure that people rate by the words that the judge was given.
    """
    hashes = Counter(str(each["rubric_hash"]) for each in judgments if each.get("rubric_hash"))
    if not hashes:
        return None
    known = {rubric.hash: rubric for rubric in list_built_in().values()}
    if not hashes.keys() <= known.keys():
        for path in _list_rubric_files(folders):
            try:
                rubric = read_rubric(path.name, path.parent)
            except (CalipersError, OSError, ValueError, RecursionError):
                continue
            known.setdefault(rubric.hash, rubric)
    return next((known[digest] for digest, _ in hashes.most_common() if digest in known), None)


def _list_rubric_files(folders: Iterable[Path]) -> Iterator[Path]:
    left = _MOST_FILES
    for folder in dict.fromkeys(folders):
        for place, inner, files in os.walk(folder):
            inner[:] = sorted(name for name in inner if not name.startswith("."))[:_MOST_FILES]
            for name in sorted(files):
                path = Path(place, name)
                if path.suffix.lower() in _RUBRIC_FILES and path.stat().st_size <= _LARGEST:
                    yield path
                    left -= 1
                if left <= 0:
                    return


class RaterFile:
    """The file of ratings: a line each, whole; the one file that the dashboard writes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = Lock()
        for rating in self.read()[:1]:
            if not isinstance(rating.get("rater"), str):
                raise UsageError(f"{path}: not a file of ratings", fix="name another, or a new one")

    def read(self) -> list[dict[str, Any]]:
        """Return all ratings."""
        try:
            lines = self.path.read_bytes().splitlines()
        except FileNotFoundError:
            return []
        except OSError as error:
            fix = "check the file and its permissions"
            raise UsageError(f"{self.path}: {error.strerror}", fix=fix) from error
        return [
            _parse_rating(line, f"{self.path}:{at}") for at, line in enumerate(lines, 1) if line
        ]

    def add(self, rating: Mapping[str, Any]) -> None:
        """Append a rating."""
        with self._open() as file:
            end = os.fstat(file).st_size
            torn = end and os.pread(file, 1, end - 1) != b"\n"
            line = (b"\n" if torn else b"") + encode_line(rating)
            written = os.pwrite(file, line, end)
            if written < len(line):  # the disk is full
                os.ftruncate(file, end)
                problem = f"{self.path}: there is no room for a rating"
                raise UsageError(problem, fix="make room, and rate it again")
            os.fsync(file)

    def take_back(self, rater: str) -> dict[str, Any] | None:
        """Remove the last rating of a rater, and return it; None if there is none."""
        with self._open() as file:
            content = os.pread(file, os.fstat(file).st_size, 0)
            lines = content.splitlines(keepends=True)
            for at in range(len(lines) - 1, -1, -1):
                if not lines[at].strip():
                    continue
                rating = _parse_rating(lines[at], str(self.path))
                if rating.get("rater") == rater:
                    start, behind = sum(map(len, lines[:at])), b"".join(lines[at + 1 :])
                    if behind:  # others have rated since
                        os.pwrite(file, behind, start)
                    os.ftruncate(file, start + len(behind))
                    os.fsync(file)
                    return rating
        return None

    @contextmanager
    def _open(self) -> Iterator[int]:
        """Open the file, for one writer at a time, other programs included."""
        with self._lock:
            try:
                file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE)
            except OSError as error:
                raise make_write_error(self.path, error) from error
            try:
                fcntl.flock(file, fcntl.LOCK_EX)
                yield file
            except OSError as error:
                raise make_write_error(self.path, error) from error
            finally:
                os.close(file)


def _parse_rating(line: bytes, where: str) -> dict[str, Any]:
    try:
        rating = json.loads(line)
    except (ValueError, RecursionError):
        rating = None
    if not isinstance(rating, dict):
        raise DataError(f"{where}: not a rating", fix="take the line out, or name a new file")
    return rating


def read_scores(rubric: Rubric | None, given: Mapping[str, str]) -> dict[str, Any]:
    """Return what a form says of a record, graded as the judge's scores are.

    Raises:
        UsageError: A score is missing, is no number, or is off the scale.
    """
    if rubric is None:
        if given.get(PASSED) not in ("yes", "no"):
            raise UsageError("nothing is chosen", fix="choose yes or no")
        return {"passed": given[PASSED] == "yes"}
    scores = {name: _read_score(rubric, name, given) for name in rubric.names}
    return {"scores": scores, **rubric.grade(scores)}


def _read_score(rubric: Rubric, name: str, given: Mapping[str, str]) -> float | None:
    text = given.get(f"score.{name}", "").strip()
    if text == "none" and rubric.may_not_apply(name):
        return None
    lowest, highest = rubric.get_range(name)
    try:
        score = float(text)
    except ValueError:
        raise UsageError(f"{name} has no score", fix="choose one for each criterion") from None
    ends_only = rubric.is_all_or_nothing(name)
    if not lowest <= score <= highest or (ends_only and score not in (lowest, highest)):
        raise UsageError(f"{name}: {text[:20]} is off the scale", fix=f"{lowest:g} to {highest:g}")
    return int(score) if score.is_integer() else score


def check_name(rater: str) -> str:
    """Return a rater's name, or raise UsageError."""
    name = " ".join(rater.split())
    if not name or len(name) > LONGEST_NAME or not name.isprintable():
        raise UsageError(
            "the name of the rater is empty, too long, or not printable",
            fix=f"1 to {LONGEST_NAME} letters that can be printed",
        )
    return name


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeProgress:
    """How far a judge is from its licence."""

    name: str
    kappa: Estimate
    more: int | None  # ratings that it takes, about; None: more would not help, or too few to say
    floor: float

    @property
    def is_too_low(self) -> bool:
        """Return True if the judge agrees with people too little, whatever their number."""
        return self.kappa.value is not None and self.kappa.value <= self.floor


@dataclass(frozen=True, slots=True, kw_only=True)
class RatingProgress:
    """What the ratings amount to."""

    ratings: int
    raters: Mapping[str, int]
    alpha: Estimate | None  # between people
    judges: Sequence[JudgeProgress]


@dataclass
class Queue:
    """The records to rate, and those that raters have put off."""

    units: Sequence[Unit]
    rubric: Rubric | None
    left_out: int = 0  # records that are named by other fields
    _skipped: dict[str, dict[str, None]] = field(default_factory=dict)

    @cached_property
    def sizes(self) -> Mapping[str, int]:
        """The number of records in each stratum."""
        return Counter(unit.stratum for unit in self.units)

    @cached_property
    def by_key(self) -> Mapping[str, Unit]:
        """The units by what pages call them."""
        return {unit.key: unit for unit in self.units}

    def find_next(self, rater: str, ratings: Iterable[Mapping[str, Any]]) -> Unit | None:
        """Return the next record for a rater; what was put off comes last."""
        done = {make_place(rating) for rating in ratings if rating.get("rater") == rater}
        skipped = self._skipped.get(rater, {})
        first = (unit for unit in self.units if unit.key not in skipped)
        every = (*first, *(self.by_key[key] for key in skipped))
        return next((unit for unit in every if unit.place not in done), None)

    def skip(self, rater: str, key: str) -> None:
        """Put a record off, behind all others."""
        skipped = self._skipped.setdefault(rater, {})
        skipped.pop(key, None)
        skipped[key] = None

    def count_left(self, rater: str, ratings: Iterable[Mapping[str, Any]]) -> int:
        """Return how many records a rater has not rated."""
        done = {make_place(rating) for rating in ratings if rating.get("rater") == rater}
        return sum(unit.place not in done for unit in self.units)

    def make_rating(self, unit: Unit, rater: str, scores: Mapping[str, Any]) -> dict[str, Any]:
        """Return the line for a rating."""
        of = self.rubric
        return {
            **unit.names,
            "rater": rater,
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
            "source": unit.entry.name,
            STRATUM: unit.stratum,
            STRATUM_SIZE: self.sizes[unit.stratum],
            **({} if of is None else {"rubric": of.name, "rubric_hash": of.hash}),
            **scores,
        }

    def measure(self, ratings: Sequence[Mapping[str, Any]]) -> RatingProgress:
        """Return how far raters agree with each other, and judges with them."""
        places = {unit.place: unit for unit in self.units}
        rated = {place: places[place] for place in map(make_place, ratings) if place in places}
        known = [
            {**rating, STRATUM: unit.stratum, STRATUM_SIZE: self.sizes[unit.stratum]}
            for rating in ratings
            if (unit := rated.get(make_place(rating))) is not None
        ]
        return RatingProgress(
            ratings=len(known),
            raters=Counter(str(rating["rater"]) for rating in known),
            alpha=_measure_raters(known),
            judges=_measure_judges(list(rated.values()), known),
        )


def _measure_raters(ratings: Sequence[Mapping[str, Any]]) -> Estimate | None:
    """Return Krippendorff's alpha of verdicts, or of scores; None for one rater."""
    raters = sorted({str(rating["rater"]) for rating in ratings})
    if len(raters) < 2:  # noqa: PLR2004
        return None
    has_verdicts = any(isinstance(rating.get("passed"), bool) for rating in ratings)
    rows = {place: at for at, place in enumerate(dict.fromkeys(map(make_place, ratings)))}
    ids = {name: at for at, name in enumerate(dict.fromkeys(place[0] for place in rows))}
    table = np.full((len(rows), len(raters)), np.nan)
    for rating in ratings:
        keys = ("passed",) if has_verdicts else _SCORES
        value = next((rating[key] for key in keys if rating.get(key) is not None), None)
        if isinstance(value, int | float):
            table[rows[make_place(rating)], raters.index(str(rating["rater"]))] = value
    clusters = np.array([ids[place[0]] for place in rows], dtype=np.int64)
    level: Level = "nominal" if has_verdicts else "interval"
    return krippendorff_alpha(table, Sampling(clusters=clusters, confidence=0.95), level=level)


def _measure_judges(
    units: Sequence[Unit], ratings: Sequence[Mapping[str, Any]]
) -> list[JudgeProgress]:
    judged = [{**unit.names, "judgments": list(unit.judgments)} for unit in units]
    if not any(get_judgments(record) for record in judged):
        return []
    floor = Judges().floor
    progress = []
    for calibration in calibrate_records(judged, ratings).judges:
        kappa = _find_kappa(calibration)
        if kappa is not None:
            more = count_missing_ratings(kappa, floor)
            name = " and ".join(dict.fromkeys(who for who, _ in calibration.members))
            progress.append(JudgeProgress(name=name, kappa=kappa, more=more, floor=floor))
    return progress


def _find_kappa(calibration: Calibration) -> Estimate | None:
    """Return the kappa of verdicts, else that of scores."""
    aspects = (PASSED, SCORE, *calibration.aspects)
    return next((kappa for each in aspects if (kappa := calibration.kappa(each))), None)

"""A calibration: how far a judge agrees with people, and the moments that correct its means.

It is bound to the judge: the model, or the cascade or panel of models, and the rubric's hash. The
file holds numbers about records and none of their texts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, field
from itertools import pairwise
from math import isfinite
from pathlib import Path
from typing import Any

from calipers.statistics.correction import Moments, Verdicts
from calipers.statistics.estimates import Estimate
from calipers.support.errors import EXIT_INCOMPLETE, EXIT_PASS, UsageError
from calipers.support.printing import Printed
from calipers.support.quick_dataclasses import dataclass
from calipers.support.tabular import Tabular, keep_scalars
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
    aspects: Mapping[str, Mapping[str, Estimate]]
    moments: Mapping[str, Moments] = field(default_factory=dict)
    verdicts: Verdicts | None = None
    confidence: float = 0.95  # of its intervals
    source: str | None = None  # the file it was read from
    records: frozenset[str] = frozenset()  # hashes of the records that it was made from

    def kappa(self, aspect: str) -> Estimate | None:
        """Return the agreement beyond chance: Cohen's kappa, with squared weights for numbers."""
        measures = self.aspects.get(aspect, {})
        return measures.get(KAPPA if aspect == PASSED else WEIGHTED_KAPPA)

    def rate(self, measure: str, aspect: str) -> float | None:
        """Return the sensitivity or specificity, where the aspect has one."""
        found = self.aspects.get(aspect, {}).get(measure)
        return None if found is None else found.value

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
        return EXIT_PASS if any(each.n for each in self.judges) else EXIT_INCOMPLETE

    def to_dict(self) -> dict[str, Any]:
        """Return the file as Python values."""
        return {
            "schema": SCHEMA,
            "version": __version__,
            "confidence": self.confidence,
            "judges": [each.to_dict() for each in self.judges],
        }

    def _list_rows(self) -> Iterator[dict[str, Any]]:
        """Yield a row per judge."""
        for each in self.judges:
            yield keep_scalars(each.to_dict())


def describe_overlap(calibration: Calibration, overlap: int, rows: int) -> str:
    """Return the sentence that a calibration was made from some of the records being scored."""
    of = "these very records" if overlap == rows else f"{overlap:,} of these {rows:,} records"
    return f"{calibration.source or 'the calibration'} was made from {of}"


def read_members(who: Iterable[Member]) -> tuple[Member, ...]:
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
        return tuple(_read_calibration(each, confidence, str(path)) for each in value["judges"])
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise UsageError(
            f"{path}: no calibration as `calipers judge calibrate` writes it, or an older one",
            fix=f"make it again: {CALIBRATE}",
        ) from error


def read_all(paths: Iterable[str | Path]) -> tuple[Calibration, ...]:
    """Return the calibrations in several files."""
    return tuple(each for path in paths for each in read_calibrations(path))


def _refuse(_: str) -> float:
    raise ValueError("not a finite number")


def _read_calibration(value: Mapping[str, Any], confidence: float, source: str) -> Calibration:
    aspects = {
        str(aspect): {str(name): Estimate(**measure) for name, measure in measures.items()}
        for aspect, measures in value["aspects"].items()
    }
    members = read_members((str(m["model"]), str(m["rubric_hash"])) for m in value["members"])
    if not members:
        raise ValueError("it is bound to no judge")
    found = value["verdicts"]
    calibration = Calibration(
        **{name: value[name] for name in ("judge", "model", "rubric", "rubric_hash")},
        members=members,
        n=int(value["n"]),
        aspects=aspects,
        moments={str(name): Moments(**each) for name, each in value["moments"].items()},
        verdicts=None if found is None else Verdicts(**found),
        confidence=confidence,
        source=source,
        records=frozenset(map(str, value.get("records", ()))),
    )
    _check_numbers(calibration)
    return calibration


def _check_numbers(calibration: Calibration) -> None:
    """Raise ValueError if a number of the file cannot have been measured."""
    for measures in calibration.aspects.values():
        for name, measure in measures.items():
            found = (measure.low, measure.value, measure.high)
            known = [each for each in found if each is not None]
            _check_finite(*known)
            is_torn = any(low > high + _ROUNDING for low, high in pairwise(known))
            if is_torn or (name != BIAS and any(abs(each) > 1 + _ROUNDING for each in known)):
                raise ValueError("an interval that is none")
    for moments in calibration.moments.values():
        _check_counts(moments.n, moments.clusters, moments.n - moments.clusters)
        _check_finite(moments.judge, moments.people, moments.both_spread)
        _check_counts(moments.judge_spread, moments.people_spread, whole=False)
    if (told := calibration.verdicts) is not None:
        for agreed, of, size in (
            (told.both_passed, told.passed, told.passed_size),
            (told.both_failed, told.failed, told.failed_size),
        ):
            _check_counts(agreed, of, of - agreed)
            _check_counts(size, whole=False)
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
    if any(each < 0 or (whole and not isinstance(each, int)) for each in numbers):
        raise ValueError("no count")

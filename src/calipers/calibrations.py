"""A calibration: how far a judge agrees with people, and what corrects its means.

It is bound to who judged: the model, or the cascade or panel of models, and the rubric's hash. The
file holds numbers over records and none of their texts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from calipers.errors import EXIT_INCOMPLETE, EXIT_PASS, UsageError
from calipers.stats.correction import Moments, Verdicts
from calipers.stats.influence import Estimate
from calipers.version import __version__

SCHEMA = "calipers.calibration/1"
PASSED, SCORE = "passed", "score"
KAPPA, WEIGHTED_KAPPA = "cohen_kappa", "weighted_kappa"
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
    source: str | None = None  # the file it was read from

    def kappa(self, aspect: str) -> Estimate | None:
        """Agreement beyond chance: of labels Cohen's, of numbers with squared weights."""
        measures = self.aspects.get(aspect, {})
        return measures.get(KAPPA if aspect == PASSED else WEIGHTED_KAPPA)

    def to_dict(self) -> dict[str, Any]:
        """As the file has it."""
        shown = asdict(self)
        del shown["source"]
        members = [{"model": model, "rubric_hash": rubric} for model, rubric in self.members]
        return {**shown, "members": members}


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
            "judges": [each.to_dict() for each in self.judges],
        }

    def to_json(self) -> str:
        """The file: strict JSON, the same bytes for the same input."""
        return json.dumps(self.to_dict(), indent=1, ensure_ascii=False, allow_nan=False)


def members_of(who: Iterable[Member]) -> tuple[Member, ...]:
    """Who judged together, each once, in one order."""
    return tuple(sorted(set(who)))


def read_calibrations(path: str | Path) -> tuple[Calibration, ...]:
    """The calibrations in a file, or why it holds none."""
    try:
        value = json.loads(Path(path).read_text(encoding="utf-8"), parse_constant=_refused)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", fix=f"make it: {CALIBRATE}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: cannot be read as JSON", fix=f"make it: {CALIBRATE}") from error
    try:
        if value["schema"] != SCHEMA:
            raise ValueError("another schema")  # noqa: TRY301 (told as all other faults are)
        return tuple(_calibration(each, str(path)) for each in value["judges"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(
            f"{path}: no calibration as `calipers judge calibrate` writes it, or an older one",
            fix=f"make it anew: {CALIBRATE}",
        ) from error


def read_all(paths: Iterable[str | Path]) -> tuple[Calibration, ...]:
    """The calibrations in several files."""
    return tuple(each for path in paths for each in read_calibrations(path))


def _refused(_: str) -> float:
    raise ValueError("not a finite number")


def _calibration(value: Mapping[str, Any], source: str) -> Calibration:
    aspects = {
        str(aspect): {str(name): Estimate(**measure) for name, measure in measures.items()}
        for aspect, measures in value["aspects"].items()
    }
    members = members_of((str(m["model"]), str(m["rubric_hash"])) for m in value["members"])
    if not members:
        raise ValueError("it is bound to nobody")
    found = value["verdicts"]
    calibration = Calibration(
        judge=value["judge"],
        model=value["model"],
        rubric=value["rubric"],
        rubric_hash=value["rubric_hash"],
        members=members,
        n=int(value["n"]),
        aspects=aspects,
        moments={str(name): Moments(**each) for name, each in value["moments"].items()},
        verdicts=None if found is None else Verdicts(**found),
        source=source,
    )
    _check_numbers(calibration)
    return calibration


def _check_numbers(calibration: Calibration) -> None:
    """What the file says is counted with: it must be numbers."""
    measures = (m for each in calibration.aspects.values() for m in each.values())
    numbers = [each for m in measures for each in (m.value, m.low, m.high, m.stderr)]
    tables = [asdict(each) for each in calibration.moments.values()]
    tables += [] if calibration.verdicts is None else [asdict(calibration.verdicts)]
    numbers += [each for table in tables for each in table.values()]
    for number in numbers:
        if isinstance(number, bool) or not isinstance(number, int | float | None):
            raise TypeError("not a number")

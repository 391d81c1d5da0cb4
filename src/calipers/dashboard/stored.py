"""What a run's files say, read back: `score.json` and calibrations are shown as they stand."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from calipers.dashboard.catalog import Catalog
from calipers.metrics import metric_named
from calipers.scores.results import (
    SCHEMA,
    Bounded,
    FlakyTask,
    Frontier,
    Group,
    Histogram,
    Input,
    JudgedBy,
    Measured,
    OnFrontier,
    PerTask,
    ReliabilityBin,
    Score,
    Tiers,
)
from calipers.scores.tier_results import TierTest
from calipers.statistics.correction import Corrected
from calipers.support.errors import UsageError
from calipers.support.typed import fits

_MEASURED = {each.name for each in fields(Measured)} - {"extras"}


def stored_score(found: Mapping[str, Any] | None) -> Score | None:
    """The score in a parsed `score.json`; None where it is none, or of another version."""
    if found is None or found.get("schema") != SCHEMA:
        return None
    try:
        built = _score(found)
    except (KeyError, TypeError, ValueError, AttributeError):
        return None
    return built if fits(built, Score) and _is_known(built) else None


def _is_known(score: Score) -> bool:
    """Say whether its metrics are ours: a later version may have others."""
    try:
        for name in {name for group in score.groups for name in group.metrics}:
            metric_named(name)
    except UsageError:
        return False
    return True


def _score(found: Mapping[str, Any]) -> Score:
    tiers = found.get("tiers") or []
    return Score(
        groups=tuple(map(_group, found["groups"])),
        inputs=tuple(Input(**each) for each in found["inputs"]),
        settings=found["settings"],
        notices=tuple(found.get("notices", ())),
        seed=found["seed"],
        tiers=tuple(map(_tiers, [tiers] if isinstance(tiers, dict) else tiers)),
        per_task=_per_task(found.get("per_task")),
        frontier=_frontier(found.get("frontier")),
    )


def _group(found: Mapping[str, Any]) -> Group:
    statistics = found.get("statistics")
    return Group(
        by=found["by"],
        records=found["records"],
        errors=found["errors"],
        truncated=int(found.get("truncated") or 0),
        metrics={name: _measured(each) for name, each in found["metrics"].items()},
        statistics=None if statistics is None else {n: _numbers(s) for n, s in statistics.items()},
        grade=found.get("grade"),
        grade_interval=tuple(between) if (between := found.get("grade_interval")) else None,
        median_composite=Bounded(**median) if (median := found.get("median_composite")) else None,
        failures=found.get("failures", 0),
        histograms={
            name: None if each is None else _histogram(each)
            for name, each in (found.get("histograms") or {}).items()
        },
        reliability=tuple(ReliabilityBin(**each) for each in found.get("reliability", ())),
        judges=tuple(map(_judged_by, found.get("judges", ()))),
        flagged=found.get("flagged"),
    )


def _measured(found: Mapping[str, Any]) -> Measured:
    corrected = found.get("corrected")
    return Measured(
        value=_number(found["value"]),
        low=_number(found.get("low")),
        high=_number(found.get("high")),
        stderr=_number(found.get("stderr")),
        n=found["n"],
        missing=found["missing"],
        reason=found["reason"],
        interval=found["interval"],
        interval_reason=found.get("interval_reason"),
        scope=found.get("scope"),
        extras={name: value for name, value in found.items() if name not in _MEASURED},
        corrected=None if corrected is None else Corrected(**corrected),
    )


def _judged_by(found: Mapping[str, Any]) -> JudgedBy:
    members = tuple((each["model"], each["rubric_hash"] or "") for each in found["by"])
    return JudgedBy(
        value=found["value"],
        members=members,
        rows=found["rows"],
        flagged=found.get("flagged", 0),
    )


def _histogram(found: Mapping[str, Any]) -> Histogram:
    return Histogram(edges=tuple(found["edges"]), counts=tuple(found["counts"]))


def _numbers(found: Mapping[str, Any] | None) -> dict[str, float | None] | None:
    return None if found is None else {name: _number(value) for name, value in found.items()}


def _number(value: Any) -> float | None:
    """A number, an infinite one as it was before strict JSON."""
    if value is None or isinstance(value, int | float):
        return value
    return {"Infinity": math.inf, "-Infinity": -math.inf}[value]


def _tiers(found: Mapping[str, Any]) -> Tiers:
    parts = ("median_composite", "uplift_intervals", "intervals")
    bounded = {part: _bounded(found.get(part, {})) for part in parts}
    tests = {name: TierTest(**each) for name, each in found.get("tests", {}).items()}
    return Tiers(**{"by": {}, "reasons": {}, **found, **bounded, "tests": tests})


def _bounded(found: Mapping[str, Any]) -> dict[str, Bounded]:
    return {name: Bounded(**each) for name, each in found.items()}


def _per_task(found: Mapping[str, Any] | None) -> PerTask | None:
    if found is None:
        return None
    return PerTask(**{**found, "flakiest": tuple(FlakyTask(**each) for each in found["flakiest"])})


def _frontier(found: Mapping[str, Any] | None) -> Frontier | None:
    if found is None:
        return None
    solved = found["solved_cost_of_pass"]
    return Frontier(
        tasks=found["tasks"],
        solved=found["solved"],
        unknown_cost=found.get("unknown_cost", 0),
        cost_of_pass=_number(found["cost_of_pass"]),
        solved_cost_of_pass=solved["value"],
        low=solved["low"],
        high=solved["high"],
        groups=tuple(OnFrontier(**each) for each in found["groups"]),
    )


def stored_calibrations(folder: Path | None, catalog: Catalog) -> list[dict[str, Any]]:
    """What calibration files in a run's folder say of its judges."""
    from calipers.scores.calibration import SCHEMA as CALIBRATIONS  # noqa: PLC0415 (loads much)

    found = []
    for path in sorted(folder.glob("*.json")) if folder is not None else ():
        content = catalog.stored(path)
        if content is not None and content.get("schema") == CALIBRATIONS:
            found += [each for each in content.get("judges", ()) if isinstance(each, dict)]
    return found

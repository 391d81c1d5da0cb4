"""A gate's verdict read back from the JSON that it was written to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from calipers.gates.early import Early, Standing
from calipers.gates.result import SCHEMA, Changes, Check, GateResult, Ids
from calipers.gates.undecided import Undecided
from calipers.metrics import metric_named
from calipers.metrics.thresholds import Scale, Threshold, scale_of
from calipers.scores.results import Input
from calipers.support.errors import UsageError
from calipers.support.typed import fits

_CHANGED = ("added", "removed", "broken", "mended")


def stored_gate(found: Mapping[str, Any]) -> GateResult | None:
    """The verdict in a parsed `gate.json`; None where it is none, or of another version."""
    if found.get("schema") != SCHEMA:
        return None
    try:
        built = GateResult(
            verdict=found["verdict"],
            checks=tuple(map(_check, found["checks"])),
            records=int(found["records"]),
            errors=int(found["errors"]),
            incomplete=tuple(map(str, found["incomplete"])),
            evidence=found["evidence"],
            flagged=found.get("flagged", 0),
            confidence=float(found["confidence"]),
            policy=str(found["policy"]),
            inputs=tuple(Input(**each) for each in found.get("inputs", ())),
            release=found.get("release"),
            changes=tuple(map(_changes, found.get("changes", ()))),
            notices=tuple(map(str, found.get("notices", ()))),
            seed=int(found.get("seed", 0)),
            early=_early(found.get("until_decided")),
        )
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
    return built if fits(built, GateResult) else None


def _check(found: Mapping[str, Any]) -> Check:
    return Check(
        name=str(found["name"]),
        level=found["level"],
        source=str(found.get("source", "")),
        verdict=found["verdict"],
        threshold=_threshold(found),
        reason=found.get("reason"),
        n=int(found.get("n", 0)),
        missing=int(found.get("missing", 0)),
        undecided=Undecided(int(found.get("undecided", 0)), _about(found)),
        by=found.get("by") or {},
        risk=found.get("risk"),
        description=found.get("description"),
        thin=bool(found.get("thin")),
        further_scenarios=found.get("further_scenarios"),
        further_range=tuple(between) if (between := found.get("further_range")) else None,
        failing=_ids(found.get("failing")),
        sequence=_standing(found),
        evidence=tuple(dict(each) for each in found.get("evidence", ())),
        change=found.get("change"),
        flagged=found.get("flagged", 0),
        value=_number(found["value"]),
        low=_number(found["low"]),
        high=_number(found["high"]),
    )


def _about(found: Mapping[str, Any]) -> int:
    return int(found.get("n", 0)) + int(found.get("missing", 0))


def _number(found: float | str | None) -> float | None:
    """A number of strict JSON, where an infinite one is a text."""
    return None if found is None else float(found)


def _threshold(found: Mapping[str, Any]) -> Threshold | None:
    """What was demanded; a name that is no metric is that of a share, such as a category's."""
    if found["threshold"] is None:
        return None
    try:
        scale = scale_of(metric_named(found["name"]))
    except UsageError:
        scale = Scale(name=found["name"], unit=None, range=(0, 1), better="higher")
    return Threshold(operator=found["operator"], value=float(found["threshold"]), scale=scale)


def _standing(found: Mapping[str, Any]) -> Standing | None:
    sequence = found.get("sequence")
    return None if sequence is None else Standing(name=str(found["name"]), **sequence)


def _early(found: Mapping[str, Any] | None) -> Early | None:
    """How far a run came that may end early; the standings are in its checks."""
    if found is None:
        return None
    calls = found["calls"]
    return Early(
        stopped=bool(found["stopped"]),
        made=int(calls["made"]),
        planned=int(calls["planned"]),
        seed=int(found["seed"]),
        alpha=float(found["alpha"]),
        shared_by=int(found["shared_by"]),
    )


def _ids(found: Mapping[str, Any] | None) -> Ids:
    return Ids() if found is None else Ids(int(found["count"]), tuple(map(str, found["ids"])))


def _changes(found: Mapping[str, Any]) -> Changes:
    return Changes(by=found.get("by", {}), **{name: _ids(found[name]) for name in _CHANGED})

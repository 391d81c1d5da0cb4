"""A run that was recorded, and what it asks of the next one: as good, and a margin better."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Any

from calipers.errors import UsageError, nearest
from calipers.gating.result import LISTED, Changes, Ids
from calipers.gating.rules import Rule, known_metric
from calipers.gating.thresholds import Threshold, scale_of
from calipers.version import __version__

SCHEMA = "calipers.baseline/1"
_OUTCOMES = ("passed", "failed", "unknown")
_FIX = "record it anew: calipers gate … --save-baseline FILE"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedGroup:
    """What a group of a run measured, and which scenarios passed in it."""

    by: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, float]
    passed: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()

    @property
    def scenarios(self) -> tuple[str, ...]:
        """The ids of all of them."""
        return (*self.passed, *self.failed, *self.unknown)

    def to_dict(self) -> dict[str, Any]:
        """As the file has it."""
        return {
            "by": dict(self.by),
            "metrics": dict(self.metrics),
            "scenarios": {name: list(getattr(self, name)) for name in _OUTCOMES},
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A baseline: the groups of a run."""

    groups: tuple[RecordedGroup, ...]

    def group(self, by: Mapping[str, Any]) -> RecordedGroup | None:
        """The group of that key."""
        return next((group for group in self.groups if dict(group.by) == dict(by)), None)

    def to_dict(self) -> dict[str, Any]:
        """As the file has it."""
        groups = [group.to_dict() for group in self.groups]
        return {"schema": SCHEMA, "version": __version__, "groups": groups}


def recorded_from(value: Any, *, source: str) -> Recorded:
    """The baseline in a file that was read, or why it is none."""
    try:
        if value["schema"] == SCHEMA:
            return Recorded(groups=tuple(map(_group_from, value["groups"])))
    except (KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{source}: no baseline as gate records one", fix=_FIX) from error
    except (ValueError, UsageError) as error:
        said = error.message if isinstance(error, UsageError) else str(error)
        raise UsageError(f"{source}: {said}", fix=_FIX) from error
    raise UsageError(f"{source}: its schema is not {SCHEMA}", fix=_FIX)


def _group_from(group: Mapping[str, Any]) -> RecordedGroup:
    scenarios = group["scenarios"]
    return RecordedGroup(
        by=dict(group["by"]),
        metrics={
            known_metric(name).name: _finite(name, value)
            for name, value in group["metrics"].items()
        },
        **{name: tuple(map(str, scenarios[name])) for name in _OUTCOMES},
    )


def _finite(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        raise ValueError(f"{name} is {value}, no finite number")
    return float(value)


def baseline_rules(group: RecordedGroup, margins: Mapping[str, float]) -> list[Rule]:
    """What the baseline demands: of each metric with a margin; without any, of all, with none."""
    for name in margins:
        if name not in group.metrics:
            raise UsageError(
                f"the baseline has no {name}", fix=f"{nearest(name, group.metrics)}; or {_FIX}"
            )
    names = margins or {name: 0.0 for name in group.metrics if known_metric(name).better}
    return [_rule(name, group.metrics[name], margin) for name, margin in names.items()]


def _rule(name: str, value: float, margin: float) -> Rule:
    scale = scale_of(known_metric(name))
    low, high = scale.range
    demanded = value + margin if scale.better == "higher" else value - margin
    bounded = min(high, max(low, demanded))
    threshold = Threshold(
        operator="≥" if scale.better == "higher" else "≤", value=bounded, scale=scale
    )
    return Rule(name=name, threshold=threshold)


def ratcheted(old: Recorded, new: Recorded) -> tuple[Recorded, tuple[str, ...]]:
    """The baseline raised where the run is better, never lowered, and the metrics that rose."""
    groups: list[RecordedGroup] = []
    raised: list[str] = []
    for group in new.groups:
        before = old.group(group.by)
        better = {} if before is None else _better(before.metrics, group.metrics)
        kept = {**group.metrics, **({} if before is None else before.metrics), **better}
        raised += (name for name in better if name not in raised)
        groups.append(replace(group, metrics=kept))
    missing = [group for group in old.groups if new.group(group.by) is None]
    return Recorded(groups=(*groups, *missing)), tuple(raised)


def _better(before: Mapping[str, float], now: Mapping[str, float]) -> dict[str, float]:
    """The metrics of the baseline in which the run is better."""
    sign = {name: -1 if known_metric(name).better == "lower" else 1 for name in before}
    return {
        name: now[name]
        for name, value in before.items()
        if name in now and known_metric(name).better and sign[name] * (now[name] - value) > 0
    }


def changes(before: RecordedGroup, now: RecordedGroup) -> Changes:
    """The scenarios that came, went, broke or were mended since the baseline."""
    passed, failed = set(before.passed), set(before.failed)
    known, present = set(before.scenarios), set(now.scenarios)
    return Changes(
        by=now.by,
        added=_ids(present - known),
        removed=_ids(known - present),
        broken=_ids(each for each in now.failed if each in passed),
        mended=_ids(each for each in now.passed if each in failed),
    )


def _ids(found: Iterable[str]) -> Ids:
    every = sorted(found)
    return Ids(len(every), tuple(every[:LISTED]))

"""The aim of a power analysis, and its result for one metric."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import isfinite
from typing import Any

from calipers.statistics.power import CORRELATION, Components, PowerPlan, Spread
from calipers.support.errors import UsageError, check_confidence

REPEATS = (1, 2, 4, 8, 16)
NULLABLE = ("value", "between", "within", "delta", "plans", "detectable")


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """What a comparison should see, and how surely; without `delta`, 0.05 or 5 % of the value."""

    delta: float | None = None
    power: float = 0.8
    confidence: float = 0.95
    correlation: float = CORRELATION
    runs: tuple[int, ...] = REPEATS
    width: float | None = None  # that the interval of the value should have at most

    def __post_init__(self) -> None:
        if self.delta is not None and not (self.delta > 0 and isfinite(self.delta)):
            raise UsageError(
                f"--delta {self.delta:g}: not a difference to look for",
                fix="a number above 0 in the metric's unit, for example 0.05",
            )
        if self.width is not None and not (self.width > 0 and isfinite(self.width)):
            raise UsageError(
                f"--width {self.width:g}: no width of an interval",
                fix="a number above 0 in the metric's unit, from low to high, for example 0.1",
            )
        check_confidence(self.confidence)
        chance = 1 - self.confidence
        if not chance < self.power < 1:
            raise UsageError(
                f"--power {self.power:g}: not between {chance:.3g}, which chance reaches, and 1",
                fix="for example 0.8",
            )
        if not -1 <= self.correlation < 1:
            raise UsageError(
                f"--correlation {self.correlation:g}: not from -1 to below 1",
                fix="for example 0.5; between strong models 0.3 to 0.7 was found",
            )
        if not self.runs or min(self.runs) < 1:
            raise UsageError(
                f"--runs {','.join(map(str, self.runs))}: a task is run once or more",
                fix="for example --runs 1,2,4",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricPower:
    """The power analysis of one metric; every null has its reason."""

    value: float | None = None
    candidate: float | None = None  # the candidate's value, where there is one
    tasks: int = 0
    runs: float | None = None  # of a task, on average
    spread: Spread | None = None  # of the base's values
    difference: Spread | None = None  # of candidate − base, measured or assumed
    delta: float | None = None
    plans: tuple[PowerPlan, ...] = ()
    detectable: float | None = None
    components: Components | None = None  # of the value's variance
    width_plans: tuple[PowerPlan, ...] = ()  # for an interval as narrow as asked for
    reasons: Mapping[str, str]
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        shown = self.to_dict()
        if {name for name in NULLABLE if shown[name] in (None, [])} != set(self.reasons):
            raise ValueError("a null needs a reason, and only a null has one")

    @property
    def between(self) -> float | None:
        """The variance between tasks, of what is expected of each."""
        return None if self.spread is None else self.spread.between

    @property
    def within(self) -> float | None:
        """The variance from run to run of a task."""
        return None if self.spread is None else self.spread.within

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON of one metric."""
        spread = self.difference
        return {
            "value": self.value,
            **({} if self.candidate is None else {"candidate": self.candidate}),
            "tasks": self.tasks,
            "runs": self.runs,
            "between": self.between,
            "within": self.within,
            "difference": None
            if spread is None
            else {"between": spread.between, "within": spread.within},
            "delta": self.delta,
            "plans": [asdict(plan) for plan in self.plans],
            "detectable": self.detectable,
            "components": None if self.components is None else asdict(self.components),
            "width_plans": [asdict(plan) for plan in self.width_plans],
            "reasons": dict(self.reasons),
            "notes": list(self.notes),
        }

"""What a power analysis finds out about one metric."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from calipers.statistics.power import Components, PowerPlan, Spread
from calipers.support.quick_dataclasses import dataclass

NULLABLE = ("value", "between", "within", "delta", "plans", "detectable")


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
        difference = spread and {"between": spread.between, "within": spread.within}
        return {
            "value": self.value,
            **({} if self.candidate is None else {"candidate": self.candidate}),
            "tasks": self.tasks,
            "runs": self.runs,
            "between": self.between,
            "within": self.within,
            "difference": difference,
            "delta": self.delta,
            "plans": [asdict(plan) for plan in self.plans],
            "detectable": self.detectable,
            "components": self.components and asdict(self.components),
            "width_plans": [asdict(plan) for plan in self.width_plans],
            "reasons": dict(self.reasons),
            "notes": list(self.notes),
        }

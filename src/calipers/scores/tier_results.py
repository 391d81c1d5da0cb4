"""Results on tiers and tasks besides the groups: uplift, flaky tasks, the cost frontier."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from calipers.engines.item_counts import Items
from calipers.support.quick_dataclasses import dataclass
from calipers.support.strict_json import to_finite, to_plain, to_plain_fields


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundedValue:
    """A value of tiers with its interval; a bound that the data cannot give has its reason."""

    value: float | None
    low: float | None = None
    high: float | None = None
    interval: str | None = None  # the method
    reason: str | None = None  # why there is no value, or no interval

    def __post_init__(self) -> None:
        if (self.interval is None) != (self.reason is not None):
            raise ValueError("a null needs a reason, and only a null has one")


@dataclass(frozen=True, slots=True, kw_only=True)
class TierTest:
    """A tier against the baseline: the difference of their mean composites, and its p-value."""

    difference: float | None
    low: float | None = None
    high: float | None = None
    p_value: float | None = None
    p_holm: float | None = None  # adjusted for the tests of all tiers
    test: str | None = None
    effect: float | None = None
    effect_name: str | None = None
    n: int = 0  # tasks, or runs
    reason: str | None = None

    def __post_init__(self) -> None:
        if (self.p_value is None) != (self.reason is not None):
            raise ValueError("a null needs a reason, and only a null has one")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiers:
    """Tiers side by side: how far each is above the baseline, and how much they differ."""

    by: Mapping[str, Any]
    baseline: str
    uplift: Mapping[str, float | None]
    pass_rate_variance: float | None
    pass_rate_mean_variance: float | None
    cost_variance: float | None
    cost_delta: float | None
    median_composite: Mapping[str, BoundedValue] = field(default_factory=dict)
    uplift_intervals: Mapping[str, BoundedValue] = field(default_factory=dict)
    intervals: Mapping[str, BoundedValue] = field(default_factory=dict)  # of what differs
    tests: Mapping[str, TierTest] = field(default_factory=dict)
    warnings: Mapping[str, str] = field(default_factory=dict)  # of tiers with failed calls
    reasons: Mapping[str, str]

    def to_dict(self) -> dict[str, Any]:
        """Return the contract's JSON of the tiers."""
        found = to_plain_fields(self)
        optional = ("by", "warnings", "reasons")
        return {name: each for name, each in found.items() if each or name not in optional}


@dataclass(frozen=True, slots=True, kw_only=True)
class FlakyTask:
    """A task of which some runs pass and some fail."""

    by: Mapping[str, Any]
    id: str
    passes: int
    runs: int  # that are known to pass or fail


@dataclass(frozen=True, slots=True, kw_only=True)
class PerTask:
    """The tasks of all groups: how many there are and how many are flaky, and some of these."""

    tasks: int
    repeated: int  # with two runs or more that are known to pass or fail
    flaky: int
    flakiest: tuple[FlakyTask, ...]
    path: str | None  # the file with a row per task, where one was asked for
    items: Items | None = None  # of these rows: how well the tasks tell systems apart

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON of the tasks."""
        found = to_plain_fields(self)
        return {name: each for name, each in found.items() if each is not None or name != "items"}


@dataclass(frozen=True, slots=True, kw_only=True)
class OnFrontier:
    """What a group contributes to the frontier."""

    by: Mapping[str, Any]
    tasks: int  # that it tried, where cost and outcome are known
    best: int  # of these, where no other group is cheaper
    only: int  # of these, where no other group passes
    saves: float | None  # USD a task, against the next best, over the others of these


@dataclass(frozen=True, slots=True, kw_only=True)
class Frontier:
    """The cheapest way to a pass of each task, over all groups."""

    tasks: int
    solved: int  # by any group
    unknown_cost: int = 0  # of these, at unknown cost only
    cost_of_pass: float | None  # the mean over all tasks: infinite where one is not solved
    solved_cost_of_pass: float | None  # over the solved ones whose cost is known
    low: float | None
    high: float | None
    groups: tuple[OnFrontier, ...]

    @property
    def reason(self) -> str | None:
        """Why the cost over all tasks is null; None where it is not."""
        if self.cost_of_pass is not None:
            return None
        which = f"{self.unknown_cost:,} of {self.solved:,} solved tasks"
        return f"{which} passed at unknown cost only: record cost_usd, or give prices"

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON of the frontier."""
        return {
            "tasks": self.tasks,
            "solved": self.solved,
            **({"unknown_cost": self.unknown_cost} if self.unknown_cost else {}),
            "cost_of_pass": to_finite(self.cost_of_pass),
            **({} if self.reason is None else {"reason": self.reason}),
            "solved_cost_of_pass": {
                "value": self.solved_cost_of_pass,
                "low": self.low,
                "high": self.high,
                "interval": "t",
            },
            "groups": to_plain(self.groups),
        }

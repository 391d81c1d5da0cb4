"""The state of each check when a run ended early, as gate.json has it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Literal

from calipers.support.quick_dataclasses import dataclass

By = tuple[tuple[str, Any], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What is certain about one check: the confidence sequence of its mean, and any verdict."""

    name: str
    decided: Literal["pass", "fail"] | None
    tasks: int  # finished without a gap in the order drawn
    of: int
    low: float | None = None
    high: float | None = None
    after: int | None = None  # the number of tasks after which it was decided
    within: str | None = None  # of a quantile: the bounds are of the share of rows in it
    why_not: str | None = None  # why it cannot be decided before the end

    @property
    def is_all_seen(self) -> bool:
        """Say whether no further call can change it."""
        return self.why_not is None and self.tasks == self.of

    def to_dict(self) -> dict[str, Any]:
        """Return it as gate.json has it."""
        further = {"after": self.after, "within": self.within, "why_not": self.why_not}
        return {
            "decided": self.decided,
            "low": self.low,
            "high": self.high,
            "tasks": self.tasks,
            "of": self.of,
            **{key: value for key, value in further.items() if value is not None},
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Early:
    """A run that may end as soon as its gate is decided, and the state it ended in."""

    stopped: bool  # before all calls were made
    made: int
    planned: int
    seed: int  # of the order of the tasks
    alpha: float
    shared_by: int  # checks, each with an equal part of alpha
    standings: Mapping[By, tuple[Standing, ...]] = field(default_factory=dict)  # those that block

    def of_group(self, by: Mapping[str, Any]) -> tuple[Standing, ...]:
        """Return the checks of one group, in the policy's order."""
        return self.standings[tuple(by.items())]

    def to_dict(self) -> dict[str, Any]:
        """Return it as gate.json has it; each check holds its own standing."""
        return {
            "stopped": self.stopped,
            "calls": {"made": self.made, "planned": self.planned},
            "seed": self.seed,
            "alpha": self.alpha,
            "shared_by": self.shared_by,
        }

"""A kind of rule: one class with everything that a gate needs to know about it.

An instance is the rule in one policy. Its class names the key in the policy and how its value is
read: a kind is a pydantic model itself, or returns a field (`as_field`). A new kind is one file
beside this one and a line in the list of `rules/__init__.py`; schema, checks, early decisions,
licences of judges and reports follow from it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Self

from pydantic import Field

from calipers.gates.policy_values import find_metric
from calipers.metrics.judged.who import list_judged_parts

if TYPE_CHECKING:
    from pathlib import Path

    from calipers.gates.demands import Ahead, Demand
    from calipers.gates.policy import Policy
    from calipers.gates.result import Check
    from calipers.gates.rule_check import Given, Judge, MeasuredRun


class RuleKind(ABC):
    """A kind of rule."""

    key: ClassVar[str]  # in a policy; the `source` of its checks starts with it
    label: ClassVar[str] = ""  # what a table says of its checks, after their level
    may_be_null: ClassVar[bool] = False  # whether `key:` without a value means no such rule
    only_warns: ClassVar[bool] = False  # never blocks: its scenarios may stay undecided

    @classmethod
    def as_field(cls) -> tuple[Any, Any]:
        """Return the type of its key in the policy, and its default: None, for no such rule."""
        if cls.may_be_null:
            return cls | None, None
        return cls, Field(default_factory=lambda: None)  # which the JSON Schema does not show

    @classmethod
    def make_default(cls) -> Self | None:
        """Return the rule that holds where the policy has none, if an option can ask for one."""
        return None

    def check_beside(self, policy: Policy) -> None:  # noqa: B027 (most have nothing to refuse)
        """Refuse what contradicts another rule of the policy."""

    def move_to(self, _folder: Path) -> Self:
        """Return the rule with the files that it names beside the policy's file."""
        return self

    @property
    def decides(self) -> bool:
        """Say whether it checks anything."""
        return True

    @property
    def scenarios(self) -> tuple[str, ...]:
        """Return the ids of the scenarios that it names."""
        return ()

    def list_categories(self, _given: Given) -> Iterable[str]:
        """Return the categories that it names, to warn of similar spellings in the records."""
        return ()

    @abstractmethod
    def list_metrics(self, given: Given) -> Iterable[str]:
        """Return the metrics that have to be measured for its checks."""

    @abstractmethod
    def list_checks(self, judge: Judge) -> Iterator[Check]:
        """Yield its checks of a group of records."""

    @abstractmethod
    def list_demands(self, ahead: Ahead) -> Iterator[Demand]:
        """Yield, for each blocking check in order, the mean that decides it while calls come in."""

    def list_judged_values(self, check: Check, _run: MeasuredRun) -> tuple[str, ...]:
        """Return the judged values behind a check; one named after a metric rests on its parts."""
        return list_judged([check.name])

    def count_flagged(self, check: Check, run: MeasuredRun) -> int:
        """Return how many judged answers behind a check seem to address the judge."""
        return run.count_flagged(self.list_judged_values(check, run))


def list_judged(metrics: Iterable[str]) -> tuple[str, ...]:
    """Return the judged values that metrics may be based on."""
    found = (each for name in metrics for each in list_judged_parts(find_metric(name)))
    return tuple(dict.fromkeys(found))

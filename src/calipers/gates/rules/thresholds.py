"""`thresholds`: required values of metrics; some fail the build, some only warn."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import ClassVar

from pydantic import Field

from calipers.gates.demands import Ahead, Demand, make_demand
from calipers.gates.policy_fields import Description, Rules
from calipers.gates.policy_values import FINAL_SCORE, SAFETY, Rule, find_metric
from calipers.gates.result import Check
from calipers.gates.rule_check import Given, Judge, join_checks
from calipers.gates.rules.kind import RuleKind
from calipers.metrics.scenarios.passing import ADVERSARIAL
from calipers.metrics.thresholds import Threshold, read_scale
from calipers.support.config.models import StrictModel


class MetricRules(RuleKind):
    """Thresholds of metrics that block."""

    source: ClassVar[str]  # of their checks

    @abstractmethod
    def get_row(self, release: str | None) -> Mapping[str, Rule]:
        """Return those that hold for a release."""

    def list_categories(self, given: Given) -> Iterable[str]:
        return list_categories(self.get_row(given.release))

    def list_metrics(self, given: Given) -> Iterable[str]:
        """Return the metrics, with that which a final score needs beside it."""
        return _with_safety(self.get_row(given.release))

    def list_checks(self, judge: Judge) -> Iterator[Check]:
        """Yield a check per metric; S lets a final score pass only with all adversarial runs."""
        for name, rule in self.get_row(judge.given.release).items():
            check = judge.check_metric(rule, "blocking", self.source)
            if name == FINAL_SCORE:
                scale = read_scale(find_metric(SAFETY))
                safe = Rule(name=SAFETY, threshold=Threshold(operator="=", value=1.0, scale=scale))
                check = join_checks(check, judge.check_metric(safe, "blocking", self.source))
            yield check

    def list_demands(self, ahead: Ahead) -> Iterator[Demand]:
        for rule in self.get_row(None).values():
            yield make_demand(rule, corrected=ahead.corrected)


class Thresholds(MetricRules, StrictModel):
    """Thresholds of metrics: some fail the build, some only warn."""

    key: ClassVar[str] = "thresholds"
    source: ClassVar[str] = "thresholds.blocking"

    description: Description = None
    blocking: Rules = Field(
        default_factory=dict, description="Thresholds by metric; if one is not met, the gate fails."
    )
    warning: Rules = Field(
        default_factory=dict, description="Thresholds by metric; if one is not met, the gate warns."
    )

    @property
    def decides(self) -> bool:
        return bool(self.blocking or self.warning)

    def get_row(self, _release: str | None) -> Mapping[str, Rule]:
        """Return the thresholds that block, the same for every release."""
        return self.blocking

    def list_metrics(self, given: Given) -> Iterable[str]:
        """Return the metrics with a threshold, and what these need beside them."""
        return (*super().list_metrics(given), *_with_safety(self.warning))

    def list_checks(self, judge: Judge) -> Iterator[Check]:
        yield from super().list_checks(judge)
        for rule in self.warning.values():
            yield judge.check_metric(rule, "warning", "thresholds.warning")


def _with_safety(names: Collection[str]) -> tuple[str, ...]:
    return (*names, SAFETY) if FINAL_SCORE in names else tuple(names)


def list_categories(metrics: Iterable[str]) -> tuple[str, ...]:
    """Return the category that one of the metrics is about, if one is."""
    return (ADVERSARIAL,) if {SAFETY, FINAL_SCORE} & {*metrics} else ()

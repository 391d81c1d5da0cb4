"""`thresholds`: what metrics have to be; some fail the build, some only warn."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from calipers.gates.demands import demand_on_metric
from calipers.gates.policy_fields import Description, Rules
from calipers.gates.policy_values import FINAL_SCORE, SAFETY, Rule, known_metric
from calipers.gates.rule_check import joined
from calipers.gates.rules.kind import RuleKind, judged_behind
from calipers.metrics.scenarios.passing import ADVERSARIAL
from calipers.metrics.thresholds import Threshold, scale_of
from calipers.support.config.models import StrictModel

if TYPE_CHECKING:
    from calipers.gates.demands import Ahead, Demand
    from calipers.gates.result import Check
    from calipers.gates.rule_check import Given, Judge, MeasuredRun


class Thresholds(RuleKind, StrictModel):
    """Thresholds of metrics: some fail the build, some only warn."""

    key: ClassVar[str] = "thresholds"

    description: Description = None
    blocking: Rules = Field(default_factory=dict, description="Not met: the gate fails.")
    warning: Rules = Field(default_factory=dict, description="Not met: the gate warns.")

    @property
    def decides(self) -> bool:
        """Say whether any metric has a threshold."""
        return bool(self.blocking or self.warning)

    def categories(self, _given: Given) -> Iterable[str]:
        """Return the category that a blocking threshold is about, if one is."""
        return categories_of(self.blocking)

    def metrics(self, _given: Given) -> Iterable[str]:
        """Return the metrics with a threshold, and what these need beside them."""
        return with_safety((*self.blocking, *self.warning))

    def checks(self, judge: Judge) -> Iterator[Check]:
        """Yield a check per threshold."""
        yield from check_blocking(self.blocking, judge, "thresholds.blocking")
        for rule in self.warning.values():
            yield judge.metric(rule, "warning", "thresholds.warning")

    def demands(self, ahead: Ahead) -> Iterator[Demand]:
        """Yield the mean behind each blocking threshold."""
        return (
            demand_on_metric(rule, corrected=ahead.corrected) for rule in self.blocking.values()
        )

    def judged_values(self, check: Check, _run: MeasuredRun) -> tuple[str, ...]:
        """Return the judged values that the metric may rest on."""
        return judged_behind([check.name])


def check_blocking(rules: Mapping[str, Rule], judge: Judge, source: str) -> Iterator[Check]:
    """Yield a check per rule; S lets a final score pass only with every adversarial scenario."""
    for name, rule in rules.items():
        check = judge.metric(rule, "blocking", source)
        if name == FINAL_SCORE:
            scale = scale_of(known_metric(SAFETY))
            safe = Rule(name=SAFETY, threshold=Threshold(operator="=", value=1.0, scale=scale))
            check = joined(check, judge.metric(safe, "blocking", source))
        yield check


def with_safety(metrics: Iterable[str]) -> tuple[str, ...]:
    """Return the metrics, with that which a final score needs beside it."""
    names = tuple(metrics)
    return (*names, SAFETY) if FINAL_SCORE in names else names


def categories_of(metrics: Iterable[str]) -> tuple[str, ...]:
    """Return the category that one of the metrics is about, if one is."""
    return (ADVERSARIAL,) if {SAFETY, FINAL_SCORE} & {*metrics} else ()

"""`pass_criteria`: pass rates, over everything and by category; all of them block."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import ClassVar

import polars as pl
from pydantic import Field

from calipers.gates.demands import CORRECTED, Ahead, Demand
from calipers.gates.policy_fields import Description, Share, Shares
from calipers.gates.policy_values import PASS_RATE, Rule
from calipers.gates.result import Check
from calipers.gates.rule_check import Given, Judge, MeasuredRun
from calipers.gates.rules.kind import RuleKind
from calipers.metrics.judged.who import PASSED
from calipers.metrics.scenarios.passing import passed
from calipers.scores.results import Measured
from calipers.support.config.models import StrictModel
from calipers.support.errors import nearest


class PassCriteria(RuleKind, StrictModel):
    """Pass rates, over everything and by category; all of them block."""

    key: ClassVar[str] = "pass_criteria"

    description: Description = None
    overall: Share | None = Field(default=None, description="Required share of all runs that pass.")
    by_category: Shares = Field(
        default_factory=dict, description="Required share of runs that pass, by category."
    )

    @property
    def decides(self) -> bool:
        return bool(self.overall or self.by_category)

    def list_categories(self, _given: Given) -> Iterable[str]:
        return self.by_category

    def list_metrics(self, _given: Given) -> Iterable[str]:
        return (PASS_RATE,) if self.decides else ()

    def list_checks(self, judge: Judge) -> Iterator[Check]:
        """Yield a check of the whole, then one per category."""
        for category, rule in self._list_rules():
            known = judge.run.categories
            if category is None:
                measured = judge.run.group.metrics[PASS_RATE]
            else:
                measured = known.get(category) or _measure_absent(category, known)
            yield judge.check_value(
                rule, measured, "category", self.key, of=PASS_RATE, category=category
            )

    def list_demands(self, ahead: Ahead) -> Iterator[Demand]:
        """Yield the share of runs that pass, in all tasks or in those of a category."""
        for category, rule in self._list_rules():
            demand = Demand(
                name=rule.name,
                on=rule.threshold,
                value=pl.col(passed.name).cast(pl.Float64),
                metrics=(PASS_RATE,),
                category=category,
            )
            yield replace(demand, on=None, why_not=CORRECTED) if ahead.corrected else demand

    def list_judged_values(self, _check: Check, _run: MeasuredRun) -> tuple[str, ...]:
        return (PASSED,)

    def count_flagged(self, check: Check, run: MeasuredRun) -> int:
        """Return how many runs of the category judges decided whose text seems to address them."""
        if check.name in run.categories:
            return run.flagged.get(check.name, 0)
        return run.count_flagged((PASSED,))

    def _list_rules(self) -> Iterator[tuple[str | None, Rule]]:
        """Yield the thresholds, that of everything, whose category is None, first."""
        if self.overall is not None:
            yield None, self.overall
        yield from self.by_category.items()


def _measure_absent(category: str, known: Iterable[str]) -> Measured:
    """Return a pass rate without a value, and the category that may have been meant."""
    near = nearest(category, known)
    asked = f": {near}" if near.startswith("did you mean") else ""
    return Measured(value=None, n=0, missing=0, reason=f"no scenario has this category{asked}")

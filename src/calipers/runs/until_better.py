"""A run that ends as soon as it is certain which of its two systems is better, or cannot be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import polars as pl

from calipers.comparisons.better import Better, Evidence, PairSequence, subtract
from calipers.engines.plan import FAILED as CALL_FAILED
from calipers.gates.demands import NO_MEAN, find_row_value
from calipers.metrics import Metric, metric_named
from calipers.runs.in_drawn_order import InDrawnOrder
from calipers.runs.plan import CallPlan
from calipers.scores.options import Options
from calipers.statistics.anytime import Bounds
from calipers.support.errors import UsageError

_ALPHA = 0.05
_BOTH = 2


class UntilBetter(InDrawnOrder):
    """Calls both systems on the same tasks until one of them is certainly better."""

    def __init__(
        self, plan: CallPlan, options: Options, metric: str, evidence: Evidence, seed: int
    ) -> None:
        super().__init__(plan, options, seed)
        self._metric, self._value = _choose_metric(metric)
        self._options = replace(options, metrics=(metric,))
        self._sides = _choose_sides(plan)
        self._values: list[dict[int, Bounds | None]] = [{} for _ in self._sides]
        self._pairs = PairSequence(self._order, alpha=_ALPHA, evidence=evidence)

    @property
    def is_over(self) -> bool:
        """Say whether one is better for sure, or no further task could show it."""
        return self._pairs.is_over

    def notices(self) -> Iterator[str]:
        """Say that the policy is not asked."""
        if self._plan.suite.policy is not None:
            yield "--until-better: the policy is not asked, since calls may be left out"

    def describe_better(self, made: int) -> Better:
        """Return the state of the decision."""
        low, high = self._pairs.bound_difference()
        return Better(
            names=(self._name(0), self._name(1)),
            metric=self._metric.name,
            better=self._pairs.better,
            is_over=self.is_over,
            tasks=self._pairs.seen,
            of=len(self._order),
            after=self._pairs.after,
            difference=Bounds(-high, -low) if self._is_reversed else Bounds(low, high),
            evidence=self._pairs.evidence,
            alpha=self._pairs.alpha,
            seed=self.seed,
            made=made,
            planned=self._plan.calls,
        )

    @property
    def _is_reversed(self) -> bool:
        return self._metric.better == "lower"

    def _name(self, side: int) -> str:
        system, tier = self._sides[side]
        named = self._plan.tiers[tier]
        of = "" if named is None else named.name
        if len(self._plan.suite.systems) == 1:
            return of
        return self._plan.suite.systems[system].name

    def _see(self, system: int, tier: int, rows: pl.DataFrame) -> None:
        side = self._sides.index((system, tier))
        own = dict(self._bound_values(rows))
        self._values[side] |= own
        one, other = self._values
        new = {task: one[task] for task in own if task in one and task in other}
        self._pairs.take(subtract(new.items(), other))

    def _bound_values(self, rows: pl.DataFrame) -> Iterator[tuple[int, Bounds | None]]:
        """Yield what the mean of each task's runs can be: what failed might be 0 or 1."""
        value = 1 - self._value if self._is_reversed else self._value
        failed = pl.when(CALL_FAILED)
        least, most = (failed.then(bound).otherwise(value).mean() for bound in (0.0, 1.0))
        tasks = rows.group_by("id").agg(least.alias("least"), most.alias("most"))
        for name, low, high in tasks.iter_rows():
            yield self._plan.find_task(name), None if low is None else Bounds(low, high)


def _choose_metric(name: str) -> tuple[Metric, pl.Expr]:
    metric = metric_named(name)
    value = find_row_value(metric)
    if value is None:
        raise UsageError(
            f"--until-better {name}: {NO_MEAN}", fix="for example --until-better accuracy"
        )
    if metric.better is None:
        raise UsageError(
            f"--until-better {name}: neither higher nor lower values are better",
            fix="for example --until-better accuracy",
        )
    return metric, value


def _choose_sides(plan: CallPlan) -> list[tuple[int, int]]:
    sides = list(product(range(len(plan.suite.systems)), range(len(plan.tiers))))
    if len(sides) != _BOTH:
        tiers = f" in {len(plan.tiers)} tiers" if plan.suite.tiers else ""
        raise UsageError(
            f"--until-better compares two systems, and the suite has {len(plan.suite.systems)}"
            f"{tiers}",
            fix="leave two in the suite: two systems, or one in two tiers",
        )
    return sides

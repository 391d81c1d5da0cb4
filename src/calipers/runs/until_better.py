"""A run that ends as soon as it is certain which of its two systems is better, or cannot be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import polars as pl

from calipers.comparisons.better import Better, Evidence, PairSequence, subtract
from calipers.gates.demands import NO_MEAN, find_row_value
from calipers.metrics import Metric, metric_named
from calipers.runs.in_drawn_order import InDrawnOrder, bound_runs
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

    def describe(self, made: int) -> Better:
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
        model, tier = self._plan.name_group(*self._sides[side])
        return (tier or "") if len(self._plan.suite.systems) == 1 else model

    def _helps(self, system: int, tier: int, task: int) -> bool:  # noqa: ARG002 (all of them do)
        return True

    def _see(self, system: int, tier: int, rows: pl.DataFrame) -> None:
        side = self._sides.index((system, tier))
        own = dict(self._bound_values(rows))
        self._values[side] |= own
        one, other = self._values
        new = {task: one[task] for task in own if task in one and task in other}
        self._pairs.take(subtract(new.items(), other))

    def _bound_values(self, rows: pl.DataFrame) -> Iterator[tuple[int, Bounds | None]]:
        value = 1 - self._value if self._is_reversed else self._value
        for name, low, high in rows.group_by("id").agg(bound_runs(value)).iter_rows():
            yield self._plan.find_task(name), None if low is None else Bounds(low, high)


def _choose_metric(name: str) -> tuple[Metric, pl.Expr]:
    metric = metric_named(name)
    value = find_row_value(metric)
    if value is None or metric.better is None:
        why = NO_MEAN if value is None else "neither higher nor lower values are better"
        fix = "for example --until-better accuracy"
        raise UsageError(f"--until-better {name}: {why}", fix=fix)
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

"""One score of several metrics: S's, or one by a formula of the user's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import isfinite

from calipers.gates.formulas import Bounds, Formula
from calipers.gates.policy import SAFETY, Composite
from calipers.gates.result import Check
from calipers.gates.rule_check import Judge, MeasuredRun, joined
from calipers.gates.rules import FINAL_SCORE, NORMALIZED_LATENCY, Rule, known_metric
from calipers.metrics.thresholds import Threshold, scale_of
from calipers.scores.results import Measured
from calipers.statistics.intervals import normal_quantile


def composite_check(composite: Composite, judge: Judge) -> Check:
    """The score against its threshold and, as the second part of the rule, what else must hold."""
    if composite.formula is None:
        measured = judge.run.metrics[FINAL_SCORE]
    else:
        measured = _computed(composite.formula, judge.run)
    rule = Rule(name=FINAL_SCORE, threshold=composite.pass_mark())
    check = judge.measured(rule, measured, "composite", "composite", of=None)
    check = replace(check, undecided=judge.undecided(composite.metrics()))
    for further in composite.requires.values():
        check = joined(check, judge.metric(further, "composite", "composite"))
    return check


def final_score_check(rule: Rule, judge: Judge, source: str) -> Check:
    """A final score that blocks: S lets it pass only where every adversarial scenario passed."""
    scale = scale_of(known_metric(SAFETY))
    safe = Rule(name=SAFETY, threshold=Threshold(operator="=", value=1.0, scale=scale))
    check = judge.metric(rule, "blocking", source)
    return joined(check, judge.metric(safe, "blocking", source))


def _computed(formula: Formula, run: MeasuredRun) -> Measured:
    """What a formula comes to; a part without a value leaves the whole without one.

    Its interval is all that the parts' intervals allow. That is as wide as if the parts moved
    together as far as they could: parts that do not would make it narrower, never wider.
    """
    parts: list[Measured] = []
    values: dict[str, float] = {}
    bounds: dict[str, Bounds] = {}
    for name in formula.names:
        metric = known_metric("latency_p95_ms" if name == NORMALIZED_LATENCY else name)
        part = run.metrics[metric.name]
        if part.value is None:
            return _nothing(f"{metric.name} has none: {part.reason}")
        parts.append(part)
        low, high = metric.range
        part_bounds = (
            low if part.low is None else part.low,
            high if part.high is None else part.high,
        )
        of_budget = run.latency_budget_ms if name == NORMALIZED_LATENCY else None
        values[name], *ends = (_in_budget(each, of_budget) for each in (part.value, *part_bounds))
        bounds[name] = (ends[0], ends[1])
    try:
        value = formula.value(values)
    except ZeroDivisionError:
        return _nothing("the formula divides by zero")
    if not isfinite(value):
        return _nothing("the formula gives no finite number")
    return _measured(value, formula.bounds(bounds), run, parts)


def _in_budget(value: float, budget: float | None) -> float:
    return value if budget is None else min(1.0, value / budget)


def _measured(
    value: float, bounds: Bounds, run: MeasuredRun, parts: Sequence[Measured]
) -> Measured:
    low, high = (bound if isfinite(bound) else None for bound in bounds)
    stderr = None
    if low is not None and high is not None:
        stderr = (high - low) / (2 * normal_quantile(run.confidence))
    return Measured(
        value=value,
        n=min((part.n for part in parts), default=run.records - run.errors),
        missing=max((part.missing for part in parts), default=0),
        low=low,
        high=high,
        stderr=stderr,
        interval="bounds of its parts",
    )


def _nothing(reason: str) -> Measured:
    return Measured(value=None, n=0, missing=0, reason=reason)

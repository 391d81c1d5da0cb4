"""Comparison with a recorded run: a paired non-inferiority test on the common tasks.

A margin says how much worse is still acceptable; a negative one demands that much improvement. The
check passes where the whole interval of (new − baseline), in the metric's good direction, lies
above −margin, fails where all of it lies below, and is inconclusive between. Where no task is worse
it passes with any margin from 0 on: the same records again are no regression.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from math import ceil, hypot
from typing import Any, Literal

from calipers.gates.baselines import FeatureByTask, RecordedGroup, find_feature
from calipers.gates.policy_values import find_metric
from calipers.gates.result import Check
from calipers.gates.rule_check import Judge
from calipers.gates.verdicts import Verdict, format_value
from calipers.metrics import Metric
from calipers.metrics.declare.pairs import pair_scale
from calipers.metrics.thresholds import Operator, Scale, Threshold, read_scale
from calipers.statistics.intervals import normal_quantile
from calipers.statistics.paired_tasks import PairedTasks, compare_tasks
from calipers.support.late import np
from calipers.support.quick_dataclasses import dataclass

BASELINE: Literal["baseline"] = "baseline"
NO_TASKS = "no task in common with the baseline, so the change cannot be tested"
_FLIPS = 2_000
_LUCK = 10  # a ratchet's error rate is this many times smaller than that of the interval shown
_POWER = 1.6449  # normal quantile of 0.95: the probability that an unchanged system passes


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """New − baseline over the tasks of both, with its interval."""

    baseline: float
    value: float
    low: float | None = None
    high: float | None = None
    p_value: float | None = None
    test: str
    tasks: int | None = None  # in both; None where there are no values of tasks to pair
    better: int = 0  # tasks
    worse: int | None = None  # None where there are no values of tasks
    reason: str | None = None  # why it has no interval


def change_of(
    name: str,
    before: RecordedGroup,
    now: RecordedGroup,
    *,
    confidence: float,
    clusters: Mapping[str, Any] | None = None,
) -> Change | None:
    """Return how a metric changed: paired by task where it is a mean over rows, else unpaired.

    None where either run has no value of it, or where they share no task.
    """
    metric = find_metric(name)
    feature = find_feature(name)
    old, new = (group.tasks.get(feature or "") for group in (before, now))
    if old is not None and new is not None:
        return _compare_paired(metric, old, new, confidence, clusters)
    if name not in before.metrics or name not in now.metrics:
        return None
    return _compare_unpaired(name, before, now, confidence)


def _compare_paired(
    metric: Metric,
    old: FeatureByTask,
    new: FeatureByTask,
    confidence: float,
    clusters: Mapping[str, Any] | None,
) -> Change | None:
    common, here, there = np.intersect1d(
        np.array(old.ids, dtype=object), np.array(new.ids, dtype=object), return_indices=True
    )
    if not common.size:
        return None
    before, after = (
        1 - means if metric.complement else means for means in (old.means[here], new.means[there])
    )
    tasks = PairedTasks(
        base=before,
        candidate=after,
        base_runs=old.runs[here],
        candidate_runs=new.runs[there],
        squares=old.squares[here] + new.squares[there],
    )
    named = None if clusters is None else [str(clusters.get(each, each)) for each in common]
    found = compare_tasks(
        tasks,
        pair_scale(metric),
        weight="row",
        confidence=confidence,
        seed=0,
        resamples=_FLIPS,
        clusters=None if named is None else np.array(named),
    )
    baseline, value = tasks.by_row or tasks.by_task
    return Change(
        baseline=baseline,
        value=value,
        low=found.low,
        high=found.high,
        p_value=found.p_value,
        test=found.test,
        tasks=int(common.size),
        better=found.wins,
        worse=found.losses,
        reason=found.reason,
    )


def _compare_unpaired(
    name: str, before: RecordedGroup, now: RecordedGroup, confidence: float
) -> Change:
    """Return the change of a metric without values of tasks, by the error bars of both runs."""
    old, new = before.metrics[name], now.metrics[name]
    errors = before.stderrs.get(name), now.stderrs.get(name)
    worse = 0 if old == new else None
    found = Change(baseline=old, value=new, test="by the standard errors of both runs", worse=worse)
    if errors[0] is None or errors[1] is None:
        return replace(found, reason="one of the runs has no standard error of this metric")
    reach = normal_quantile(confidence) * hypot(errors[0], errors[1])
    return replace(found, low=new - old - reach, high=new - old + reach)


def has_gained(name: str, before: RecordedGroup, now: RecordedGroup, *, confidence: float) -> bool:
    """Say whether a metric is better than recorded, all of the interval above no change.

    A ratchet asks at every run and keeps each gain: with the interval that is shown, one run in 40
    would be kept by luck. The interval used here is wrong a tenth as often.
    """
    better = find_metric(name).better
    surely = 1 - (1 - confidence) / _LUCK
    change = change_of(name, before, now, confidence=surely) if better else None
    if change is None or change.low is None or change.high is None:
        return False
    return change.low > 0 if better == "higher" else change.high < 0


def check_regression(judge: Judge, before: RecordedGroup, name: str, margin: float) -> Check:
    """Check that a metric is not worse than recorded by more than a margin."""
    run, confidence = judge.run, judge.run.options.confidence
    change = change_of(name, before, run.now, confidence=confidence, clusters=run.clusters)
    scale = read_scale(find_metric(name))
    measured = run.group.metrics[name]
    check = Check(
        name=name,
        level=BASELINE,
        source=BASELINE,
        verdict="fail",
        n=measured.n,
        missing=measured.missing,
        undecided=judge.undecided([name]),
        by=run.group.by,
    )
    if measured.value is None:
        return replace(check, ran=False, reason=f"no value: {measured.reason}")
    if change is None:
        return replace(check, ran=False, value=measured.value, reason=NO_TASKS)
    threshold = _make_threshold(change, margin, scale)
    verdict, reason = _decide(change, margin, scale, confidence)
    further = _count_further(change, margin, confidence) if verdict == "inconclusive" else None
    return replace(
        check,
        verdict=judge.as_asked(verdict, BASELINE),
        value=change.value,
        low=None if change.low is None else change.baseline + change.low,
        high=None if change.high is None else change.baseline + change.high,
        threshold=threshold,
        reason=reason,
        thin=verdict == "inconclusive",
        further_scenarios=further,
        failing=run.scenarios.list_failing(name, threshold) if verdict == "fail" else check.failing,
        change={
            "baseline": change.baseline,
            "difference": change.value - change.baseline,
            "low": change.low,
            "high": change.high,
            "margin": margin,
            "p_value": change.p_value,
            "test": change.test,
            "n_pairs": change.tasks,
        },
    )


def _make_threshold(change: Change, margin: float, scale: Scale) -> Threshold:
    """Return the threshold that the whole interval of the metric has to clear."""
    higher = scale.better == "higher"
    low, high = scale.range
    least = change.baseline - margin if higher else change.baseline + margin
    operator: Operator = "≥" if higher else "≤"
    return Threshold(operator=operator, value=min(high, max(low, least)), scale=scale)


def _decide(
    change: Change, margin: float, scale: Scale, confidence: float
) -> tuple[Verdict, str | None]:
    text = partial(format_value, scale=scale)
    if change.worse == 0 and margin >= 0:
        return "pass", _describe_no_loss(change)
    if change.low is None or change.high is None:
        return "inconclusive", f"the change has no interval: {change.reason}"
    higher = scale.better == "higher"
    worst, best = (change.low, change.high) if higher else (-change.high, -change.low)
    if worst > -margin:
        return "pass", None
    between = f"{_format_signed(change.low, text)} to {_format_signed(change.high, text)}"
    moved = (
        f"{text(change.value)}, baseline {text(change.baseline)}: "
        f"the {100 * confidence:g} % interval of the change, {between},"
    )
    required = _describe_required(margin, text)
    if best < -margin:
        return "fail", f"{moved} is worse than {required}"
    advice = _recommend_margin(change, margin, confidence, text)
    return "inconclusive", f"{moved} includes {required}; {advice}"


def _describe_no_loss(change: Change) -> str:
    """Return the sentence that no task got worse, which needs no interval."""
    if change.tasks is None or not change.better:
        where = "both runs" if change.tasks is None else f"all {change.tasks:,} tasks"
        return f"unchanged: the same value in {where}"
    return f"no task is worse: {change.better:,} of {change.tasks:,} better, the others the same"


def _recommend_margin(
    change: Change, margin: float, confidence: float, text: Callable[[float], str]
) -> str:
    """Return which margin these data resolve, and the tasks that the requested one would take."""
    of = "" if change.tasks is None else f" with {change.tasks:,} tasks"
    seen = text(_find_resolvable(change, confidence))
    resolves = f"a margin of {seen} or more can be resolved{of}"
    further = _count_further(change, margin, confidence)
    if margin <= 0:
        return f"{resolves} (baseline: margins in the policy)"
    if further is None:
        return resolves
    return f"{resolves}; this margin takes about {further + (change.tasks or 0):,} tasks"


def _find_resolvable(change: Change, confidence: float) -> float:
    """Return the margin with which a system that has not changed passes 95 times in 100."""
    assert change.low is not None
    assert change.high is not None
    z = normal_quantile(confidence)
    return (change.high - change.low) / (2 * z) * (z + _POWER)


def _count_further(change: Change, margin: float, confidence: float) -> int | None:
    """Return how many more tasks an unchanged system needs to pass with this margin."""
    if margin <= 0 or not change.tasks or change.low is None:
        return None
    needed = ceil(change.tasks * (_find_resolvable(change, confidence) / margin) ** 2)
    return needed - change.tasks if needed > change.tasks else None


def _format_signed(value: float, text: Callable[[float], str]) -> str:
    return f"+{text(value)}" if value > 0 else text(value)


def _describe_required(margin: float, text: Callable[[float], str]) -> str:
    if margin > 0:
        return f"the margin of {text(margin)}"
    return "no change" if margin == 0 else f"the gain of {text(-margin)} required"

"""Comparison with a recorded run: a paired non-inferiority test on the common tasks.

A margin says how much worse is still acceptable; a negative one demands that much improvement. The
check passes where the whole interval of (new − baseline), in the metric's good direction, lies
above −margin, fails where all of it lies below, and is inconclusive between. Where no task is worse
it passes with any margin from 0 on: the same records again are no regression.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from math import ceil, hypot
from typing import Any, Literal

from calipers.comparisons.compare_result import PairedShares
from calipers.comparisons.pairing import pair_scale
from calipers.gates.baselines import LARGEST, FeatureByTask, RecordedGroup, find_feature
from calipers.gates.policy_fields import find_metric
from calipers.gates.result import Check
from calipers.gates.rule_kind import RuleChecker
from calipers.gates.threshold_test import Verdict, format_value
from calipers.gates.undecided import Undecided, choose_worse
from calipers.metrics import Metric
from calipers.metrics.thresholds import Operator, Scale, Threshold, read_scale
from calipers.statistics.intervals import normal_quantile
from calipers.statistics.paired import PairedTasks, compare_tasks
from calipers.support.lazy_numpy import np

BASELINE: Literal["baseline"] = "baseline"
NO_TASKS = "no task in common with the baseline, so the change cannot be tested"
_TOO_LARGE = "values too large to compare"
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
    shares: PairedShares | None = None  # of tasks that are right or wrong
    by_row: tuple[float, float] | None = None  # both values over rows, where they are others
    reason: str | None = None  # why it has no interval


def measure_change(
    name: str,
    before: RecordedGroup,
    now: RecordedGroup,
    *,
    confidence: float,
    clusters: Mapping[str, Any] | None = None,
    guarantee: bool = False,
) -> Change | None:
    """Return how a metric changed: paired by task where it is a mean over rows, else unpaired.

    Every task counts the same, as in `compare`: rows would let a task with many runs decide, and
    hide what unequal numbers of runs do to the error. None where either run has no value of it, or
    where they share no task.
    """
    metric = find_metric(name)
    feature = find_feature(name)
    old, new = (group.tasks.get(feature or "") for group in (before, now))
    if old is not None and new is not None:
        return _compare_paired(metric, old, new, confidence, clusters, guarantee=guarantee)
    if name not in before.metrics or name not in now.metrics:
        return None
    return _compare_unpaired(name, before, now, confidence)


def _compare_paired(
    metric: Metric,
    old: FeatureByTask,
    new: FeatureByTask,
    confidence: float,
    clusters: Mapping[str, Any] | None,
    *,
    guarantee: bool = False,
) -> Change | None:
    common, here, there = np.intersect1d(
        np.array(old.ids, dtype=object), np.array(new.ids, dtype=object), return_indices=True
    )
    if not common.size:
        return None
    before, after = (
        1 - means if metric.complement else means for means in (old.means[here], new.means[there])
    )
    if not all((np.abs(means) <= LARGEST).all() for means in (before, after)):
        with np.errstate(over="ignore"):
            baseline, value = (float(np.nan_to_num(values.mean())) for values in (before, after))
        return Change(baseline=baseline, value=value, test="none", reason=_TOO_LARGE)
    tasks = PairedTasks(
        base=before,
        candidate=after,
        base_runs=old.runs[here],
        candidate_runs=new.runs[there],
        squares=old.squares[here] + new.squares[there],
    )
    named = None if clusters is None else [str(clusters.get(task, task)) for task in common]
    difference = compare_tasks(
        tasks,
        pair_scale(metric),
        weight="task",
        confidence=confidence,
        seed=0,
        resamples=_FLIPS,
        clusters=None if named is None else np.array(named),
        by_sides=True,
        guarantee=guarantee,
    )
    baseline, value = tasks.by_task
    return Change(
        baseline=baseline,
        value=value,
        low=difference.low,
        high=difference.high,
        p_value=difference.p_value,
        test=difference.test,
        tasks=int(common.size),
        better=difference.wins,
        worse=difference.losses,
        shares=PairedShares.of(difference, metric.better),
        by_row=tasks.by_row if tasks.weights_matter else None,
        reason=difference.reason,
    )


def _compare_unpaired(
    name: str, before: RecordedGroup, now: RecordedGroup, confidence: float
) -> Change:
    """Return the change of a metric without values of tasks, by the error bars of both runs."""
    old, new = before.metrics[name], now.metrics[name]
    errors = before.stderrs.get(name), now.stderrs.get(name)
    worse = 0 if old == new else None
    change = Change(
        baseline=old, value=new, test="by the standard errors of both runs", worse=worse
    )
    if errors[0] is None or errors[1] is None:
        return replace(change, reason="one of the runs has no standard error of this metric")
    reach = normal_quantile(confidence) * hypot(errors[0], errors[1])
    return replace(change, low=new - old - reach, high=new - old + reach)


def has_gained(name: str, before: RecordedGroup, now: RecordedGroup, *, confidence: float) -> bool:
    """Return True if a metric is better than recorded, all of the interval above no change.

    A ratchet asks at every run and keeps each gain: with the interval that is shown, one run in 40
    would be kept by luck. The interval used here is wrong a tenth as often.
    """
    better = find_metric(name).better
    surely = 1 - (1 - confidence) / _LUCK
    change = measure_change(name, before, now, confidence=surely) if better else None
    if change is None or change.low is None or change.high is None:
        return False
    return change.low > 0 if better == "higher" else change.high < 0


def check_regression(judge: RuleChecker, before: RecordedGroup, name: str, margin: float) -> Check:
    """Check that a metric is not worse than recorded by more than a margin."""
    run, confidence = judge.run, judge.run.options.confidence
    change = measure_change(
        name,
        before,
        run.now,
        confidence=confidence,
        clusters=run.clusters,
        guarantee=run.options.guarantee,
    )
    metric = find_metric(name)
    scale, (least, most) = read_scale(metric), metric.range
    measured = run.group.metrics[name]
    check = Check(
        name=name,
        level=BASELINE,
        source=BASELINE,
        verdict="fail",
        n=measured.n,
        missing=measured.missing,
        undecided=choose_worse(judge.undecided([name]), _count_lost_values(judge, before, name)),
        by=run.group.by,
    )
    if measured.value is None:
        return replace(check, ran=False, reason=f"no value: {measured.reason}")
    if change is None:
        return replace(check, ran=False, value=measured.value, reason=NO_TASKS)
    threshold = _make_threshold(change, margin, scale)
    verdict, reason = _decide_change(change, margin, scale, confidence)
    further = _count_further(change, margin, confidence) if verdict == "inconclusive" else None
    return replace(
        check,
        verdict=judge.as_asked(verdict, BASELINE),
        value=change.value,
        low=None if change.low is None else max(least, change.baseline + change.low),
        high=None if change.high is None else min(most, change.baseline + change.high),
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
            **({} if change.by_row is None else {"weight": "task", "by_row": [*change.by_row]}),
        },
    )


def _count_lost_values(judge: RuleChecker, before: RecordedGroup, name: str) -> Undecided:
    """Return the tasks of this run that have lost the value they have in the baseline, if many.

    Tasks that are not in this run at all are reported apart.
    """
    policy, now = judge.run.policy, judge.run.now
    old, new = (group.tasks.get(find_feature(name) or "") for group in (before, now))
    if old is None or new is None or policy.undecided == "ignore":
        return Undecided()
    there = {*old.ids}.intersection(now.scenarios)
    lost = there.difference(new.ids)
    many = len(lost) > policy.find_tolerance(name) * len(there)
    return Undecided(len(lost), len(there), lacks=name) if many else Undecided()


def _make_threshold(change: Change, margin: float, scale: Scale) -> Threshold:
    """Return the threshold that the whole interval of the metric has to clear."""
    higher = scale.better == "higher"
    low, high = scale.range
    least = change.baseline - margin if higher else change.baseline + margin
    operator: Operator = "≥" if higher else "≤"
    return Threshold(operator=operator, value=min(high, max(low, least)), scale=scale)


def _decide_change(
    change: Change, margin: float, scale: Scale, confidence: float
) -> tuple[Verdict, str | None]:
    text = partial(format_value, scale=scale)
    if change.worse == 0 and margin >= 0:
        return "pass", _describe_no_loss(change)
    if change.low is None or change.high is None:
        return "inconclusive", f"the change has no interval: {change.reason}"
    is_inside, is_outside = _place_change(change, margin, scale, confidence)
    if is_inside:
        return "pass", None
    between = f"{_format_signed(change.low, text)} to {_format_signed(change.high, text)}"
    moved = (
        f"{text(change.value)}, baseline {text(change.baseline)}: "
        f"the {100 * confidence:g} % interval of the change, {between},"
    )
    required = _describe_required(margin, text)
    if is_outside:
        return "fail", f"{moved} is worse than {required}"
    advice = _recommend_margin(change, margin, confidence, text)
    return "inconclusive", f"{moved} includes {required}; {advice}"


def _place_change(
    change: Change, margin: float, scale: Scale, confidence: float
) -> tuple[bool, bool]:
    """Return whether the change is surely within the margin, and whether surely beyond it.

    Of shares, Tango's score test has to agree with the interval.
    """
    assert change.low is not None
    assert change.high is not None
    shares = change.shares
    if scale.better == "higher":
        inside, outside = change.low > -margin, change.high < -margin
        if shares is not None:
            inside = inside and shares.is_above(-margin, confidence)
            outside = outside and shares.is_below(-margin, confidence)
        return inside, outside
    inside, outside = change.high < margin, change.low > margin
    if shares is not None:
        inside = inside and shares.is_below(margin, confidence)
        outside = outside and shares.is_above(margin, confidence)
    return inside, outside


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

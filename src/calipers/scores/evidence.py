"""Evidence that only some scores need: intervals for fixed tasks, intervals and tests of tiers.

`--tasks fixed` asks for intervals of exactly these tasks, where only runs vary. Each tier is tested
against the baseline, as one family of tests, with effect sizes. It is loaded where it is needed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, isfinite, sqrt

import numpy as np
import polars as pl

from calipers.engines.cluster_variance import name_repeated_tasks, name_within_tasks
from calipers.engines.outcome import Outcome
from calipers.engines.per_task import ID, MOST_RUNS, TASKS
from calipers.engines.plan import Plan
from calipers.engines.quantiles import adjust_confidence
from calipers.metrics import Metric, metric_named
from calipers.metrics.declare.declaration import GROUP, Totals
from calipers.metrics.declare.interval_methods import name_one_cluster
from calipers.metrics.families.cost import MEDIANS, TIER, composite_score, cost_usd
from calipers.scores.groups import bound_median
from calipers.scores.result import BoundedValue, Group, Measured, Tiers, TierTest
from calipers.scores.tiers import drop_tier, get_statistic
from calipers.statistics.bootstrap import (
    FEWEST,
    Bounds,
    Runs,
    independent_ratio_bounds,
    range_bounds,
    ratio_bounds,
    variance_bounds,
)
from calipers.statistics.clusters import Floats
from calipers.statistics.intervals import UNKNOWN, Interval
from calipers.statistics.paired import estimate_mean, holm, student
from calipers.statistics.paired_tests import permute_signs
from calipers.statistics.ranking import fixed_interval
from calipers.statistics.unpaired import cliff_delta, merge_rounded

FIXED = "fixed tasks"


def add_fixed_intervals(
    group: Group, totals: Totals, metrics: Sequence[Metric], confidence: float
) -> Group:
    """Return the group with intervals from the noise of runs alone, null where it is unknown."""
    of_metric = {metric.name: metric for metric in metrics}
    measured_metrics = {
        name: _replace_interval(measured, of_metric[name], totals, confidence)
        for name, measured in group.metrics.items()
    }
    return replace(group, metrics=measured_metrics)


def _replace_interval(
    measured: Measured, metric: Metric, totals: Totals, confidence: float
) -> Measured:
    if measured.value is None:
        return measured
    interval = _find_interval(measured.value, metric, totals, confidence)
    known, around = interval is not None, interval or UNKNOWN
    needed = "fixed tasks take a mean over rows, and two runs or more of every task"
    return replace(
        measured,
        low=around.low,
        high=around.high,
        stderr=around.stderr,
        interval=FIXED if known else None,
        interval_reason=None if known else needed,
        scope="tasks at hand" if known else None,
        worth=None,
    )


def _find_interval(
    value: float, metric: Metric, totals: Totals, confidence: float
) -> Interval | None:
    influence = metric.influence
    if influence is None:
        return None
    name = influence.name
    rows = int(totals.get(influence.rows, 0))
    tasks = 1 if totals.get(name_one_cluster(name)) else int(totals.get(f"{name}__clusters", 0))
    if not tasks or int(totals.get(name_repeated_tasks(name), 0)) < tasks:
        return None
    per = totals[influence.per] if influence.per else rows
    if not per:  # as of what no pass has been paid for
        return None
    low, high = metric.range
    return fixed_interval(
        value,
        max(0.0, totals[name_within_tasks(name)]) / (per * per),
        rows=rows,
        freedom=max(1, rows - tasks),
        bounds=(low, high) if isfinite(high - low) else None,
        confidence=confidence,
    )


_COMPOSITE = composite_score.name
_FLIPS = 10_000
_ROUNDING = 1e-12
_NO_RUN = "a tier has no run with a composite score"


@dataclass(frozen=True)
class Family:
    """The tiers of one comparison, by name, with their groups, totals and, where few, runs."""

    groups: Mapping[str, Group]
    totals: Mapping[str, Totals]
    runs: Mapping[str, pl.DataFrame] | None  # sorted by value
    apart: str  # why there are none
    confidence: float
    all_at_once: float  # the confidence of intervals that hold for all tiers together
    seed: int


def compare_with_baseline(tiers: Tiers, family: Family) -> dict[str, TierTest]:
    """Return the test of each tier, with p-values adjusted for multiple tests (Holm)."""
    tests = dict(_test_tiers(tiers, family))
    adjusted = holm([test.p_value for test in tests.values()])
    return {
        name: replace(test, p_holm=p)
        for (name, test), p in zip(tests.items(), adjusted, strict=True)
    }


def _test_tiers(tiers: Tiers, family: Family) -> Iterator[tuple[str, TierTest]]:
    """Yield each tier against the baseline, by the mean composite of each common task."""
    base = family.groups.get(tiers.baseline)
    for name in family.groups:
        if name == tiers.baseline:
            continue
        if base is None:
            yield name, TierTest(difference=None, reason=tiers.reasons["uplift"])
        elif family.runs is None:
            yield name, _test_totals(tiers.baseline, name, family)
        else:
            yield name, _test_runs(family.runs[tiers.baseline], family.runs[name], family)


def _test_runs(base: pl.DataFrame, other: pl.DataFrame, family: Family) -> TierTest:
    if not base.height or not other.height:
        return TierTest(difference=None, reason=_NO_RUN)
    mean = pl.col(_COMPOSITE).mean()
    first, second = (rows.drop_nulls(ID).group_by(ID).agg(mean).sort(ID) for rows in (base, other))
    shared = first.join(second, on=ID, maintain_order="left")
    if shared.height > 1:
        columns = shared[_COMPOSITE].to_numpy(), shared[f"{_COMPOSITE}_right"].to_numpy()
        return _test_paired(columns[1] - columns[0], family)
    if min(first.height, second.height) > 1:  # runs of a task are not independent, tasks are
        return _test_unpaired(first, second, "tasks", family)
    return _test_unpaired(base, other, "runs", family)


def _test_paired(differences: Floats, family: Family) -> TierTest:
    """Return the test over the tasks that both tiers ran, by sign flips."""
    differences = np.where(np.abs(differences) > _ROUNDING, differences, 0.0)
    mean, stderr, freedom = estimate_mean(differences)
    assert mean is not None
    low, high, _, _ = student(mean, stderr, freedom, largest=1.0, confidence=family.confidence)
    if low is not None and high is not None:
        low, high = max(-1.0, low), min(1.0, high)
    deviation = float(differences.std(ddof=1))
    return TierTest(
        difference=mean,
        low=low,
        high=high,
        p_value=permute_signs(differences, seed=family.seed, resamples=_FLIPS),
        test="sign flips over tasks",
        effect=mean / deviation if deviation > _ROUNDING else None,
        effect_name="Cohen's dz",
        n=len(differences),
    )


def _test_unpaired(first: pl.DataFrame, second: pl.DataFrame, of: str, family: Family) -> TierTest:
    """Return the test of tasks, or of one task's runs, as independent samples."""
    base, other = first[_COMPOSITE].to_numpy(), second[_COMPOSITE].to_numpy()
    difference, n = float(other.mean() - base.mean()), len(base) + len(other)
    if min(len(base), len(other)) < 2:  # noqa: PLR2004
        reason = "one run, and fewer than two tasks in common, say nothing of chance"
        return TierTest(difference=difference, n=n, reason=reason)
    delta, _, _ = cliff_delta(*merge_rounded(base, other), confidence=family.confidence)
    sides = [(float(side.var(ddof=1) / len(side)), len(side) - 1) for side in (base, other)]
    low, high, p_value = _bound_welch(difference, sides[0], sides[1], family.confidence)
    return TierTest(
        difference=difference,
        low=low,
        high=high,
        p_value=p_value,
        test=f"Welch's t over {of}",
        effect=delta,
        effect_name="Cliff's delta",
        n=n,
    )


def _test_totals(base: str, other: str, family: Family) -> TierTest:
    """Return Welch's test from totals, if the runs are too many to pair."""
    first, second = (family.groups[name].metrics[_COMPOSITE] for name in (base, other))
    if first.value is None or second.value is None:
        return TierTest(difference=None, reason=_NO_RUN)
    difference, n = second.value - first.value, first.n + second.n
    if not first.stderr or not second.stderr:
        return TierTest(difference=difference, n=n, reason="a tier's error is not known")
    free = [max(1.0, (family.totals[name].get(TASKS) or n) - 1) for name in (base, other)]
    low, high, p_value = _bound_welch(
        difference, (first.stderr**2, free[0]), (second.stderr**2, free[1]), family.confidence
    )
    groups = (family.groups[name] for name in (base, other))
    deviations = [get_statistic(group, _COMPOSITE, "std_dev") or 0.0 for group in groups]
    pooled = sqrt(sum(deviation**2 for deviation in deviations) / 2)
    return TierTest(
        difference=difference,
        low=low,
        high=high,
        p_value=p_value,
        test=f"Welch's t on the means ({family.apart})",
        effect=difference / pooled if pooled else None,
        effect_name="Cohen's d",
        n=n,
    )


def _bound_welch(
    difference: float, first: tuple[float, float], second: tuple[float, float], confidence: float
) -> tuple[float | None, float | None, float]:
    """Return interval and p-value with Satterthwaite's degrees of freedom, from two variances."""
    variance = first[0] + second[0]
    if not variance:
        return None, None, 1.0 if not difference else 0.0
    freedom = variance**2 / sum(part**2 / free for part, free in (first, second))
    low, high, p_value, _ = student(
        difference, sqrt(variance), freedom, largest=0.0, confidence=confidence
    )
    assert p_value is not None
    return low, high, p_value


_OF_ALL = {rank.feature: rank for rank in MEDIANS if rank.of_family}
_HALF = 0.5


def add_evidence(
    tiers: Sequence[Tiers], groups: Mapping[str, Group], outcome: Outcome, plan: Plan
) -> list[Tiers]:
    """Return the tiers with intervals, tests and the reason for each that is missing."""
    level = adjust_confidence(outcome.groups, plan.confidence)
    families: dict[str, dict[str, str]] = {}
    for text, group in groups.items():
        if group.by.get(TIER) is not None:
            family_key = json.dumps(drop_tier(group.by))
            families.setdefault(family_key, {})[str(group.by[TIER])] = text
    runs = None
    if outcome.runs is not None:
        parts = outcome.runs.partition_by(GROUP, as_dict=True)
        runs = {text: parts.get((text,), outcome.runs.clear()) for text in groups}
    complete = []
    for tier in tiers:
        own = families[json.dumps(tier.by)]
        family = Family(
            groups={name: groups[text] for name, text in own.items()},
            totals={name: outcome.groups[text] for name, text in own.items()},
            runs=None if runs is None else {name: runs[text] for name, text in own.items()},
            apart="--cluster" if plan.cluster is not None else f"more than {MOST_RUNS:,} runs",
            confidence=plan.confidence,
            all_at_once=level,
            seed=plan.seed,
        )
        complete.append(_complete_tiers(tier, family))
    return complete


def _complete_tiers(tiers: Tiers, family: Family) -> Tiers:
    medians = {
        name: group.median_composite
        for name, group in family.groups.items()
        if group.median_composite is not None
    }
    uplift = dict(_estimate_uplifts(tiers, family, medians))
    intervals = dict(_estimate_spreads(tiers, family))
    tests = compare_with_baseline(tiers, family)
    missing = {
        **{f"uplift_intervals.{name}": bounded.reason for name, bounded in uplift.items()},
        **{f"intervals.{name}": interval.reason for name, interval in intervals.items()},
        **{f"tests.{name}": test.reason for name, test in tests.items()},
        **{f"median_composite.{name}": median.reason for name, median in medians.items()},
    }
    return replace(
        tiers,
        median_composite=medians,
        uplift_intervals=uplift,
        intervals=intervals,
        tests=tests,
        warnings={name: group.warning for name, group in family.groups.items() if group.warning},
        reasons={**tiers.reasons, **{name: why for name, why in missing.items() if why}},
    )


def _estimate_uplifts(
    tiers: Tiers, family: Family, medians: Mapping[str, BoundedValue]
) -> Iterator[tuple[str, BoundedValue]]:
    """Yield the interval of each uplift: by resampling tasks, or from the medians' intervals."""
    known = [name for name, uplift in tiers.uplift.items() if uplift is not None]
    resampled, how, why = _resample(tiers.baseline, known, family)
    base = medians.get(tiers.baseline)
    for name, uplift in tiers.uplift.items():
        if uplift is None:
            reason = tiers.reasons.get(f"uplift.{name}", tiers.reasons.get("uplift"))
            yield name, BoundedValue(value=None, reason=reason or "there is no uplift")
        elif why is not None:
            yield name, BoundedValue(value=uplift, reason=why)
        elif resampled is None:
            assert base is not None
            yield name, _bound_from_medians(uplift, medians[name], base, family.apart)
        else:
            low, high = resampled[name]
            yield name, _bound_uplift(uplift, low, high, how)


def _bound_uplift(uplift: float, low: float, high: float, how: str) -> BoundedValue:
    if not isfinite(high):
        reason = "the baseline's median is near 0: no bound is known"
        return BoundedValue(value=uplift, reason=reason)
    low, high = min(uplift, low - 1), max(uplift, high - 1)
    return BoundedValue(value=uplift, low=low, high=high, interval=how)


def _resample(
    baseline: str, names: Sequence[str], family: Family
) -> tuple[dict[str, Bounds] | None, str, str | None]:
    """Return the bounds of the ratios, the method used, and why there are none.

    All is None where the runs are too many to resample.
    """
    if family.runs is None or not names:
        return None, "", None
    chosen = [baseline, *names]
    coded = pl.concat(family.runs[name].with_columns(_tier=pl.lit(name)) for name in chosen)
    own = pl.int_range(pl.len(), dtype=pl.Int64)
    unit = pl.struct(ID, pl.when(pl.col(ID).is_null()).then(own).alias("_own"))
    coded = coded.with_columns((unit.rank("dense") - 1).cast(pl.Int64).alias("_task"))
    tasks = int(coded["_task"].max()) + 1  # type: ignore[arg-type]
    runs = {
        name: Runs(part[_COMPOSITE].to_numpy(), part["_task"].to_numpy())
        for name in chosen
        if (part := coded.filter(pl.col("_tier") == name)).height
    }
    fewest = min(len(run.values) for run in runs.values()) if tasks == 1 else tasks
    if fewest < FEWEST:
        what = "runs of one task" if tasks == 1 else "tasks"
        return None, "", f"{fewest} {what} are too few to resample: at least {FEWEST}"
    shared = coded.drop_nulls(ID).group_by(ID).agg(pl.col("_tier").n_unique())
    paired = "paired " if shared.filter(pl.col("_tier") > 1).height > 1 else ""
    how = "bootstrap over the runs of one task" if tasks == 1 else f"{paired}bootstrap over tasks"
    bounds = ratio_bounds(runs, baseline, tasks, confidence=family.confidence, seed=family.seed)
    return bounds, how, None


def _bound_from_medians(
    uplift: float, median: BoundedValue, base: BoundedValue, apart: str
) -> BoundedValue:
    """Return the interval from those of two medians, as if they were independent."""
    if None in (median.low, median.high, base.low, base.high):
        return BoundedValue(value=uplift, reason=median.reason or base.reason)
    assert median.value is not None
    assert base.value is not None
    bounds = independent_ratio_bounds(
        median.value,
        (median.low, median.high),  # type: ignore[arg-type]
        base.value,
        (base.low, base.high),  # type: ignore[arg-type]
    )
    return _bound_uplift(uplift, *(bounds or (0.0, inf)), f"of independent medians ({apart})")


def _estimate_spreads(tiers: Tiers, family: Family) -> Iterator[tuple[str, BoundedValue]]:
    """Yield the intervals of what varies between tiers, from simultaneous intervals."""
    costs = [
        bound_median(_OF_ALL[cost_usd], totals)
        for totals in family.totals.values()
        if totals.get(f"{cost_usd.name}__n")
    ]
    shares = [
        _bound_share(family.totals[name], family.all_at_once)
        for name, group in family.groups.items()
        if (group.statistics or {}).get("pass_rate")
    ]
    steps = [share and (_take_median(share[0]), _take_median(share[1])) for share in shares]
    for name, bounds, function in (
        ("pass_rate_variance", steps, variance_bounds),
        ("pass_rate_mean_variance", shares, variance_bounds),
        ("cost_variance", costs, variance_bounds),
        ("cost_delta", costs, range_bounds),
    ):
        value = getattr(tiers, name)
        if value is None:
            yield name, BoundedValue(value=None, reason=tiers.reasons[name])
            continue
        known = [bound for bound in bounds if bound is not None]
        if len(known) < len(bounds):
            few = f"{len(bounds) - len(known)} of {len(bounds)} tiers have too few runs"
            few += " for intervals of all tiers at once"
            yield name, BoundedValue(value=value, reason=few)
            continue
        low, high = function(known)
        low, high, how = min(low, value), max(high, value), "simultaneous intervals (Bonferroni)"
        yield name, BoundedValue(value=value, low=low, high=high, interval=how)


def _bound_share(totals: Totals, confidence: float) -> Bounds | None:
    metric = metric_named("pass_rate")
    interval = metric.interval.interval(float(metric.value(totals)), totals, confidence)
    return None if interval.low is None or interval.high is None else (interval.low, interval.high)


def _take_median(share: float) -> float:
    """Return the median of values that are 1 for that share, else 0."""
    return _HALF if share == _HALF else float(share > _HALF)

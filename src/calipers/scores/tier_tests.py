"""Each tier against the baseline, as one family of tests, with effect sizes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import sqrt

import numpy as np
import polars as pl

from calipers.engines.per_task import ID, TASKS
from calipers.metrics.cost.tiers import composite_score
from calipers.metrics.declare.declaration import Totals
from calipers.scores.results import Group, Tiers
from calipers.scores.tier_results import TierTest
from calipers.scores.tiering import get_statistic
from calipers.statistics.arrays import Floats
from calipers.statistics.paired import estimate_mean, holm, student
from calipers.statistics.sign_flips import permute_signs
from calipers.statistics.unpaired import cliff_delta, mann_whitney
from calipers.support.quick_dataclasses import dataclass

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


def compare_tiers(tiers: Tiers, family: Family) -> dict[str, TierTest]:
    """Return the test of each tier, with p-values adjusted for multiple tests (Holm)."""
    tests = dict(_test_tiers(tiers, family))
    adjusted = holm([each.p_value for each in tests.values()])
    return {
        name: replace(each, p_holm=p)
        for (name, each), p in zip(tests.items(), adjusted, strict=True)
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
    first, second = (each.drop_nulls(ID).group_by(ID).agg(mean).sort(ID) for each in (base, other))
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
    p_value, how = mann_whitney(base, other)
    delta, _, _ = cliff_delta(base, other, confidence=family.confidence)
    sides = [(float(each.var(ddof=1) / len(each)), len(each) - 1) for each in (base, other)]
    low, high, _ = _bound_welch(difference, sides[0], sides[1], family.confidence)
    return TierTest(
        difference=difference,
        low=low,
        high=high,
        p_value=p_value,
        test=f"{how} over {of}",
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
    pooled = sqrt(sum(each**2 for each in deviations) / 2)
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

"""Evidence on tiers: intervals, and a test of each tier against the baseline."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import inf, isfinite

import polars as pl

from calipers.engines.outcome import Outcome
from calipers.engines.per_task import ID, MOST_RUNS
from calipers.engines.plan import Plan
from calipers.engines.ranks import adjust_confidence
from calipers.metrics import metric_named
from calipers.metrics.cost.cost import cost_usd
from calipers.metrics.cost.tiers import MEDIANS, TIER, composite_score
from calipers.metrics.declare.declaration import GROUP, Totals
from calipers.scores.groups import bound_median
from calipers.scores.results import BoundedValue, Group, Tiers
from calipers.scores.tier_tests import Family, compare_tiers
from calipers.scores.tiering import drop_tier
from calipers.statistics.tiers import (
    FEWEST,
    Bounds,
    Runs,
    independent_ratio_bounds,
    range_bounds,
    ratio_bounds,
    variance_bounds,
)

_COMPOSITE = composite_score.name
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
    found = []
    for each in tiers:
        own = families[json.dumps(each.by)]
        family = Family(
            groups={name: groups[text] for name, text in own.items()},
            totals={name: outcome.groups[text] for name, text in own.items()},
            runs=None if runs is None else {name: runs[text] for name, text in own.items()},
            apart="--cluster" if plan.cluster is not None else f"more than {MOST_RUNS:,} runs",
            confidence=plan.confidence,
            all_at_once=level,
            seed=plan.seed,
        )
        found.append(_complete_tiers(each, family))
    return found


def _complete_tiers(tiers: Tiers, family: Family) -> Tiers:
    medians = {
        name: group.median_composite
        for name, group in family.groups.items()
        if group.median_composite is not None
    }
    uplift = dict(_estimate_uplifts(tiers, family, medians))
    intervals = dict(_estimate_spreads(tiers, family))
    tests = compare_tiers(tiers, family)
    missing = {
        **{f"uplift_intervals.{name}": each.reason for name, each in uplift.items()},
        **{f"intervals.{name}": each.reason for name, each in intervals.items()},
        **{f"tests.{name}": each.reason for name, each in tests.items()},
        **{f"median_composite.{name}": each.reason for name, each in medians.items()},
    }
    return replace(
        tiers,
        median_composite=medians,
        uplift_intervals=uplift,
        intervals=intervals,
        tests=tests,
        warnings={name: each.warning for name, each in family.groups.items() if each.warning},
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
    fewest = min(len(each.values) for each in runs.values()) if tasks == 1 else tasks
    if fewest < FEWEST:
        what = "runs of one task" if tasks == 1 else "tasks"
        return None, "", f"{fewest} {what} are too few to resample: at least {FEWEST}"
    shared = coded.drop_nulls(ID).group_by(ID).agg(pl.col("_tier").n_unique())
    paired = "paired " if shared.filter(pl.col("_tier") > 1).height > 1 else ""
    how = "bootstrap over the runs of one task" if tasks == 1 else f"{paired}bootstrap over tasks"
    found = ratio_bounds(runs, baseline, tasks, confidence=family.confidence, seed=family.seed)
    return found, how, None


def _bound_from_medians(
    uplift: float, median: BoundedValue, base: BoundedValue, apart: str
) -> BoundedValue:
    """Return the interval from those of two medians, as if they were independent."""
    if None in (median.low, median.high, base.low, base.high):
        return BoundedValue(value=uplift, reason=median.reason or base.reason)
    assert median.value is not None
    assert base.value is not None
    found = independent_ratio_bounds(
        median.value,
        (median.low, median.high),  # type: ignore[arg-type]
        base.value,
        (base.low, base.high),  # type: ignore[arg-type]
    )
    return _bound_uplift(uplift, *(found or (0.0, inf)), f"of independent medians ({apart})")


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
    steps = [each and (_take_median(each[0]), _take_median(each[1])) for each in shares]
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
        known = [each for each in bounds if each is not None]
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
    found = metric.interval.interval(float(metric.value(totals)), totals, confidence)
    return None if found.low is None or found.high is None else (found.low, found.high)


def _take_median(share: float) -> float:
    """Return the median of values that are 1 for that share, else 0."""
    return _HALF if share == _HALF else float(share > _HALF)

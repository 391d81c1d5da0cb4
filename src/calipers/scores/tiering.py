"""Tiers side by side: grades, uplift over a baseline, variances and cost (T, cross-tier)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from statistics import fmean, pvariance
from typing import Any

from calipers.metrics.cost.tiers import TIER
from calipers.scores.results import Group, Tiers

GRADES = ((0.95, "A"), (0.85, "B"), (0.75, "C"), (0.65, "D"))


def grade(median_composite: float | None) -> str | None:
    """Return the letter for a median composite score."""
    if median_composite is None:
        return None
    return next((letter for least, letter in GRADES if median_composite >= least), "F")


def compare_tiers(groups: Sequence[Group], baseline: str) -> Iterator[Tiers]:
    """Yield the tiers of the groups, for each value of the other fields grouped by."""
    families: dict[str, list[Group]] = {}
    for group in groups:
        if group.by.get(TIER) is not None:  # runs without a tier are none to compare
            families.setdefault(json.dumps(drop_tier(group.by)), []).append(group)
    for family in families.values():
        yield _compare(family, baseline)


def drop_tier(by: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that a family of tiers shares."""
    return {name: value for name, value in by.items() if name != TIER}


def _compare(tiers: Sequence[Group], baseline: str) -> Tiers:
    reasons: dict[str, str] = {}
    composites = {
        str(tier.by[TIER]): get_statistic(tier, "composite_score", "median") for tier in tiers
    }
    start = composites.get(baseline)
    if baseline not in composites:
        reasons["uplift"] = f"no tier is called {baseline}: name the baseline with --baseline"
    elif start is None:
        reasons["uplift"] = f"{baseline} has no composite score"
    elif start == 0:
        reasons["uplift"] = f"the median composite score of {baseline} is 0"
    for name, score in composites.items():
        if start and score is None:
            reasons[f"uplift.{name}"] = f"{name} has no run with a composite score"
    uplift = {
        name: None if not start or score is None else (score - start) / start
        for name, score in composites.items()
        if name != baseline
    }
    costs = _list_known(tiers, "cost_usd", "median")
    passes = _list_known(tiers, "pass_rate", "median")
    if not costs:
        reasons |= dict.fromkeys(("cost_variance", "cost_delta"), "no tier has a cost")
    if not passes:
        names = ("pass_rate_variance", "pass_rate_mean_variance")
        reasons |= dict.fromkeys(names, "no tier has runs known to pass or fail")
    return Tiers(
        by=drop_tier(tiers[0].by),
        baseline=baseline,
        uplift=uplift,
        pass_rate_variance=_compute_variance(passes),
        pass_rate_mean_variance=_compute_variance(_list_known(tiers, "pass_rate", "mean")),
        cost_variance=_compute_variance(costs),
        cost_delta=max(costs) - min(costs) if costs else None,
        reasons=reasons,
    )


def get_statistic(tier: Group, name: str, statistic: str) -> float | None:
    """Return a statistic of a feature in a group; None if it has no value."""
    found = (tier.statistics or {}).get(name)
    return None if found is None else found[statistic]


def _list_known(tiers: Sequence[Group], name: str, statistic: str) -> list[float]:
    values = (get_statistic(tier, name, statistic) for tier in tiers)
    return [value for value in values if value is not None and isfinite(value)]


def _compute_variance(values: Sequence[float]) -> float | None:
    return pvariance(values, fmean(values)) if values else None

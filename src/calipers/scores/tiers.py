"""Tiers side by side: grades, uplift, variances, cost, and the frontier of cost of pass.

The frontier is the cheapest pass of each task over all groups, whether tiers or not (Erol et al.
2025, arXiv 2504.13359): of each task, the smallest cost of pass that any group reaches; over all
tasks, the mean of these. A task that no group solves costs infinitely much, so the mean over the
solved ones is given too. A task that passed at unknown cost only is solved, and the mean is
unknown.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from math import inf, isfinite, sqrt
from statistics import fmean, pvariance
from typing import Any

import polars as pl

from calipers.engines.per_task import ID
from calipers.metrics.declare.declaration import GROUP
from calipers.metrics.families.cost import TIER
from calipers.scores.result import Frontier, Group, OnFrontier, Tiers
from calipers.statistics.intervals import t_interval


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
    consistent = {str(tier.by[TIER]): _compute_consistency(tier) for tier in tiers}
    return Tiers(
        by=drop_tier(tiers[0].by),
        baseline=baseline,
        uplift=uplift,
        pass_rate_variance=_compute_variance(passes),
        pass_rate_mean_variance=_compute_variance(_list_known(tiers, "pass_rate", "mean")),
        cost_variance=_compute_variance(costs),
        cost_delta=max(costs) - min(costs) if costs else None,
        consistency={name: value for name, value in consistent.items() if value is not None},
        reasons=reasons,
    )


def _compute_consistency(tier: Group) -> float | None:
    """Return 1 minus the coefficient of variation of a tier's scores, in [0, 1].

    As T's own program reports it: of the sample deviation (n − 1). A single run shows no spread.
    """
    names = ("count", "mean", "std_dev")
    count, mean, deviation = (get_statistic(tier, "impl_rate", name) for name in names)
    if not count or count < 2 or not mean or deviation is None:  # noqa: PLR2004 (to differ at all)
        return None
    return max(0.0, 1 - deviation * sqrt(count / (count - 1)) / mean)


def get_statistic(tier: Group, name: str, statistic: str) -> float | None:
    """Return a statistic of a feature in a group; None if it has no value."""
    statistics = (tier.statistics or {}).get(name)
    return None if statistics is None else statistics[statistic]


def _list_known(tiers: Sequence[Group], name: str, statistic: str) -> list[float]:
    values = (get_statistic(tier, name, statistic) for tier in tiers)
    return [value for value in values if value is not None and isfinite(value)]


def _compute_variance(values: Sequence[float]) -> float | None:
    return pvariance(values, fmean(values)) if values else None


_COST, _BEST, _NEXT = "cost_of_pass", "_best", "_next"
_FINITE, _FIRST = "_finite", "_first"
_NO_TASK = {"tasks": 0, "best": 0, "only": 0, "saves": None}


def find_frontier(
    attempts: pl.DataFrame, groups: Mapping[str, Mapping[str, Any]], confidence: float
) -> Frontier | None:
    """Return the frontier over the groups; None with one group or without a cost.

    `attempts` has a row per group and task: id, group and the task's cost of pass in it.
    """
    if attempts[GROUP].n_unique() < 2:  # noqa: PLR2004 (nothing to choose from)
        return None
    tasks = _find_bests(attempts)
    bests = tasks.filter(_FIRST)
    solved = bests.filter(pl.col(_BEST).is_finite())[_BEST]
    unknown = bests[_BEST].null_count()
    mean = float(solved.mean()) if len(solved) else None  # type: ignore[arg-type]
    spread = float(solved.var(ddof=0) or 0.0) / max(1, len(solved))  # type: ignore[arg-type]
    around = t_interval(mean or 0.0, spread, len(solved), confidence)  # tasks are sampled
    summaries = _summarize_groups(tasks)
    return Frontier(
        tasks=bests.height,
        solved=len(solved) + unknown,
        unknown_cost=unknown,
        cost_of_pass=None if unknown else inf if len(solved) < bests.height else mean,
        solved_cost_of_pass=mean,
        low=None if around.low is None else max(0.0, around.low),
        high=around.high,
        groups=tuple(
            OnFrontier(by=by, **summaries.get(text, _NO_TASK)) for text, by in groups.items()
        ),
    )


def _find_bests(attempts: pl.DataFrame) -> pl.DataFrame:
    """Return the attempts by task, beside each the task's least cost and the least of the others.

    Infinite where nobody passes, null where somebody passes at unknown cost. All texts are compared
    once, as the attempts are sorted; the costs of a task then stand one behind the other.
    """
    cost, finite = pl.col(_COST), pl.col(_FINITE)
    tasks = (
        attempts.with_columns(pl.when(cost.is_finite()).then(cost).alias(_FINITE))
        .sort(ID, _FINITE, nulls_last=True)
        .with_columns((pl.col(ID) != pl.col(ID).shift()).fill_null(value=True).alias(_FIRST))
    )
    number = pl.col(_FIRST).cum_sum() - 1
    is_single = pl.col(_FIRST).shift(-1, fill_value=True)
    otherwise = pl.when(~cost.is_null().any().over(number)).then(inf)
    bests = tasks.select(
        _FIRST,
        pl.coalesce(finite, otherwise).alias(_BEST),
        pl.coalesce(pl.when(~is_single).then(finite.shift(-1)), otherwise).alias(_NEXT),
    ).filter(_FIRST)
    return tasks.with_columns(
        pl.lit(bests[name]).gather(number).alias(name) for name in (_BEST, _NEXT)
    )


def _summarize_groups(tasks: pl.DataFrame) -> dict[str, dict[str, Any]]:
    """Return each group's tasks, those it is best at, alone or not, and what that saves."""
    cost, best, others = pl.col(_COST), pl.col(_BEST), pl.col(_NEXT)
    leads = cost.is_finite() & (cost == best)
    counts = tasks.group_by(GROUP).agg(
        tasks=pl.len(), best=leads.sum(), only=(leads & others.is_infinite()).sum()
    )
    saved = tasks.filter(leads & others.is_finite()).sort(GROUP, ID)  # few, in the order of sums
    saves = saved.group_by(GROUP, maintain_order=True).agg(saves=(others - best).mean())
    table = counts.join(saves, on=GROUP, how="left")
    return {row.pop(GROUP): row for row in table.iter_rows(named=True)}

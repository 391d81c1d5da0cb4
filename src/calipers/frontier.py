"""The frontier of cost of pass: the cheapest way to a pass of each task (Erol et al. 2025).

Of each task, the smallest cost of pass that any group reaches, arXiv 2504.13359; over all tasks,
the mean of these. A task that no group solves costs infinitely much, so the mean over the solved
ones stands beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any

import polars as pl

from calipers.engines.per_task import ID
from calipers.metrics.declaration import GROUP
from calipers.results import Frontier, OnFrontier
from calipers.stats.intervals import Interval, t_interval

_COST, _BEST, _NEXT = "cost_of_pass", "_best", "_next"


def cost_frontier(
    attempts: pl.DataFrame, groups: Mapping[str, Mapping[str, Any]], confidence: float
) -> Frontier | None:
    """The frontier over the groups; None where there is one group, or no cost.

    `attempts` has a row per group and task: id, group and the task's cost of pass in it.
    """
    if attempts[GROUP].n_unique() < 2:  # noqa: PLR2004 (nothing to choose from)
        return None
    tasks = attempts.sort(ID, GROUP).with_columns(
        pl.col(_COST).min().over(ID).alias(_BEST),
        # The best of the others, for the one that is best alone.
        pl.col(_COST).sort().get(1, null_on_oob=True).over(ID).fill_null(inf).alias(_NEXT),
    )
    bests = tasks.group_by(ID, maintain_order=True).agg(pl.first(_BEST))[_BEST]
    solved = bests.filter(bests.is_finite())
    around = _interval(solved, confidence)
    return Frontier(
        tasks=len(bests),
        solved=len(solved),
        cost_of_pass=inf if len(solved) < len(bests) else _mean(solved),
        solved_cost_of_pass=_mean(solved),
        low=None if around.low is None else max(0.0, around.low),
        high=around.high,
        groups=tuple(
            _of_group(tasks.filter(pl.col(GROUP) == text), by) for text, by in groups.items()
        ),
    )


def _of_group(tasks: pl.DataFrame, by: Mapping[str, Any]) -> OnFrontier:
    cost, best, others = pl.col(_COST), pl.col(_BEST), pl.col(_NEXT)
    on = tasks.filter(cost.is_finite() & (cost == best))
    return OnFrontier(
        by=by,
        tasks=tasks.height,
        best=on.height,
        only=on.filter(others.is_infinite()).height,
        saves=_mean(on.filter(others.is_finite()).select(others - best).to_series()),
    )


def _mean(values: pl.Series) -> float | None:
    return float(values.mean()) if len(values) else None  # type: ignore[arg-type]


def _interval(values: pl.Series, confidence: float) -> Interval:
    """Over tasks, which are what was drawn."""
    spread = float(values.var(ddof=0) or 0.0) / max(1, len(values))  # type: ignore[arg-type]
    return t_interval(_mean(values) or 0.0, spread, len(values), confidence)

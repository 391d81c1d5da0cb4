"""The frontier of cost of pass: the cheapest pass of each task over all groups (Erol et al. 2025).

Of each task, the smallest cost of pass that any group reaches, arXiv 2504.13359; over all tasks,
the mean of these. A task that no group solves costs infinitely much, so the mean over the solved
ones is given too. A task that passed at unknown cost only is solved, and the mean is unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any

import polars as pl

from calipers.engines.per_task import ID
from calipers.metrics.declare.declaration import GROUP
from calipers.scores.results import Frontier, OnFrontier
from calipers.statistics.intervals import t_interval

_COST, _BEST, _NEXT = "cost_of_pass", "_best", "_next"
_NO_TASK = {"tasks": 0, "best": 0, "only": 0, "saves": None}


def find_frontier(
    attempts: pl.DataFrame, groups: Mapping[str, Mapping[str, Any]], confidence: float
) -> Frontier | None:
    """Return the frontier over the groups; None with one group or without a cost.

    `attempts` has a row per group and task: id, group and the task's cost of pass in it.
    """
    if attempts[GROUP].n_unique() < 2:  # noqa: PLR2004 (nothing to choose from)
        return None
    cost = pl.col(_COST)
    finite = cost.filter(cost.is_finite())  # a null is a pass at unknown cost
    otherwise = pl.when(~cost.is_null().any()).then(inf)
    two = finite.bottom_k(2)
    # The best, and the best of the others for the one that is best alone.
    bests = (
        attempts.group_by(ID)
        .agg(
            pl.coalesce(two.min(), otherwise).alias(_BEST),
            pl.coalesce(pl.when(finite.len() > 1).then(two.max()), otherwise).alias(_NEXT),
        )
        .sort(ID)
    )
    solved = bests.filter(pl.col(_BEST).is_finite())[_BEST]
    unknown = bests[_BEST].null_count()
    mean = float(solved.mean()) if len(solved) else None  # type: ignore[arg-type]
    spread = float(solved.var(ddof=0) or 0.0) / max(1, len(solved))  # type: ignore[arg-type]
    around = t_interval(mean or 0.0, spread, len(solved), confidence)  # tasks are sampled
    found = _summarize_groups(attempts.join(bests, on=ID))
    return Frontier(
        tasks=bests.height,
        solved=len(solved) + unknown,
        unknown_cost=unknown,
        cost_of_pass=None if unknown else inf if len(solved) < bests.height else mean,
        solved_cost_of_pass=mean,
        low=None if around.low is None else max(0.0, around.low),
        high=around.high,
        groups=tuple(OnFrontier(by=by, **found.get(text, _NO_TASK)) for text, by in groups.items()),
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

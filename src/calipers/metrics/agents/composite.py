"""The agents' composite (P): six parts weighted into one score, and the recommendation it gives."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import reduce
from operator import add

import polars as pl

from calipers.metrics.agents.weights import WEIGHTS
from calipers.metrics.cost.efficiency import time_score
from calipers.metrics.declare.declaration import Feature, Totals, add_up
from calipers.metrics.declare.means import declare_sums, mean
from calipers.metrics.declare.settings import Settings
from calipers.metrics.judged.rubrics import SCORES
from calipers.metrics.text.similarity import output_similarity, task_success
from calipers.metrics.traces.coordination import (
    communication_overhead,
    coordination_centrality,
    task_distribution_balance,
)
from calipers.metrics.traces.tool_use import path_convergence, tool_selection_accuracy

RECOMMENDATIONS = (  # the lowest score of each, its text, and its weight
    ("accept", 0.8, 1.0),
    ("weak_accept", 0.6, 0.7),
    ("weak_reject", 0.4, -0.7),
    ("reject", 0.0, -1.0),
)
DECIMALS = 14  # of a score: weights that sum to .8 on paper give .8, not .7999999999999999

tool_efficiency = Feature(
    "tool_efficiency",
    (path_convergence, tool_selection_accuracy),
    lambda _: (pl.col("path_convergence") + pl.col("tool_selection_accuracy")) / 2,
)

coordination_quality = Feature(
    "coordination_quality",
    (communication_overhead, coordination_centrality, task_distribution_balance),
    lambda _: (
        (
            (1 - pl.col("communication_overhead"))
            + pl.col("coordination_centrality").clip(upper_bound=1.0)
            + pl.col("task_distribution_balance")
        )
        / 3
    ),
)

FEATURES: Mapping[str, Feature] = {
    "time_taken": time_score,
    "task_success": task_success,
    "coordination_quality": coordination_quality,
    "tool_efficiency": tool_efficiency,
    "planning_rational": SCORES["planning_rationality"],
    "output_similarity": output_similarity,
}


def _list_weights(settings: Settings) -> dict[str, float]:

    given = (settings.weights or WEIGHTS).by_part
    return {name: weight for name, weight in given.items() if weight > 0}


def _read_part(part: str) -> pl.Expr:
    return pl.col(FEATURES[part].name).cast(pl.Float64)


def _weigh_parts(settings: Settings) -> pl.Expr:
    weights = _list_weights(settings)
    parts = [(_read_part(name), weight) for name, weight in weights.items()]
    score = reduce(add, (part.fill_null(0.0) * weight for part, weight in parts))
    present = reduce(
        add, (pl.when(part.is_not_null()).then(weight).otherwise(0.0) for part, weight in parts)
    )
    if settings.missing == "renormalize":
        score = score * (reduce(add, weights.values()) / present)
    return pl.when(present > 0).then(score.clip(0.0, 1.0).round(DECIMALS))


agent_composite = Feature("agent_composite", tuple(FEATURES.values()), _weigh_parts)


def _list_missing(settings: Settings) -> pl.Expr:
    names = (
        pl.when(_read_part(name).is_null()).then(pl.lit(name)) for name in _list_weights(settings)
    )
    return pl.concat_str(*names, separator=",", ignore_nulls=True)


agent_composite_missing = Feature(
    "agent_composite_missing", agent_composite.reads, _list_missing, pl.String(), stored=False
)


def _pick_by_range(values: Mapping[str, str | float]) -> pl.Expr:
    """Return the entry of `values` for the range that the composite falls into."""
    score = pl.col(agent_composite.name)
    found = pl.lit(None)
    for name, least, _ in reversed(RECOMMENDATIONS):
        found = pl.when(score >= least).then(pl.lit(values[name])).otherwise(found)
    return found


def recommend(score: float) -> str:
    """Return what a composite score recommends.

    >>> recommend(0.8), recommend(0.1)
    ('accept', 'reject')
    """
    return next(name for name, least, _ in RECOMMENDATIONS if score >= least or least == 0)


recommendation = Feature(
    "recommendation",
    (agent_composite,),
    lambda _: _pick_by_range({name: name for name, _, _ in RECOMMENDATIONS}),
    pl.String(),
    stored=False,
)

recommendation_weight = Feature(
    "recommendation_weight",
    (agent_composite,),
    lambda _: _pick_by_range({name: weight for name, _, weight in RECOMMENDATIONS}),
)


def _name_without(part: str) -> str:
    return f"agent_composite__without_{part}"


def _count_scored(condition: pl.Expr) -> pl.Expr:
    scored = ~pl.col(agent_composite.name).is_null()
    return (condition & scored).cast(pl.Int64).sum()


composite_mean = mean(
    agent_composite,
    says="How good runs are in all: speed, success, teamwork, tools, plan and output.",
    formula="mean(Σ weight · part, within [0, 1]), the parts being time_taken = time_score; "
    "task_success; coordination_quality = mean(1 − communication_overhead, "
    "min(1, coordination_centrality), task_distribution_balance); tool_efficiency = "
    "mean(path_convergence, tool_selection_accuracy); planning_rational = "
    "planning_rationality; output_similarity; each weighs 0.167, or as --weights says",
    spec="P 4",
    needs=("trace",),
    nulls="a missing part counts 0, or with --missing renormalize the others take its weight; "
    "a row that lacks all parts is left out",
    range=(0, 1),
    better="higher",
    empty="no record has any part of the composite",
    aggregate=declare_sums(
        agent_composite,
        agent_composite_missing,
        recommendation,
        recommendation_weight,
        *FEATURES.values(),
        **{
            f"agent_composite__{name}": _count_scored(pl.col(recommendation_weight.name) == weight)
            for name, _, weight in RECOMMENDATIONS
        },
        **{
            _name_without(name): _count_scored(pl.col(feature.name).is_null())
            for name, feature in FEATURES.items()
        },
    ),
    extras={name: f"agent_composite__{name}" for name, _, _ in RECOMMENDATIONS},
    optional="unless asked for",
)


def note_composite(groups: Collection[Totals], settings: Settings) -> Iterator[str]:
    """Yield which parts are missing in how many records, and the effect on the score."""
    records = add_up(groups, "agent_composite__n")
    missing = {name: add_up(groups, _name_without(name)) for name in _list_weights(settings)}
    lacking = [f"{name} in {count}" for name, count in missing.items() if count]
    if records and lacking:
        effect = (
            "the other parts take its weight"
            if settings.missing == "renormalize"
            else "it counts 0 there (--missing renormalize gives its weight to the others)"
        )
        yield f"agent_composite of {records} records lacks {', '.join(lacking)}: {effect}"

"""Agents (P 4): the composite score, the weights of its six parts, and the recommendation."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce
from math import isfinite
from operator import add
from typing import Any

import polars as pl

from calipers.metrics.declare.declaration import Feature, Totals, add_up, count_records
from calipers.metrics.declare.means import declare_mean, declare_sums
from calipers.metrics.declare.settings import Settings
from calipers.metrics.families.efficiency import time_score
from calipers.metrics.families.judged import SCORES
from calipers.metrics.families.text import output_similarity, task_success
from calipers.metrics.families.traces import (
    communication_overhead,
    coordination_centrality,
    path_convergence,
    single_agent,
    task_distribution_balance,
    tool_selection_accuracy,
)
from calipers.support.config import read_nonnegative, read_table, shown
from calipers.support.errors import UsageError, nearest

_EXAMPLE = "for example task_success: 0.5 and tool_efficiency: 0.5"
_NUMBER = "write a plain number from 0 on: 0.25"

PARTS = (
    "time_taken",
    "task_success",
    "coordination_quality",
    "tool_efficiency",
    "planning_rational",
    "output_similarity",
)


@dataclass(frozen=True, slots=True)
class AgentWeights:
    """The weight of each part, and the file they are from; None for P's own."""

    source: str | None
    by_part: Mapping[str, float] = field(hash=False)

    def to_dict(self) -> dict[str, Any]:
        """Return the weights as in the JSON output."""
        return {"source": self.source, **self.by_part}


WEIGHTS = AgentWeights(None, dict.fromkeys(PARTS, 0.167))
"""P's, which sum to 1.002 and are not rescaled."""


def read_weights(given: Any) -> AgentWeights:
    """Read weights from a YAML or JSON file, or a mapping: `{task_success: 0.5, …}`.

    Other parts weigh 0.
    """
    if isinstance(given, AgentWeights):
        return given
    table, source = read_table(given, "weights", example=_EXAMPLE)
    return check_weights(table, source=source)


def check_weights(table: Any, *, source: str) -> AgentWeights:
    """Return the weights in a table read from a file; errors name the source and the part.

    >>> check_weights({"task_sucess": 1}, source="weights.yaml")
    Traceback (most recent call last):
    calipers.support.errors.UsageError: weights.yaml: no part of the composite is called task_sucess
      did you mean task_success?
    """
    if not isinstance(table, Mapping) or not table:
        raise UsageError(f"{source}: no weights in it", fix=_EXAMPLE)
    for name in table:
        if name not in PARTS:
            raise UsageError(
                f"{source}: no part of the composite is called {shown(name)}",
                fix=nearest(str(name), PARTS),
            )
    given = {
        name: read_nonnegative(value, f"{source}: {name}", fix=_NUMBER)
        for name, value in table.items()
    }
    if not any(given.values()):
        raise UsageError(f"{source}: all weights are 0", fix=_EXAMPLE)
    if not isfinite(sum(given.values())):
        raise UsageError(f"{source}: the weights sum to infinity", fix=_NUMBER)
    return AgentWeights(source, {name: given.get(name, 0.0) for name in PARTS})


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


_MEASURED_BY: Mapping[str, tuple[str, ...]] = {  # each part: the metrics that show it
    "time_taken": ("time_score",),
    "task_success": ("task_success",),
    "coordination_quality": (
        *("communication_overhead", "coordination_centrality", "task_distribution_balance"),
    ),
    "tool_efficiency": ("path_convergence", "tool_selection_accuracy"),
    "planning_rational": ("planning_rationality",),
    "output_similarity": ("output_similarity",),
}
FEWEST_PARTS = 4  # of the six: with fewer the composite is not shown unless it is asked for


def are_parts_known(names: Iterable[str]) -> bool:
    """Return True if metrics with these names are most of the composite's parts.

    >>> are_parts_known(["time_score", "path_convergence"])
    False
    """
    known = {*names}
    return sum(known.issuperset(names) for names in _MEASURED_BY.values()) >= FEWEST_PARTS


def _list_weights(settings: Settings) -> dict[str, float]:
    given = (settings.weights or WEIGHTS).by_part
    return {name: weight for name, weight in given.items() if weight > 0}


_TEAMWORK = "coordination_quality"  # which a single agent has not


def _mark_inapplicable(part: str, settings: Settings) -> pl.Expr | None:
    """Return for which rows a part does not apply and others take its weight; None for none."""
    if part == _TEAMWORK and settings.missing == "renormalize":
        return pl.col(single_agent.name).fill_null(value=False)
    return None


def _read_part(part: str, settings: Settings) -> pl.Expr:
    value = pl.col(FEATURES[part].name).cast(pl.Float64)
    not_applicable = _mark_inapplicable(part, settings)
    return value if not_applicable is None else pl.when(~not_applicable).then(value)


def _weigh_parts(settings: Settings) -> pl.Expr:
    weights = _list_weights(settings)
    parts = [(_read_part(name, settings), weight) for name, weight in weights.items()]
    score = reduce(add, (part.fill_null(0.0) * weight for part, weight in parts))
    present = reduce(
        add, (pl.when(part.is_not_null()).then(weight).otherwise(0.0) for part, weight in parts)
    )
    if settings.missing == "renormalize":
        score = score * (reduce(add, weights.values()) / present)
    return pl.when(present > 0).then(score.clip(0.0, 1.0).round(DECIMALS))


agent_composite = Feature("agent_composite", (*FEATURES.values(), single_agent), _weigh_parts)


def _is_missing(part: str, settings: Settings) -> pl.Expr:
    is_null = pl.col(FEATURES[part].name).is_null()
    not_applicable = _mark_inapplicable(part, settings)
    return is_null if not_applicable is None else is_null & ~not_applicable


def _list_missing(settings: Settings) -> pl.Expr:
    names = (
        pl.when(_is_missing(name, settings)).then(pl.lit(name)) for name in _list_weights(settings)
    )
    return pl.concat_str(*names, separator=",", ignore_nulls=True)


agent_composite_missing = Feature(
    "agent_composite_missing", agent_composite.reads, _list_missing, pl.String(), stored=False
)


def _list_not_applicable(settings: Settings) -> pl.Expr:
    cases = (
        (name, _mark_inapplicable(name, settings))
        for name, weight in _list_weights(settings).items()
    )
    names = [pl.when(case).then(pl.lit(name)) for name, case in cases if case is not None]
    return pl.concat_str(*names, separator=",", ignore_nulls=True) if names else pl.lit("")


agent_composite_not_applicable = Feature(
    "agent_composite_not_applicable",
    agent_composite.reads,
    _list_not_applicable,
    pl.String(),
    stored=False,
)


def _mark_lacking(settings: Settings) -> pl.Expr:
    """Return a bit for each missing part, and one more where a part does not apply."""
    weighing = _list_weights(settings)
    marks = [
        pl.when(_is_missing(name, settings)).then(1 << place).otherwise(0)
        for place, name in enumerate(FEATURES)
        if name in weighing
    ]
    alone = _list_not_applicable(settings) != ""
    return reduce(add, marks) + pl.when(alone).then(_NOT_APPLICABLE).otherwise(0)


_NOT_APPLICABLE = 1 << len(PARTS)
_lacking = Feature("_agent_composite_lacking", agent_composite.reads, _mark_lacking, pl.Int32())


def _is_marked(bit: int) -> pl.Expr:
    return (pl.col(_lacking.name).cast(pl.Int32) & bit) > 0


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


composite_mean = declare_mean(
    agent_composite,
    says="How good runs are in all: speed, success, teamwork, tools, plan and output.",
    formula="mean(Σ weight · part, within [0, 1]), the parts being time_taken = time_score; "
    "task_success; coordination_quality = mean(1 − communication_overhead, "
    "min(1, coordination_centrality), task_distribution_balance); tool_efficiency = "
    "mean(path_convergence, tool_selection_accuracy); planning_rational = "
    "planning_rationality; output_similarity; each weighs 0.167, or as the setting `weights` says",
    spec="P 4",
    needs=("trace",),
    nulls="a missing part counts 0, or with --set missing=renormalize the others take its weight, "
    "as they take that of teamwork in a run of a single agent; a row that lacks all parts is left "
    "out",
    range=(0, 1),
    better="higher",
    empty="no record has any part of the composite",
    aggregate=declare_sums(
        agent_composite,
        agent_composite_missing,
        agent_composite_not_applicable,
        _lacking,
        recommendation,
        recommendation_weight,
        *FEATURES.values(),
        **{
            f"agent_composite__{name}": _count_scored(pl.col(recommendation_weight.name) == weight)
            for name, _, weight in RECOMMENDATIONS
        },
        **{
            _name_without(name): _count_scored(_is_marked(1 << place))
            for place, name in enumerate(FEATURES)
        },
        agent_composite__not_applicable=_count_scored(_is_marked(_NOT_APPLICABLE)),
    ),
    extras={name: f"agent_composite__{name}" for name, _, _ in RECOMMENDATIONS},
    optional="unless asked for",
)


def note_composite(groups: Collection[Totals], settings: Settings, *, asked: bool) -> Iterator[str]:
    """Yield which parts are missing in how many records, and the effect on the score.

    Where the composite was not asked for, only if it is shown: most of its parts have values.
    """
    records = add_up(groups, "agent_composite__n")
    missing = {name: add_up(groups, _name_without(name)) for name in _list_weights(settings)}
    lacking = [f"{name} in {count}" for name, count in missing.items() if count]
    known = sum(add_up(groups, _name_without(name)) < records for name in FEATURES)
    if records and lacking and (asked or known >= FEWEST_PARTS):
        effect = (
            "the other parts take its weight"
            if settings.missing == "renormalize"
            else "it counts 0 there (--set missing=renormalize gives its weight to the others)"
        )
        yield f"agent_composite of {records} records lacks {', '.join(lacking)}: {effect}"
    if alone := add_up(groups, "agent_composite__not_applicable"):
        yield (
            f"{_TEAMWORK} is not applicable to {count_records(alone)} of a single agent: "
            "the other parts take its weight"
        )

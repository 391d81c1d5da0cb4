"""Crossed factors: error bars for further tasks and further prompts (or seeds) at once.

Rows that share a task depend on each other, and so do rows that share a prompt: two-way clustering
(`statistics.crossed`), from a pass over the rows with each factor, and each combination, as their
clusters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from calipers.engines.outcome import Outcome
from calipers.engines.plan import Plan
from calipers.metrics.declare.interval_methods import (
    name_corrected,
    name_squares,
    read_clusters,
    read_spread,
)
from calipers.records.batch import Source
from calipers.scores.options import Options
from calipers.scores.score import check_fields, run_engine
from calipers.statistics.crossed import list_terms
from calipers.support.errors import UsageError

TASK_FIELD = "id"  # that people call the task
_NAMED = {"task": TASK_FIELD}


def name_factors(options: Options) -> tuple[str, ...]:
    """Return the crossed fields, `task` being the id."""
    return tuple(_NAMED.get(name, name) for name in options.random)


def add_crossed(outcome: Outcome, sources: Sequence[Source], plan: Plan, options: Options) -> None:
    """Replace the spread of each value by that of the crossed factors together.

    Raises:
        UsageError: No record has one of the fields, or all have the same value of it.
    """
    fields = name_factors(options)
    bare = replace(options, per_sample=None, per_task=None, bad_rows=None)
    terms: dict[tuple[int, ...], Mapping[str, Any]] = {}
    for chosen, _ in list_terms(len(fields)):
        own = replace(
            plan, cluster=",".join(fields[at] for at in chosen), crossed=True, per_task=False
        )
        found = run_engine(sources, own, bare, lambda _: None)
        check_fields(found.present, own, sources, options.map)
        terms[chosen] = found.groups
    for text, totals in outcome.groups.items():
        for name in _list_spreads(totals):
            _combine(totals, name, [(found[text], chosen) for chosen, found in terms.items()])
        for place, field in enumerate(fields):
            _check_several(terms[(place,)][text], field)


def _list_spreads(totals: Mapping[str, Any]) -> list[str]:
    end = "__spread"
    return [name.removesuffix(end) for name in totals if name.endswith(end)]


def _combine(
    totals: Any, name: str, terms: Sequence[tuple[Mapping[str, Any], tuple[int, ...]]]
) -> None:
    """Put the totals of the factor with the fewest degrees in place, their squares scaled up."""
    variances, alone = {}, {}
    for found, chosen in terms:
        spread, clusters = read_spread(name, found)
        variances[chosen] = spread * clusters.inflation if not clusters.too_few else 0.0
        if len(chosen) == 1:
            alone[chosen] = clusters.degrees if not clusters.too_few else 0.0
    fewest = min(alone, key=lambda chosen: (alone[chosen], -variances[chosen]))
    signs = dict(list_terms(len(alone)))
    whole = sum(signs[chosen] * variance for chosen, variance in variances.items())
    whole = max(whole, *(variances[chosen] for chosen in alone))
    of_fewest = next(found for found, chosen in terms if chosen == fewest)
    scale = whole / variances[fewest] if variances[fewest] > 0 else 1.0
    own = {key: value for key, value in of_fewest.items() if key.startswith(f"{name}__")}
    if variances[fewest] <= 0 < whole:  # values of this factor are all alike: another tells more
        fewest = max(alone, key=lambda chosen: variances[chosen])
        of_other = next(found for found, chosen in terms if chosen == fewest)
        own = {key: value for key, value in of_other.items() if key.startswith(f"{name}__")}
        scale = whole / variances[fewest]
    for key in (f"{name}__spread", name_squares(name), name_corrected(name)):
        if key in own:
            own[key] *= scale
    totals.update(own)


def _check_several(totals: Mapping[str, Any], field: str) -> None:
    """Refuse a factor of which there is one value: nothing tells how far another would lie."""
    counts = [
        read_clusters(name, totals).count
        for name in _list_spreads(totals)
        if not totals.get(f"{name}__one_cluster")
    ]
    if _list_spreads(totals) and not counts:
        raise UsageError(
            f"--random: all records of a group have one value of {field}, which does not show how "
            "far others would lie",
            fix=f"leave {field} out of --random, or measure several of them",
        )

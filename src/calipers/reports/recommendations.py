"""Recommendations of the agents' composite (P): counts of runs by group, and that of the mean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from calipers.metrics.agents.composite import RECOMMENDATIONS, recommend
from calipers.reports.figures import NOTHING, choose_form, group_name
from calipers.reports.table import Cell, Column, Table, estimate_cell, make_rows

if TYPE_CHECKING:
    from calipers.scores.results import Group, Measured

_METRIC = "agent_composite"
_NAMES = tuple(name for name, _, _ in RECOMMENDATIONS)


def tabulate_recommendations(groups: Sequence[Group]) -> Table | None:
    """Return a row per group with its composite and how many runs are accepted and rejected."""
    known = [group for group in groups if _METRIC in group.metrics]
    if not any(group.metrics[_METRIC].value is not None for group in known):
        return None
    form = choose_form(group.metrics[_METRIC] for group in known)
    rows = []
    for group in known:
        measured = group.metrics[_METRIC]
        counts = (measured.extras.get(name) for name in _NAMES)
        mean = Cell(text=_recommend_mean(measured))
        rows.append((group_name(group.by), estimate_cell(measured, form), mean, *counts))
    return Table(
        title="Recommendations",
        columns=(
            Column(name="group", kind="key", where="people"),
            Column(name=_METRIC, where="people"),
            Column(name="recommendation", heading="of the mean", kind="text", where="people"),
            *(Column(name=name, heading=name.replace("_", " "), where="people") for name in _NAMES),
        ),
        rows=make_rows(rows),
        notes=("runs by what their own composite recommends (P 4)",),
    )


def _recommend_mean(measured: Measured) -> str:
    """Return the recommendation of the mean and, in brackets, those of its bounds."""
    if measured.value is None:
        return NOTHING
    word = recommend(measured.value).replace("_", " ")
    ends = [
        recommend(end).replace("_", " ") for end in (measured.low, measured.high) if end is not None
    ]
    return word if {*ends} <= {word} else f"{word} [{', '.join(ends)}]"

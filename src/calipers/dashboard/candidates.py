"""Several systems against one: a table per metric, a row per system."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Any

from calipers.comparisons.results import Compared
from calipers.metrics import metric_named
from calipers.reports.comparison import choose_tone, choose_value_form, join_counts
from calipers.reports.figures import format_p
from calipers.reports.table import EMPTY, Cell, Column, Table, make_difference_cell, make_rows

_COLUMNS = (
    Column(name="system", kind="key"),
    Column(name="value"),
    Column(name="difference", heading="difference to the base"),
    Column(name="lane", heading="0 in the middle", kind="lane", where="web"),
    Column(name="p_adjusted", heading="p adjusted (Holm)"),
    Column(name="won · lost · tied (tasks)"),
)


def tabulate_candidates(
    compared: Compared, names: Sequence[str], links: Sequence[str]
) -> list[Table]:
    """Return a table per metric: the base, and each system with its difference to it."""
    return [_tabulate_metric(compared, name, links) for name in names]


def _tabulate_metric(compared: Compared, name: str, links: Sequence[str]) -> Table:
    found = [pair.metrics[name] for pair in compared.pairs]
    form = choose_value_form(*found)
    ends = [end for each in found for end in (each.low, each.high) if end is not None]
    reach = max(map(abs, filter(isfinite, ends)), default=0.0)  # one scale for all rows
    first = compared.pairs[0]
    known = next((each.base for each in found if each.base is not None), None)
    # On the tasks that both have: the base's value differs from pair to pair if tasks are missing.
    alike = len({pair.n_pairs for pair in compared.pairs}) == 1
    blank = (EMPTY,) * (len(_COLUMNS) - 2)
    rows: list[tuple[Any, ...]] = []
    if alike:
        rows.append((first.base, Cell(value=known, form=form), *blank))
    for pair, each, link in zip(compared.pairs, found, links, strict=True):
        tone = choose_tone(name, each, compared.confidence)
        rows.append(
            (
                Cell(value=pair.candidate, link=link),
                Cell(value=each.candidate, form=form, note=each.reason or ""),
                make_difference_cell(each, tone),
                Cell(value=reach, low=each.low, high=each.high, tone=tone),
                Cell(text=format_p(each.p_holm)),
                Cell(text=join_counts(each.wins, each.losses, each.ties)),
            )
        )
    unit = metric_named(name).unit
    title = f"{name} ({unit})" if unit else name
    return Table(title=title, columns=_COLUMNS, rows=make_rows(rows))

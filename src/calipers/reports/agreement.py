"""Agreement as a document: all raters, then each pair, a row per measure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from calipers.reports.figures import Form
from calipers.reports.table import (
    Column,
    Document,
    Line,
    Row,
    Table,
    Where,
    estimate_cell,
    make_data_columns,
)

if TYPE_CHECKING:
    from calipers.comparisons.agree import Agreement
    from calipers.statistics.estimates import Estimate

_ALL = "all raters"
_BRACKETS = Form(brackets=True)


def make_agreement_document(agreement: Agreement) -> Document:
    """Return every measure with its interval, and the reasons for nulls."""
    rows, told = [], []
    for raters, name, each in _list_measures(agreement):
        cells = (
            *(*(raters or ("", "")), name, estimate_cell(each, _BRACKETS)),
            *(each.stderr, each.interval, each.n, each.reason),
        )
        whose = " – ".join(raters) or _ALL
        where: Where = "data" if each.value is None else "all"
        rows.append(Row(cells=cells, section=whose, where=where))
        told.append((whose, name, each))
    heading = f"value, {100 * agreement.confidence:g} % interval"
    columns = (
        *make_data_columns("rater_1", "rater_2"),
        Column(name="measure", kind="key"),
        Column(name="value", heading=heading, bounds=("low", "high"), type=float),
        Column(name="stderr", where="data", type=float),
        Column(name="interval", heading="interval by", kind="text"),
        Column(name="n"),
        Column(name="reason", where="data"),
    )
    table = Table(columns=columns, rows=tuple(rows), notes=tuple(explain_nulls(told)))
    return Line(text=_summarize(agreement)), table


def _list_measures(agreement: Agreement) -> Iterator[tuple[Sequence[str], str, Estimate]]:
    """Yield every measure: of which raters, none for all of them, its name, what was found."""
    for name, found in agreement.measures.items():
        yield (), name, found
    for pair in agreement.pairs:
        for name, found in pair.measures.items():
            yield pair.raters, name, found


def _summarize(agreement: Agreement) -> str:
    units = f"{agreement.units:,} units"
    if agreement.clusters < agreement.units:
        units += f" in {agreement.clusters:,} clusters"
    counts = f"{units}, {len(agreement.raters)} raters, {agreement.ratings:,} ratings"
    return counts + (f"; failed calls left out: {agreement.errors:,}" if agreement.errors else "")


def explain_nulls(measures: Iterable[tuple[str, str, Any]]) -> Iterator[str]:
    """Yield why values are null: a line per reason, with the measures and, if not all, whose."""
    found: dict[str, dict[str, list[str]]] = {}
    every: dict[str, int] = {}
    for whose, name, measured in measures:
        every[name] = every.get(name, 0) + 1
        if measured.reason is not None:
            found.setdefault(measured.reason, {}).setdefault(name, []).append(whose)
    for reason, names in found.items():
        where = (
            name if len(whose) == every[name] else f"{name} ({'; '.join(whose)})"
            for name, whose in names.items()
        )
        yield f"{', '.join(where)}: {reason}"

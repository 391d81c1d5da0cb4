"""Agreement of raters, and of judges with people, as documents: a row per measure or aspect."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from calipers.reports.number_format import Form, format_figure
from calipers.reports.table import (
    Column,
    Document,
    Line,
    Row,
    Table,
    Where,
    make_columns,
    make_data_columns,
    make_estimate_cell,
    make_rows,
)
from calipers.scores.calibration import BIAS, PASSED, SENSITIVITY, SPECIFICITY

if TYPE_CHECKING:
    from calipers.comparisons.agree import Agreement
    from calipers.scores.calibration import Calibration, Calibrations
    from calipers.statistics.estimates import Estimate

_ALL = "all raters"
_BRACKETS = Form(brackets=True)
_PERCENT = Form(brackets=True, percent=True)
_RATE = "percent_agreement"


def make_agreement_document(agreement: Agreement) -> Document:
    """Return every measure with its interval, and the reasons for nulls."""
    rows, told = [], []
    for raters, name, each in _list_rater_measures(agreement):
        cells = (
            *(*(raters or (None, None)), name, make_estimate_cell(each, _choose_form(name))),
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


def _choose_form(name: str) -> Form:
    """Return how a measure is written: shares in percent, coefficients as they are."""
    return _PERCENT if name == _RATE else _BRACKETS


def _list_rater_measures(agreement: Agreement) -> Iterator[tuple[Sequence[str], str, Estimate]]:
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


_SIGNED = Form(brackets=True, signed=True)
_OF_NUMBERS = "κ of scores weighs a disagreement by its square; the file has the exact one too"
_COLUMNS = make_columns("aspect", "n", "κ", "α", "Spearman", "bias", where="all")


def make_calibration_document(found: Calibrations) -> Document:
    """Return a table per judge: a row per aspect, every measure with its interval."""
    tables = tuple(tabulate_calibration(each) for each in found.judges)
    weighed = any(aspect != PASSED for each in found.judges for aspect in each.aspects)
    return (*tables, *((Line(text=_OF_NUMBERS, kind="note"),) if weighed else ()))


def tabulate_calibration(each: Calibration) -> Table:
    """Return the table of how far one judge, or one panel, agrees with people."""
    rows = []
    for aspect, measures in each.aspects.items():
        alphas = (found for name, found in measures.items() if name.startswith("krippendorff"))
        shown = (each.kappa(aspect), next(alphas, None), measures.get("spearman"))
        bias = measures.get(BIAS)
        cells = (make_estimate_cell(found, _BRACKETS) for found in shown)
        name = aspect.removeprefix("scores.")
        rows.append((name, bias and bias.n, *cells, make_estimate_cell(bias, _SIGNED)))
    by = " ".join(filter(None, (each.rubric, each.rubric_hash))) or "no rubric named"
    panel = "panel of " if len(each.members) > 1 else ""
    who = ", ".join(model for model, _ in each.members)
    return Table(
        title=f"{panel}{each.judge} ({who}), {by}",
        lead=f"{each.n:,} records judged by people too" + _describe_worth(each),
        columns=_COLUMNS,
        rows=make_rows(rows),
        notes=tuple(_list_rates(each)),
    )


def _describe_worth(each: Calibration) -> str:
    if each.effective_n is None:
        return ""
    return f", drawn by stratum and weighted: worth about {each.effective_n:,.0f} drawn by chance"


def _list_rates(each: Calibration) -> Iterator[str]:
    """Yield what a high κ may hide: the share of bad records that the judge passes."""
    said = (
        ("sensitivity", SENSITIVITY, "of what people pass, the judge passes"),
        ("specificity", SPECIFICITY, "of what people fail, the judge fails"),
    )
    for name, measure, what in said:
        if (found := each.aspects.get(PASSED, {}).get(measure)) is not None:
            rate = format_figure(found.value, found.low, found.high, _PERCENT)
            yield f"{name} {rate}: {what} this share (n {found.n:,})"

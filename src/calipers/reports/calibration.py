"""The agreement of judges with people, as a document."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from calipers.reports.figures import Form, format_figure
from calipers.reports.table import Document, Line, Table, estimate_cell, make_columns, make_rows
from calipers.scores.calibration import BIAS, PASSED, SENSITIVITY, SPECIFICITY

if TYPE_CHECKING:
    from calipers.scores.calibration import Calibration, Calibrations

_BRACKETS = Form(brackets=True)
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
        cells = (estimate_cell(found, _BRACKETS) for found in shown)
        name = aspect.removeprefix("scores.")
        rows.append((name, bias and bias.n, *cells, estimate_cell(bias, _SIGNED)))
    by = " ".join(filter(None, (each.rubric, each.rubric_hash))) or "no rubric named"
    panel = "panel of " if len(each.members) > 1 else ""
    who = ", ".join(model for model, _ in each.members)
    return Table(
        title=f"{panel}{each.judge} ({who}), {by}",
        lead=f"{each.n:,} records judged by people too",
        columns=_COLUMNS,
        rows=make_rows(rows),
        notes=tuple(_list_rates(each)),
    )


def _list_rates(each: Calibration) -> Iterator[str]:
    """Yield what a high κ may hide: the share of bad records that the judge passes."""
    said = (
        ("sensitivity", SENSITIVITY, "of what people pass, the judge passes"),
        ("specificity", SPECIFICITY, "of what people fail, the judge fails"),
    )
    for name, measure, what in said:
        if (found := each.aspects.get(PASSED, {}).get(measure)) is not None:
            rate = format_figure(found.value, found.low, found.high, _BRACKETS)
            yield f"{name} {rate}: {what} this share (n {found.n:,})"

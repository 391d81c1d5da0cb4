"""Agreement as a table: for a terminal, Markdown, CSV and notebooks."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from calipers.reports.figures import NOTHING, figure, printable
from calipers.reports.frames import markdown_cell
from calipers.reports.spreadsheets import csv_text
from calipers.reports.terminal import rendered

if TYPE_CHECKING:
    from calipers.comparisons.agree import Agreement
    from calipers.statistics.influence import Estimate

_ALL = "all raters"
_FIELDS = ("value", "low", "high", "stderr", "interval", "n", "reason")


def agreement_text(agreement: Agreement, console: Console | None = None) -> str:
    """All raters, then each pair: a line per measure, and the reasons for nulls below."""
    return rendered(console, lambda out: _show(agreement, out))


def _show(agreement: Agreement, console: Console) -> None:
    console.print(Text(_summary(agreement)))
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("measure", no_wrap=True)
    for head in ("value", _interval_head(agreement), "n"):
        table.add_column(head, justify="right", no_wrap=True)
    table.add_column("interval by", style="dim")
    for raters, measures in _sections(agreement).items():
        table.add_section()
        table.add_row(Text(raters, style="bold"))
        for name, measured in measures.items():
            table.add_row(f"  {name}", *_cells(measured))
    console.print(table)
    notes = _reasons(agreement)
    if notes:
        console.print(Text("Notes:", style="dim"))
    for note in notes:
        console.print(Padding(Text(note, style="dim"), (0, 0, 0, 2)))


def agreement_markdown(agreement: Agreement) -> str:
    """A table for a pull request or a paper's notes."""
    lines = [
        _summary(agreement),
        "",
        f"| raters | measure | value | {_interval_head(agreement)} | n | interval by |",
        "|---|---|---:|---:|---:|---|",
    ]
    for raters, measures in _sections(agreement).items():
        for name, measured in measures.items():
            lines.append(f"| {markdown_cell(raters)} | {name} | {' | '.join(_cells(measured))} |")
    notes = (f"- {markdown_cell(note)}" for note in _reasons(agreement))
    return "\n".join([*lines, "", *notes]) + "\n"


def agreement_csv(agreement: Agreement) -> str:
    """CSV with a header; an empty cell is a null."""
    rows: list[tuple[Any, ...]] = [("rater_1", "rater_2", "measure", *_FIELDS)]
    sections = [(("", ""), agreement.measures)]
    sections += [(pair.raters, pair.measures) for pair in agreement.pairs]
    for raters, measures in sections:
        for name, found in measures.items():
            rows.append((*raters, name, *(getattr(found, field) for field in _FIELDS)))
    return csv_text(rows)


def agreement_html(agreement: Agreement) -> str:
    """The table for a notebook; all that comes from outside is escaped."""
    rows = []
    for raters, measures in _sections(agreement).items():
        rows.append(f'<tr><th colspan="5" style="text-align:left">{escape(raters)}</th></tr>')
        for name, measured in measures.items():
            cells = "".join(f"<td>{escape(cell)}</td>" for cell in _cells(measured))
            rows.append(f'<tr><td style="text-align:left">{escape(name)}</td>{cells}</tr>')
    heads = ("measure", "value", _interval_head(agreement), "n", "interval by")
    head = "".join(f"<th>{escape(text)}</th>" for text in heads)
    notes = "".join(f"<li>{escape(note)}</li>" for note in _reasons(agreement))
    return (
        f"<p>{escape(_summary(agreement))}</p><table><thead><tr>{head}</tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table>{f'<ul>{notes}</ul>' if notes else ''}"
    )


def _summary(agreement: Agreement) -> str:
    units = f"{agreement.units:,} units"
    if agreement.clusters < agreement.units:
        units += f" in {agreement.clusters:,} clusters"
    counts = f"{units}, {len(agreement.raters)} raters, {agreement.ratings:,} ratings"
    return counts + (f"; failed calls left out: {agreement.errors:,}" if agreement.errors else "")


def _interval_head(agreement: Agreement) -> str:
    return f"{100 * agreement.confidence:g} % interval"


def _sections(agreement: Agreement) -> dict[str, Mapping[str, Estimate]]:
    pairs = {" – ".join(map(printable, pair.raters)): pair.measures for pair in agreement.pairs}
    return {_ALL: agreement.measures, **pairs}


def _cells(found: Estimate) -> tuple[str, str, str, str]:
    bounds = NOTHING if found.low is None else f"{figure(found.low)} to {figure(found.high)}"
    return figure(found.value), bounds, f"{found.n:,}", found.interval or ""


def _reasons(agreement: Agreement) -> list[str]:
    """Why values are null: a line per reason, with the measures and, where not all, whose."""
    found: dict[str, dict[str, list[str]]] = {}
    sections = _sections(agreement)
    for raters, measures in sections.items():
        for name, measured in measures.items():
            if measured.reason is not None:
                found.setdefault(measured.reason, {}).setdefault(name, []).append(raters)
    lines = []
    for reason, names in found.items():
        where = [
            name
            if len(whose) == sum(name in measures for measures in sections.values())
            else f"{name} ({'; '.join(whose)})"
            for name, whose in names.items()
        ]
        lines.append(f"{', '.join(where)}: {printable(reason)}")
    return lines

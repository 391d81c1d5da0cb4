"""Tables of texts, drawn alike for a terminal, Markdown and HTML."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Literal

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from calipers.reports.figures import printable
from calipers.reports.frames import markdown_cell

_GAP = 3  # between columns
_INDENT = "  "


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """Rows in sections, each under its heading, or one section without: the heading is empty."""

    title: str
    heads: Sequence[str]
    sections: Mapping[str, Sequence[Sequence[str]]]
    texts: frozenset[int] = frozenset({0})  # the columns that stand on the left; figures do not

    @property
    def rows(self) -> list[Sequence[str]]:
        """All rows, whatever their section."""
        return [row for rows in self.sections.values() for row in rows]


def print_grid(grid: Grid, out: Console) -> None:
    """To a terminal; columns for which there is no room stand in a table below."""
    out.print(Text(grid.title, style="bold"))
    widths = [max(map(len, cells)) + _GAP for cells in zip(grid.heads, *grid.rows, strict=True)]
    widths[0] = max(widths[0] + len(_INDENT), *map(len, grid.sections))
    for columns in columns_that_fit(widths, out.width):
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for column in columns:
            justify: Literal["left", "right"] = "left" if column in grid.texts else "right"
            table.add_column(grid.heads[column], justify=justify, overflow="fold")
        for heading, rows in grid.sections.items():
            if heading:
                table.add_section()
                table.add_row(Text(heading, style="bold"))
            for row in rows:
                first, *others = (row[column] for column in columns)
                table.add_row(Text(_INDENT + first if heading else first), *map(Text, others))
        out.print(table)


def columns_that_fit(widths: Sequence[int], room: int) -> Iterator[list[int]]:
    """As many columns as there is room for, then the next ones, each time behind the first."""
    columns, used = [0], widths[0]
    for column, width in enumerate(widths[1:], start=1):
        if len(columns) > 1 and used + width > room:
            yield columns
            columns, used = [0], widths[0]
        columns.append(column)
        used += width
    yield columns


def markdown_grid(grid: Grid) -> list[str]:
    """The lines of a table; nothing in a cell can break out of it."""
    places = range(len(grid.heads))
    lines = [f"**{grid.title}**", "", f"| {' | '.join(grid.heads)} |"]
    lines.append(f"|{''.join('---|' if place in grid.texts else '---:|' for place in places)}")
    for heading, rows in grid.sections.items():
        if heading:
            lines.append(f"| **{markdown_cell(heading)}** {'| ' * len(grid.heads)}".rstrip())
        lines += (f"| {' | '.join(map(markdown_cell, row))} |" for row in rows)
    return [*lines, ""]


def html_grid(grid: Grid) -> str:
    """The table for a notebook; everything is escaped."""
    head = "".join(f"<th>{escape(text)}</th>" for text in grid.heads)
    body = []
    for heading, rows in grid.sections.items():
        if heading:
            span = f'<th colspan="{len(grid.heads)}" style="text-align:left">'
            body.append(f"<tr>{span}{escape(heading)}</th></tr>")
        body += (f"<tr>{_html_cells(grid, row)}</tr>" for row in rows)
    return (
        f"<p><b>{escape(grid.title)}</b></p><table><thead><tr>{head}</tr></thead>"
        f"<tbody>{''.join(body)}</tbody></table>"
    )


def _html_cells(grid: Grid, row: Sequence[str]) -> str:
    return "".join(
        f'<td style="text-align:{"left" if place in grid.texts else "right"}">{escape(cell)}</td>'
        for place, cell in enumerate(row)
    )


def html_list(notes: Iterable[str]) -> str:
    """Notes below a table."""
    listed = "".join(f"<li>{escape(printable(note))}</li>" for note in notes)
    return f"<ul>{listed}</ul>" if listed else ""

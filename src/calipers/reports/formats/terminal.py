"""Documents on a terminal."""

from __future__ import annotations

import io
import os
import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from calipers.reports.number_format import strip_controls
from calipers.reports.table import (
    Cell,
    Column,
    Document,
    Line,
    Row,
    Table,
    hide_data,
    list_sentences,
)

_PLAIN_WIDTH, _NARROWEST = 120, 40
_LONGEST_HEAD = 28
_GAP = 3  # between columns
_INDENT = "  "
_WIDEST_BAR, _NARROWEST_BAR = 20, 8
_STYLES = {
    "": "",
    "pass": "green",
    "fail": "bold red",
    "warn": "yellow",
    "inconclusive": "bold magenta",
    "incomplete": "bold magenta",
    "gain": "green",
    "loss": "red",
    "quiet": "dim",
}


class _StdoutConsole(Console):
    """A console that lets the command line handle a broken pipe."""

    def on_broken_pipe(self) -> None:
        """Raise the error; rich would exit with 1."""
        raise BrokenPipeError


def open_stdout() -> Console:
    """Return standard output as a console: as wide as the terminal, as COLUMNS says, or fixed."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # not every terminal knows a dash or a Δ
    width = None if sys.stdout.isatty() else _read_columns()
    return _StdoutConsole(width=width, highlight=False, markup=False, emoji=False)


def _read_columns() -> int:
    """Return the width that COLUMNS asks for where there is no terminal; else a fixed one."""
    asked = os.environ.get("COLUMNS", "")
    return max(_NARROWEST, int(asked)) if asked.isdecimal() else _PLAIN_WIDTH


def render_text(document: Document) -> str:
    """Return a document as plain text of a fixed width."""
    out = io.StringIO()
    plain = Console(file=out, width=_PLAIN_WIDTH, highlight=False, markup=False, emoji=False)
    show_document(document, plain)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def show_document(document: Document, out: Console) -> None:
    """Print a document."""
    ended = True  # whether the last block ended with a blank line
    for block in document:
        if isinstance(block, Table):
            if block.title and not ended:
                out.print()
            _show_table(hide_data(block), out)
            ended = not block.notes
        else:
            _show_line(block, out)
            ended = False


def _show_line(line: Line, out: Console) -> None:
    text = strip_controls(line.text)
    if line.kind == "verdict":
        out.print(Text.assemble((line.tone.upper(), _STYLES[line.tone]), f"  {text}"))
    elif line.kind == "note":
        _show_note(text, out, _STYLES[line.tone] or "dim")
    elif line.kind == "code":  # in one piece, so that it can be copied
        out.print(Text(_INDENT + text), soft_wrap=True)
    else:
        out.print(Text(text, style="bold" if line.kind == "heading" else _STYLES[line.tone]))


def _show_note(text: str, out: Console, style: str = "dim") -> None:
    out.print(Padding(Text(text, style=style), (0, 0, 0, len(_INDENT)), expand=False))


def _show_table(table: Table, out: Console) -> None:
    if table.title:
        out.print(Text(strip_controls(table.title), style="bold"))
    if table.lead:
        out.print(Text(strip_controls(table.lead), style="dim"))
    if table.rows:
        table = _draw_bars(table, out.width)
        told = [place for place, each in enumerate(table.columns) if _is_told(table, place, each)]
        parts = list(_fit_columns(table, told, out.width))
        for places in parts:
            whole = len(parts) == 1 and _fits_whole(table, told, out.width)
            out.print(_make_table(table, places, whole=whole))
    for row, name, said in list_sentences(table):
        style = _STYLES[row.tone]
        line = Text.assemble((f"{row.tone} ".lstrip(), style), (name, style), f": {said}")
        out.print(Padding(line, (0, 0, 0, 1), expand=False))
    for note in table.notes:
        _show_note(strip_controls(note), out)


def _is_told(table: Table, place: int, column: Column) -> bool:
    """Say whether a column stands in the table: no sentences, bars only where there is room."""
    if column.kind == "bar":
        return any(row.get_cell(place).shown for row in table.rows)
    return column.kind != "words"


def _draw_bars(table: Table, room: int) -> Table:
    """Return the table with its bars as wide as there is room for; without them if there is none.

    A table without bars is what it was.
    """
    bars = [place for place, each in enumerate(table.columns) if each.kind == "bar"]
    if not bars:
        return table
    told = [place for place, each in enumerate(table.columns) if each.kind not in ("words", "bar")]
    left = room - sum(_measure_width(table, place, whole=True) + _GAP for place in told)
    width = min(_WIDEST_BAR, left // len(bars) - _GAP)
    if width < _NARROWEST_BAR:
        width = 0
    rows = (
        replace(
            row, cells=tuple(_draw_bar(row.get_cell(at), width) for at in range(len(row.cells)))
        )
        for row in table.rows
    )
    return replace(table, rows=tuple(rows))


def _draw_bar(cell: Cell, width: int) -> Cell:
    if cell.span is None:
        return cell
    return replace(cell, span=None, text=cell.span.draw(width) if width else "")


def _fit_columns(table: Table, told: Sequence[int], room: int) -> Iterator[list[int]]:
    """Yield as many columns as there is room for, then the next ones, each time with the keys."""
    if _fits_whole(table, told, room):
        yield list(told)
        return
    widths = {place: _measure_width(table, place) + _GAP for place in told}
    kept = {place for place in told if table.columns[place].kind in ("key", "tag", "unit")}
    always = sum(widths[place] for place in kept)
    chosen, used = set(kept), always
    for place in told:
        if place not in kept:
            if chosen != kept and used + widths[place] > room:
                yield sorted(chosen)
                chosen, used = set(kept), always
            chosen.add(place)
            used += widths[place]
    yield sorted(chosen)


def _fits_whole(table: Table, told: Sequence[int], room: int) -> bool:
    """Say whether there is room for all columns with their headings on one line."""
    return sum(_measure_width(table, place, whole=True) + _GAP for place in told) <= room


def _measure_width(table: Table, place: int, *, whole: bool = False) -> int:
    head = _make_head(table, place, whole=whole).split("\n")
    return max(_measure_cells(table, place), *map(cell_len, head))


def _measure_cells(table: Table, place: int) -> int:
    indent = len(_INDENT) if place == 0 and any(row.section for row in table.rows) else 0
    return max(cell_len(row.get_cell(place).shown) + indent for row in table.rows)


def _make_table(table: Table, places: Sequence[int], *, whole: bool) -> RichTable:
    headed = any(_make_head(table, place) for place in places)
    style = box.SIMPLE_HEAD if headed else None
    made = RichTable(box=style, pad_edge=False, show_header=headed)
    for place in places:
        column = table.columns[place]
        justify: Literal["left", "right"] = "right" if column.right else "left"
        quiet = "dim" if column.kind == "unit" or (column.kind == "key" and not headed) else ""
        head = Text(_make_head(table, place, whole=whole))
        made.add_column(head, justify=justify, overflow="fold", style=quiet)
    section = ""
    for row in table.rows:
        if row.section != section:
            made.add_section()
            made.add_row(Text(strip_controls(row.section), style="bold"))
        section = row.section
        cells = (
            _make_cell(row.get_cell(place), row, indented=place == places[0]) for place in places
        )
        made.add_row(*cells, style="dim" if row.tone == "quiet" else "")
    return made


def _make_cell(cell: Cell, row: Row, *, indented: bool) -> Text:
    indent = _INDENT if indented and row.section else ""
    style = f"{_STYLES[cell.tone]} bold".strip() if cell.strong else _STYLES[cell.tone]
    return Text(indent + cell.shown, style=style)


def _make_head(table: Table, place: int, *, whole: bool = False) -> str:
    """Return a column's heading: whole, or wrapped where its cells are narrower."""
    column = table.columns[place]
    if column.kind == "unit":
        return ""
    head = column.head
    short = head if len(head) <= _LONGEST_HEAD else f"{head[: _LONGEST_HEAD - 1]}…"
    if whole:
        return short
    most = max(_measure_cells(table, place), *map(len, short.split(" ")))
    return "\n".join(textwrap.wrap(short, most, break_long_words=False)) or short

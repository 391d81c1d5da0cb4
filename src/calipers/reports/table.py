"""The one model of shown tables: typed cells, and the lines around them.

A builder makes a document once; a renderer per format writes it: `terminal`, `markdown`, `latex`,
`html` (notebooks, the report, the dashboard) and `spreadsheets` (CSV, data frames). A column that
is added to a table is in all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from calipers.reports.number_format import (
    NOTHING,
    PLAIN,
    Form,
    show_name,
    split_figure,
    strip_controls,
)

Verdicts: TypeAlias = Literal["pass", "fail", "warn", "inconclusive", "incomplete"]
Tone: TypeAlias = Verdicts | Literal["", "gain", "loss", "quiet", "low1", "low2", "low3"]
Kind = Literal["key", "text", "figure", "tag", "words", "unit", "lane", "bar"]
"""What a column holds: what names the row, words or figures, a verdict, sentences (below the table
where there is no room for them), the unit of a key, an interval drawn around 0, an interval drawn
against its limit."""
Where = Literal["all", "people", "data", "web"]
"""Who a column or row is for; `data` are CSV and data frames, `web` the pages of the dashboard."""

SIGNS = {"pass": "✅", "fail": "❌", "warn": "⚠️", "inconclusive": "❔", "incomplete": "❔"}


_TRACK, _REACH, _AT, _LIMIT = "─", "━", "●", "┊"


@dataclass(frozen=True, slots=True, kw_only=True)
class BarSpan:
    """A value with its interval and limit on a scale from 0 to 1; open where a bound is missing."""

    value: float
    low: float
    high: float
    limit: float | None = None

    def draw(self, width: int = 20) -> str:
        """Return it in characters.

        >>> BarSpan(value=0.8, low=0.5, high=0.96, limit=0.9).draw()
        '──────────━━━━━━●━┊━'
        """
        first, last, at = (_place(each, width) for each in (self.low, self.high, self.value))
        drawn = [_REACH if first <= place <= last else _TRACK for place in range(width)]
        drawn[at] = _AT
        if self.limit is not None:
            mark = _place(self.limit, width)
            if mark == at:  # beside the value, on the side where it lies
                mark += 1 if self.limit > self.value else -1
            if 0 <= mark < width:
                drawn[mark] = _LIMIT
        return "".join(drawn)


def _place(share: float, width: int) -> int:
    return min(width - 1, max(0, int(share * width)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column: its name in data, its heading for people."""

    name: str
    heading: str | None = None  # by default the name
    kind: Kind = "figure"
    where: Where = "all"
    bounds: tuple[str, str] | None = None  # the names that an interval's bounds have in data
    type: type[str] | type[float] | type[int] | None = None  # in a data frame; None: as it comes
    of: str = ""  # of a unit: the key that it belongs to
    note: str = ""
    link: str = ""

    @property
    def head(self) -> str:
        """The heading that people read."""
        return strip_controls(self.name if self.heading is None else self.heading)

    @property
    def right(self) -> bool:
        """Say whether it is aligned to the right."""
        return self.kind == "figure"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A value with its interval, its format, and what pages add to it."""

    value: Any = None
    low: float | None = None
    high: float | None = None
    form: Form = PLAIN
    text: str | None = None  # where people read something else than the value
    mark: str = ""  # behind the text
    tone: Tone = ""
    strong: bool = False  # in bold: what is significantly best
    note: str = ""  # shown on hover: the rows behind the value, or why there is none
    link: str = ""
    span: BarSpan | None = None  # drawn in a column of kind `bar`

    @property
    def parts(self) -> tuple[str, str]:
        """The value as people read it and, separately, its interval."""
        if self.span is not None:
            return self.span.draw(), ""
        if self.text is not None:
            return strip_controls(self.text) + self.mark, ""
        if self.value is None:
            return NOTHING, ""
        if isinstance(self.value, bool) or not isinstance(self.value, int | float):
            return strip_controls(self.value) + self.mark, ""
        if isinstance(self.value, int) and self.form is PLAIN and self.low is None:
            return f"{self.value:,}{self.mark}", ""
        value, reach = split_figure(self.value, self.low, self.high, self.form)
        return (value, reach + self.mark) if reach else (value + self.mark, "")

    @property
    def shown(self) -> str:
        """The whole as people read it."""
        return " ".join(filter(None, self.parts))


_SIGNED = Form(signed=True)
EMPTY = Cell(text="")
ABSENT = Cell()


def make_name_cell(name: str) -> Cell:
    """Return the cell of a name from the data."""
    return Cell(value=name, text=show_name(name))


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A cell per column; a plain value stands for a cell that only has it."""

    cells: tuple[Any, ...]
    section: str = ""  # the heading that it stands under
    tone: Tone = ""
    where: Where = "all"

    def get_cell(self, place: int) -> Cell:
        """Return the cell in a column."""
        found = self.cells[place]
        return found if isinstance(found, Cell) else Cell(value=found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows under columns, with a title above and notes below."""

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    title: str = ""
    lead: str = ""  # a line between title and table
    notes: tuple[str, ...] = ()
    across: str = ""  # the key whose values people see side by side, a column each

    def find_column(self, name: str) -> int:
        """Return the place of a column."""
        return next(place for place, each in enumerate(self.columns) if each.name == name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line of a document: a heading, a verdict with its summary, a sentence, a note, code."""

    text: str
    kind: Literal["heading", "verdict", "text", "note", "code"] = "text"
    tone: Tone = ""


Document: TypeAlias = tuple["Table | Line", ...]


def make_columns(
    *names: str, texts: Sequence[str] = (), where: Where = "people"
) -> tuple[Column, ...]:
    """Return columns for people: the first names the row, those in `texts` hold words."""
    further: tuple[Kind, ...] = tuple("text" if name in texts else "figure" for name in names[1:])
    kinds: tuple[Kind, ...] = ("key", *further)
    return tuple(
        Column(name=name, kind=kind, where=where) for name, kind in zip(names, kinds, strict=True)
    )


def make_data_columns(*names: str) -> tuple[Column, ...]:
    """Return columns that only data have."""
    return tuple(Column(name=name, where="data") for name in names)


def make_rows(cells: Iterable[Iterable[Any]]) -> tuple[Row, ...]:
    """Return a row for each list of cells."""
    return tuple(Row(cells=tuple(each)) for each in cells)


def make_lines(texts: Sequence[str], kind: Literal["text", "note"] = "text") -> Document:
    """Return each text as a line."""
    return tuple(Line(text=text, kind=kind) for text in texts)


def hide_data(table: Table, *, web: bool = False) -> Table:
    """Return the table as people see it: without data-only columns, one key side by side."""
    wanted = ("all", "people", "web") if web else ("all", "people")
    kept = [place for place, each in enumerate(table.columns) if each.where in wanted]
    rows = tuple(
        replace(row, cells=tuple(row.get_cell(place) for place in kept))
        for row in table.rows
        if row.where in wanted
    )
    columns = tuple(table.columns[place] for place in kept)
    whole = replace(table, columns=columns, rows=rows)
    return _spread_key(whole) if table.across else whole


def _spread_key(table: Table) -> Table:
    """Return a table with a column for each value of the key `across`, and a row for the other."""
    across = table.find_column(table.across)
    down = next(
        place
        for place, each in enumerate(table.columns)
        if each.kind == "key" and each.name != table.across
    )
    units = [place for place, each in enumerate(table.columns) if each.kind == "unit"]
    values = [place for place in range(len(table.columns)) if place not in (across, down, *units)]
    columns: dict[Any, Row] = {}  # the first row of each
    rows: dict[Any, Row] = {}
    found: dict[tuple[Any, Any], Row] = {}
    for row in table.rows:
        key, other = row.get_cell(down).value, row.get_cell(across).value
        columns.setdefault(other, row)
        rows.setdefault(key, row)
        found[key, other] = row
    below = [place for place in units if table.columns[place].of == table.columns[down].name]
    heads = [
        _make_head(table, row, across, place, alone=len(values) == 1)
        for row in columns.values()
        for place in values
    ]
    spread = []
    for key, row in rows.items():
        beside = (found.get((key, other)) for other in columns)
        cells = (ABSENT if r is None else r.get_cell(place) for r in beside for place in values)
        last = (row.get_cell(place) for place in below)
        spread.append(replace(row, cells=(row.get_cell(down), *cells, *last)))
    kept = (table.columns[down], *heads, *(table.columns[place] for place in below))
    return replace(table, columns=kept, rows=tuple(spread), across="")


def _make_head(table: Table, row: Row, across: int, place: int, *, alone: bool) -> Column:
    """Return the column of one value of the key: its name and unit, and which value if several."""
    cell, column = row.get_cell(across), table.columns[place]
    text = cell.shown
    for unit, each in enumerate(table.columns):
        is_own = each.kind == "unit" and each.of == table.columns[across].name
        if is_own and row.get_cell(unit).value:
            text += f" ({row.get_cell(unit).shown})"
    heading = text if alone else f"{text} {column.head}"
    return replace(
        column, name=f"{text} {column.name}", heading=heading, note=cell.note, link=cell.link
    )


def list_sentences(table: Table) -> Iterator[tuple[Row, str, str]]:
    """Yield the sentences of a table: the row, its name, and the sentence."""
    key = next((place for place, each in enumerate(table.columns) if each.kind == "key"), 0)
    for place, column in enumerate(table.columns):
        if column.kind == "words":
            for row in table.rows:
                if said := row.get_cell(place).shown:
                    of = f" ({strip_controls(row.section)})" if row.section else ""
                    yield row, f"{row.get_cell(key).shown}{of}", said


def list_data_columns(table: Table) -> list[Column]:
    """Return the columns that are data, each interval with its bounds as columns."""
    found: list[Column] = []
    for column in table.columns:
        if column.where in ("all", "data"):
            found.append(column)
            found += (replace(column, name=name) for name in column.bounds or ())
    return found


def list_data_rows(table: Table) -> list[list[Any]]:
    """Return the values of the rows that are data, in full precision."""
    kept = [place for place, each in enumerate(table.columns) if each.where in ("all", "data")]
    bounded = {place for place in kept if table.columns[place].bounds}
    found = []
    for row in table.rows:
        if row.where in ("all", "data"):
            values: list[Any] = []
            for place in kept:
                cell = row.cells[place]
                values.append(cell.value if isinstance(cell, Cell) else cell)
                if place in bounded:
                    values += (cell.low, cell.high) if isinstance(cell, Cell) else (None, None)
            found.append(values)
    return found


def make_difference_cell(found: Any, tone: Tone = "", form: Form = _SIGNED) -> Cell:
    """Return the cell of anything with a difference and its interval."""
    return Cell(value=found.difference, low=found.low, high=found.high, form=form, tone=tone)


def make_estimate_cell(found: Any, form: Form = PLAIN, **further: Any) -> Cell:
    """Return the cell of anything with a value, an interval, and a reason where it is null."""
    if found is None:
        return ABSENT
    note = further.pop("note", None)
    if note is None:
        n = getattr(found, "n", None)
        note = found.reason or (f"n = {n:,}" if n is not None else "") or ""
    return Cell(value=found.value, low=found.low, high=found.high, form=form, note=note, **further)

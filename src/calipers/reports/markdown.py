"""Documents as Markdown, for a pull request or a paper's notes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from calipers.reports.figures import printable
from calipers.reports.table import SIGNS, Cell, Document, Line, Table, for_people, sentences

_SPECIAL = re.compile(r"(\[[\d.,e+−—∞ -]*\])|[\\|`\[\]]")  # an interval stays as it is


def document_markdown(document: Document) -> str:
    """Return a document as Markdown; nothing in it can break out of its cell or line."""
    found: list[str] = []
    for block in document:
        found += _table(for_people(block)) if isinstance(block, Table) else _line(block, found)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(found)).strip("\n") + "\n"


def _line(line: Line, before: list[str]) -> Iterator[str]:
    text = markdown_cell(line.text)
    if line.kind == "verdict":
        yield from (f"### {SIGNS[line.tone]} gate: {line.tone}", "", text, "")
    elif line.kind == "heading":
        yield from ("", f"### {text}", "")
    elif line.kind == "code":
        yield from ("", f"    {printable(line.text)}", "")
    elif line.kind == "note":
        if before and not before[-1].startswith("- "):
            yield ""
        yield f"- {text}"
    else:
        yield from (text, "")


def table_lines(table: Table) -> list[str]:
    """Return the lines of a table without its title."""
    return list(_rows(for_people(table)))


def _table(table: Table) -> Iterator[str]:
    if table.title:
        yield from ("", f"**{markdown_cell(table.title)}**", "")
    if table.lead:
        yield from (markdown_cell(table.lead), "")
    yield from _rows(table)


def _rows(table: Table) -> Iterator[str]:
    told = [place for place, each in enumerate(table.columns) if each.kind not in ("words", "unit")]
    units = {
        column.of: place for place, column in enumerate(table.columns) if column.kind == "unit"
    }
    if table.rows:
        yield f"| {' | '.join(markdown_cell(table.columns[place].head) for place in told)} |"
        yield f"|{''.join('---:|' if table.columns[place].right else '---|' for place in told)}"
    section = ""
    for row in table.rows:
        if row.section != section:
            yield f"| **{markdown_cell(row.section)}** {'| ' * len(told)}".rstrip()
        section = row.section
        texts = []
        for place in told:
            unit = units.get(table.columns[place].name)
            behind = (
                "" if unit is None or not row.cell(unit).value else f" ({row.cell(unit).shown})"
            )
            texts.append(_cell(row.cell(place), signed=table.columns[place].kind == "tag") + behind)
        yield f"| {' | '.join(texts)} |"
    yield from _below(table)


def _cell(cell: Cell, *, signed: bool) -> str:
    sign = f"{SIGNS[cell.tone]} " if signed and cell.tone in SIGNS else ""
    return sign + markdown_cell(cell.shown)


def _below(table: Table) -> Iterator[str]:
    """Yield the sentences of its rows, then its notes."""
    yield ""
    for row, name, said in sentences(table):
        sign = f"{SIGNS[row.tone]} " if row.tone in SIGNS else ""
        yield f"- {sign}**{markdown_cell(name)}**: {markdown_cell(said)}"
    yield from (f"- {markdown_cell(note)}" for note in table.notes)
    yield ""


def markdown_cell(text: str) -> str:
    """Return text from outside for a table: no new column, no link, no HTML."""
    escaped = _SPECIAL.sub(lambda found: found[1] or f"\\{found[0]}", printable(text))
    return escaped.replace("<", "&lt;")

"""Documents as Markdown, for a pull request or a paper's notes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from calipers.reports.number_format import strip_controls
from calipers.reports.table import EMPTY, SIGNS, Document, Line, Table, hide_data, list_sentences

# What begins emphasis, code, a link, a formula, an entity or a cell; an interval stays as it is.
_SPECIAL = re.compile(r"(\[[\d.,e+−—∞ -]*\])|[\\|`\[\]]|[*$~](?=\S)|(?<!\w)_(?=\S)|&(?=#?\w+;)")


def render_markdown(document: Document) -> str:
    """Return a document as Markdown; nothing in it can break out of its cell or line."""
    found: list[str] = []
    for block in document:
        found += _render_titled(block) if isinstance(block, Table) else _render_line(block, found)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(found)).strip("\n") + "\n"


def _render_line(line: Line, before: list[str]) -> Iterator[str]:
    text = escape_cell(line.text)
    if line.kind == "verdict":
        yield from (f"### {SIGNS[line.tone]} gate: {line.tone}", "", text, "")
    elif line.kind == "heading":
        yield from ("", f"### {text}", "")
    elif line.kind == "code":
        yield from ("", f"    {strip_controls(line.text)}", "")
    elif line.kind == "note":
        if before and not before[-1].startswith("- "):
            yield ""
        yield f"- {text}"
    else:
        yield from (text, "")


def render_markdown_table(table: Table) -> list[str]:
    """Return the lines of a table without its title."""
    return list(_render_rows(hide_data(table)))


def _render_titled(table: Table) -> Iterator[str]:
    if table.title:
        yield from ("", f"**{escape_cell(table.title)}**", "")
    if table.lead:
        yield from (escape_cell(table.lead), "")
    yield from _render_rows(hide_data(table))


def _render_rows(table: Table) -> Iterator[str]:
    told = [place for place, each in enumerate(table.columns) if each.kind not in ("words", "unit")]
    units = {
        column.of: place for place, column in enumerate(table.columns) if column.kind == "unit"
    }
    if table.rows:
        yield f"| {' | '.join(escape_cell(table.columns[place].head) for place in told)} |"
        yield f"|{''.join('---:|' if table.columns[place].right else '---|' for place in told)}"
    section = ""
    for row in table.rows:
        if row.section != section:
            yield f"| **{escape_cell(row.section)}** {'| ' * len(told)}".rstrip()
        section = row.section
        texts = []
        for place in told:
            column, cell = table.columns[place], row.get_cell(place)
            unit = row.get_cell(units[column.name]) if column.name in units else EMPTY
            behind = f" ({unit.shown})" if unit.value else ""
            sign = f"{SIGNS[cell.tone]} " if column.kind == "tag" and cell.tone in SIGNS else ""
            text = f"`{cell.shown}`" if cell.span is not None else escape_cell(cell.shown)
            texts.append(f"{sign}{f'**{text}**' if cell.strong else text}{behind}")
        yield f"| {' | '.join(texts)} |"
    yield from _render_notes(table)


def _render_notes(table: Table) -> Iterator[str]:
    yield ""
    for row, name, said in list_sentences(table):
        sign = f"{SIGNS[row.tone]} " if row.tone in SIGNS else ""
        yield f"- {sign}**{escape_cell(name)}**: {escape_cell(said)}"
    for note in table.notes:
        escape = "\\" if note.startswith("* ") else ""  # it would begin a list of its own
        yield f"- {escape}{escape_cell(note)}"
    yield ""


def escape_cell(text: str) -> str:
    """Return untrusted text for a table cell: no new column, no link, no HTML."""
    escaped = _SPECIAL.sub(lambda found: found[1] or f"\\{found[0]}", strip_controls(text))
    return escaped.replace("<", "&lt;")

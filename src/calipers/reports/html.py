"""Documents as HTML: for notebooks, the report and the dashboard; every text is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape

from calipers.reports.figures import printable
from calipers.reports.table import SIGNS, Cell, Column, Document, Line, Row, Table, for_people

_STYLE = (
    "<style>.calipers .number{text-align:right}.calipers .words{text-align:left}"
    ".calipers th{text-align:left}.calipers th.number{text-align:right}"
    ".calipers .unseen{display:none}</style>"
)
_DENSE = 3  # columns with intervals beyond which these stand below their values
_TALL = 40  # rows beyond which a table scrolls
_TAGS = ("pass", "fail", "warn", "inconclusive", "incomplete")


def document_html(document: Document) -> str:
    """Return a document for a notebook, with the little style that it needs."""
    pieces: list[str] = []
    for block in document:
        if isinstance(block, Line):
            pieces.append(_line(block))
            continue
        head = f"<p><strong>{_text(block.title)}</strong></p>" if block.title else ""
        lead = f"<p>{_text(block.lead)}</p>" if block.lead else ""
        pieces += (head, lead, html_table(block))
    return f'{_STYLE}<div class="calipers">{"".join(pieces)}</div>'


def _line(line: Line) -> str:
    text = _text(line.text)
    if line.kind == "verdict":
        return f"<p><strong>{SIGNS[line.tone]} {line.tone}</strong> {text}</p>"
    if line.kind == "code":
        return f"<pre><code>{text}</code></pre>"
    return f"<p><strong>{text}</strong></p>" if line.kind == "heading" else f"<p>{text}</p>"


def html_table(table: Table, label: str = "", *, captioned: bool = False) -> str:
    """Return a table with its notes; `label` is its name for screen readers."""
    seen = for_people(table, web=True)
    classes = ["table"]
    bounded = (any(row.cell(at).parts[1] for row in seen.rows) for at in range(len(seen.columns)))
    classes += ["dense"] * (sum(bounded) > _DENSE)
    classes += ["tall"] * (len(seen.rows) > _TALL)
    classes += ["stacks"] * any(each.kind == "words" for each in seen.columns)
    caption = f"<caption>{_text(table.title)}</caption>" if captioned and table.title else ""
    heads = "".join(map(_head, seen.columns))
    body = "".join(_rows(seen))
    shown = (
        f'<div class="{" ".join(classes)}" role="region" '
        f'aria-label="{_text(label or table.title or "Table")}" tabindex="0"><table>{caption}'
        f"<thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>"
    )
    return (shown if seen.rows else "") + html_notes(table.notes)


def html_notes(notes: Iterable[str]) -> str:
    """Return notes as a list; nothing where there are none."""
    listed = "".join(f"<li>{_text(note)}</li>" for note in notes)
    return f'<ul class="notes">{listed}</ul>' if listed else ""


def _text(text: str) -> str:
    return escape(printable(text))


def _head(column: Column) -> str:
    text = _linked(_text(column.head), column.link, column.note)
    return f'<th scope="col"{_class(column)}>{text}</th>'


def _class(column: Column, *further: str) -> str:
    own = {"figure": "number", "words": "words", "unit": "quiet", "lane": "lane"}.get(column.kind)
    names = " ".join(filter(None, (own, *further)))
    return f' class="{names}"' if names else ""


def _rows(table: Table) -> Iterator[str]:
    keys = [place for place, each in enumerate(table.columns) if each.kind == "key"]
    named = keys[0] if keys else 0
    section = ""
    for row in table.rows:
        if row.section != section:
            span = f'<th colspan="{len(table.columns)}" scope="rowgroup">'
            yield f'<tr class="section">{span}{_text(row.section)}</th></tr>'
        section = row.section
        cells = (_cell(table, row, place, named) for place in range(len(table.columns)))
        yield f"<tr>{''.join(cells)}</tr>"


def _cell(table: Table, row: Row, place: int, named: int) -> str:
    column, cell = table.columns[place], row.cell(place)
    if place == named:
        return f'<th scope="row">{_linked(escape(cell.shown), cell.link, cell.note)}</th>'
    if column.kind == "lane":
        return f"<td{_class(column)}>{_lane(cell)}</td>"
    label = "" if column.kind == "words" else f' data-label="{_text(column.head)}"'
    if cell.value is None and cell.text is None:
        why = _text(cell.note)
        title = f' title="{why}"' if why else ""
        unseen = f'<span class="unseen"> {why}</span>' if why else ""
        return f"<td{_class(column, 'null')}{label}{title}>{escape(cell.shown)}{unseen}</td>"
    title = f' title="{_text(cell.note)}"' if cell.note else ""
    return f"<td{_class(column)}{label}{title}>{_figure(cell)}</td>"


def _figure(cell: Cell) -> str:
    value, reach = map(escape, cell.parts)
    shown = _linked(value, cell.link) + (f" <small>{reach}</small>" if reach else "")
    if cell.tone in _TAGS:
        return f'<span class="tag {cell.tone}">{shown}</span>'
    return f'<span class="{cell.tone}">{shown}</span>' if cell.tone else shown


def _linked(text: str, link: str, note: str = "") -> str:
    title = f' title="{_text(note)}"' if note else ""
    if link:
        return f'<a href="{escape(link)}"{title}>{text}</a>'
    return f"<span{title}>{text}</span>" if note else text


def _lane(cell: Cell) -> str:
    """Return an interval drawn around 0, which is in the middle."""
    if cell.low is None or cell.high is None or max(abs(cell.low), abs(cell.high)) > 1e300:  # noqa: PLR2004
        return ""
    reach = 1.05 * max(abs(cell.low), abs(cell.high), 1e-12)
    start, width = 50 + 50 * cell.low / reach, 50 * (cell.high - cell.low) / reach
    kind = {"gain": "won", "loss": "lost"}.get(cell.tone, "call")
    return (
        '<svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true" focusable="false">'
        '<rect class="track" x="0" y="4.5" width="100" height="1"/>'
        '<rect class="zero" x="49.7" y="0" width="0.6" height="10"/>'
        f'<rect class="{kind}" x="{start:.2f}" y="2.5" width="{width:.2f}" height="5"/></svg>'
    )

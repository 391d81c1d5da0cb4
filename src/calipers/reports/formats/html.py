"""Documents as HTML: for notebooks, the report and the dashboard; every text is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape
from re import compile as compile_pattern

from calipers.reports.number_format import shorten_name, strip_controls
from calipers.reports.table import SIGNS, Cell, Column, Document, Line, Row, Table, hide_data

_STYLE = (
    "<style>.calipers th,.calipers td{padding:.2em .7em;vertical-align:baseline}"
    ".calipers .number{text-align:right;white-space:nowrap}.calipers .words{text-align:left}"
    ".calipers th{text-align:left}.calipers th.number{text-align:right}"
    ".calipers .unseen{display:none}</style>"
)
_DENSE = 3  # columns with intervals beyond which these stand below their values
_TALL = 40  # rows beyond which a table scrolls
_LONGEST_WORD = 44  # characters; a longer one, as names of systems are, is cut in the middle
_LONG_WORD = compile_pattern(rf"\S{{{_LONGEST_WORD + 1},}}")
_TAGS = ("pass", "fail", "warn", "inconclusive", "incomplete")


def render_html(document: Document) -> str:
    """Return a document for a notebook, with the little style that it needs."""
    pieces: list[str] = []
    for block in document:
        if isinstance(block, Line):
            pieces.append(_render_line(block))
            continue
        head = f"<p><strong>{_escape(block.title)}</strong></p>" if block.title else ""
        lead = f"<p>{_escape(block.lead)}</p>" if block.lead else ""
        pieces += (head, lead, render_html_table(block))
    return f'{_STYLE}<div class="calipers">{"".join(pieces)}</div>'


def _render_line(line: Line) -> str:
    text = _escape(line.text)
    if line.kind == "verdict":
        return f"<p><strong>{SIGNS[line.tone]} {line.tone}</strong> {text}</p>"
    if line.kind == "code":
        return f"<pre><code>{text}</code></pre>"
    return f"<p><strong>{text}</strong></p>" if line.kind == "heading" else f"<p>{text}</p>"


def render_html_table(table: Table, label: str = "", *, captioned: bool = False) -> str:
    """Return a table with its notes; `label` is its name for screen readers."""
    seen = hide_data(table, web=True)
    classes = ["table"]
    bounded = (
        any(row.get_cell(at).parts[1] for row in seen.rows) for at in range(len(seen.columns))
    )
    classes += ["dense"] * (sum(bounded) > _DENSE)
    classes += ["tall"] * (len(seen.rows) > _TALL)
    classes += ["stacks"] * any(each.kind == "words" for each in seen.columns)
    caption = f"<caption>{_escape(table.title)}</caption>" if captioned and table.title else ""
    heads = "".join(map(_render_head, seen.columns))
    body = "".join(_render_rows(seen))
    shown = (
        f'<div class="{" ".join(classes)}" role="region" '
        f'aria-label="{_escape(label or table.title or "Table")}" tabindex="0"><table>{caption}'
        f"<thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>"
    )
    return (shown if seen.rows else "") + render_notes(table.notes)


def render_notes(notes: Iterable[str]) -> str:
    """Return notes as a list; empty without notes."""
    listed = "".join(f"<li>{_escape(note)}</li>" for note in notes)
    return f'<ul class="notes">{listed}</ul>' if listed else ""


def _escape(text: str) -> str:
    return escape(strip_controls(text))


def render_name(text: str, link: str = "", note: str = "") -> str:
    """Return a text whose very long words are cut; the whole is its title, and seen on focus."""
    shown = strip_controls(text)
    short = _LONG_WORD.sub(lambda found: shorten_name(found[0], _LONGEST_WORD), shown)
    if short == shown:
        return _add_link(escape(shown), link, note)
    whole = f"{shown}: {note}" if note else shown
    if link:
        return _add_link(escape(short), link, whole)
    return f'<span class="cut" tabindex="0" title="{_escape(whole)}">{escape(short)}</span>'


def _render_head(column: Column) -> str:
    text = render_name(column.head, column.link, column.note)
    if not text and column.kind in ("bar", "lane"):
        text = '<span class="unseen">interval</span>'
    return f'<th scope="col"{_make_class(column)}>{text}</th>'


def _make_class(column: Column, *further: str) -> str:
    own = {
        "figure": "number",
        "words": "words",
        "unit": "quiet",
        "lane": "lane",
        "bar": "span",
    }.get(column.kind)
    names = " ".join(filter(None, (own, *further)))
    return f' class="{names}"' if names else ""


def _render_rows(table: Table) -> Iterator[str]:
    keys = [place for place, each in enumerate(table.columns) if each.kind == "key"]
    named = keys[0] if keys else 0
    section = ""
    for row in table.rows:
        if row.section != section:
            span = f'<th colspan="{len(table.columns)}" scope="rowgroup">'
            yield f'<tr class="section">{span}{render_name(row.section)}</th></tr>'
        section = row.section
        cells = (_render_cell(table, row, place, named) for place in range(len(table.columns)))
        yield f"<tr>{''.join(cells)}</tr>"


def _render_cell(table: Table, row: Row, place: int, named: int) -> str:
    column, cell = table.columns[place], row.get_cell(place)
    if place == named:
        return f'<th scope="row">{render_name(cell.shown, cell.link, cell.note)}</th>'
    if column.kind == "bar":
        return f"<td{_make_class(column)}>{_draw_span(cell)}</td>"
    if column.kind == "lane":
        return f"<td{_make_class(column)}>{_draw_lane(cell)}</td>"
    label = "" if column.kind == "words" else f' data-label="{_escape(column.head)}"'
    if cell.value is None and cell.text is None:
        why = _escape(cell.note)
        title = f' title="{why}"' if why else ""
        unseen = f'<span class="unseen"> {why}</span>' if why else ""
        return f"<td{_make_class(column, 'null')}{label}{title}>{escape(cell.shown)}{unseen}</td>"
    title = f' title="{_escape(cell.note)}"' if cell.note else ""
    return f"<td{_make_class(column)}{label}{title}>{_render_figure(cell)}</td>"


def _render_figure(cell: Cell) -> str:
    value, reach = cell.parts
    reach = f" <small>{escape(reach)}</small>" if reach else ""
    shown = render_name(value, cell.link)
    shown = (f"<strong>{shown}</strong>" if cell.strong else shown) + reach
    if cell.tone in _TAGS:
        return f'<span class="tag {cell.tone}">{shown}</span>'
    return f'<span class="{cell.tone}">{shown}</span>' if cell.tone else shown


def _add_link(text: str, link: str, note: str = "") -> str:
    title = f' title="{_escape(note)}"' if note else ""
    if link:
        return f'<a href="{escape(link)}"{title}>{text}</a>'
    return f"<span{title}>{text}</span>" if note else text


def _draw_span(cell: Cell) -> str:
    """Return an interval on its scale, with the value in it and the limit that it is held to."""
    span = cell.span
    if span is None:
        return ""
    low, width, at = 100 * span.low, max(0.8, 100 * (span.high - span.low)), 100 * span.value
    limit = (
        ""
        if span.limit is None
        else (
            f'<rect class="limit" x="{min(99.4, 100 * span.limit):.2f}" y="0" width="0.6" '
            'height="12"/>'
        )
    )
    return (
        f'<svg viewBox="0 0 100 12" preserveAspectRatio="none" role="img" '
        f'aria-label="{_escape(cell.note)}">'
        '<rect class="track" x="0" y="5.5" width="100" height="1" fill="#ddd"/>'
        f'<rect class="reach" x="{low:.2f}" y="3.5" width="{width:.2f}" height="5" fill="#8fc3e6"/>'
        f'{limit}<rect class="at" x="{min(98.8, max(0.0, at - 0.6)):.2f}" y="1.5" width="1.2" '
        'height="9" fill="#0072b2"/></svg>'
    )


def _draw_lane(cell: Cell) -> str:
    """Return an interval drawn around 0, which is in the middle; the value scales the drawing."""
    if cell.low is None or cell.high is None or max(abs(cell.low), abs(cell.high)) > 1e300:  # noqa: PLR2004
        return ""
    reach = 1.05 * max(abs(cell.low), abs(cell.high), cell.value or 0.0, 1e-12)
    start, width = 50 + 50 * cell.low / reach, 50 * (cell.high - cell.low) / reach
    kind = {"gain": "won", "loss": "lost"}.get(cell.tone, "call")
    return (
        '<svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true" focusable="false">'
        '<rect class="track" x="0" y="4.5" width="100" height="1"/>'
        '<rect class="zero" x="49.7" y="0" width="0.6" height="10"/>'
        f'<rect class="{kind}" x="{start:.2f}" y="2.5" width="{width:.2f}" height="5"/></svg>'
    )

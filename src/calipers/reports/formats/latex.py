r"""Documents as LaTeX: a `table` with the rules of booktabs for each, its notes below it.

>>> escape_latex("50% of a_b & \\input{x}")
'50\\% of a\\_b \\& \\textbackslash{}input\\{x\\}'
"""

from __future__ import annotations

from collections.abc import Iterator

from calipers.reports.number_format import strip_controls
from calipers.reports.table import Cell, Column, Document, Line, Table, hide_data, list_sentences

_PREAMBLE = "% needs \\usepackage{booktabs} in the preamble"
_SPECIAL = {
    **{each: f"\\{each}" for each in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "\\": r"\textbackslash{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': "''",
    "`": r"\`{}",
    "\ufffd": "?",
    "…": r"\ldots{}",
    "—": "---",
    "–": "--",
    "×": r"$\times$",
    "±": r"$\pm$",
    "−": "$-$",
    "∞": r"$\infty$",
    "≥": r"$\geq$",
    "≤": r"$\leq$",
    "≈": r"$\approx$",
    "→": r"$\rightarrow$",
    "·": r"$\cdot$",
    "²": "$^2$",
    "α": r"$\alpha$",
    "κ": r"$\kappa$",
    "ε": r"$\epsilon$",
    "τ": r"$\tau$",
    "Δ": r"$\Delta$",
}


def render_latex(document: Document) -> str:
    """Return a document as LaTeX; no text in it can be a command."""
    found = [_PREAMBLE]
    for block in document:
        found += _render_table(block) if isinstance(block, Table) else _render_line(block)
    return "\n".join(found) + "\n"


def escape_latex(text: str) -> str:
    """Return untrusted text with every special character of LaTeX escaped."""
    return "".join(_SPECIAL.get(each, each) for each in strip_controls(text))


def _render_line(line: Line) -> Iterator[str]:
    text = escape_latex(line.text)
    if line.kind in ("heading", "verdict"):
        head = f"gate: {line.tone}. {text}" if line.kind == "verdict" else text
        yield f"\n\\paragraph{{{head}}}"
    else:
        yield f"\n{text}"


def _render_table(whole: Table) -> Iterator[str]:
    table = hide_data(whole)
    told = [place for place, each in enumerate(table.columns) if _is_told(table, place, each)]
    columns = [table.columns[place] for place in told]
    below = [*(f"{name}: {said}" for _, name, said in list_sentences(table)), *table.notes]
    title = ". ".join(filter(None, (table.title, table.lead)))
    if not table.rows:
        yield from (f"\n{escape_latex(each)}" for each in (title, *below) if each)
        return
    yield from ("\n\\begin{table}", "\\centering")
    if title:
        yield f"\\caption{{{escape_latex(title)}}}"
    yield f"\\begin{{tabular}}{{{''.join('lr'[each.right] for each in columns)}}}"
    yield from (
        "\\toprule",
        _join_cells("" if each.kind == "unit" else escape_latex(each.head) for each in columns),
        "\\midrule",
    )
    section = ""
    for row in table.rows:
        if row.section != section:
            section = escape_latex(row.section)
            yield f"\\multicolumn{{{len(told)}}}{{l}}{{\\textit{{{section}}}}} \\\\"
        section = row.section
        yield _join_cells(_render_cell(row.get_cell(place)) for place in told)
    yield from ("\\bottomrule", "\\end{tabular}")
    yield from (f"\n\\par\\smallskip{{\\footnotesize {escape_latex(each)}\\par}}" for each in below)
    yield "\\end{table}"


def _is_told(table: Table, place: int, column: Column) -> bool:
    """Say whether a column stands in the table: no sentences, and units only if there are any."""
    if column.kind == "unit":
        return any(row.get_cell(place).shown for row in table.rows)
    return column.kind not in ("words", "bar")


def _render_cell(cell: Cell) -> str:
    value, reach = map(escape_latex, cell.parts)
    shown = f"\\textbf{{{value}}}" if cell.strong else value
    return f"{shown} {reach}" if reach else shown


def _join_cells(cells: Iterator[str]) -> str:
    row = " & ".join(cells)
    # Behind \\ of the row before, a text that begins with [ or * would be read as its option.
    return f"{{}}{row} \\\\" if row.startswith(("[", "*")) else f"{row} \\\\"

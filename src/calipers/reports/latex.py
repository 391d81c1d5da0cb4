r"""Documents as LaTeX: a `table` with the rules of booktabs for each, its notes below it.

>>> latex_text("50% of a_b & \\input{x}")
'50\\% of a\\_b \\& \\textbackslash{}input\\{x\\}'
"""

from __future__ import annotations

from collections.abc import Iterator

from calipers.reports.figures import printable
from calipers.reports.table import Document, Line, Table, for_people, sentences

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


def document_latex(document: Document) -> str:
    """Return a document as LaTeX; no text in it can give a command."""
    found = [_PREAMBLE]
    for block in document:
        found += _table(for_people(block)) if isinstance(block, Table) else _line(block)
    return "\n".join(found) + "\n"


def latex_text(text: str) -> str:
    """Return text from outside as LaTeX prints it, every special character escaped."""
    return "".join(_SPECIAL.get(each, each) for each in printable(text))


def _line(line: Line) -> Iterator[str]:
    text = latex_text(line.text)
    if line.kind in ("heading", "verdict"):
        head = f"gate: {line.tone}. {text}" if line.kind == "verdict" else text
        yield f"\n\\paragraph{{{head}}}"
    else:
        yield f"\n{text}"


def _table(table: Table) -> Iterator[str]:
    told = [place for place, each in enumerate(table.columns) if each.kind != "words"]
    below = [*(f"{name}: {said}" for _, name, said in sentences(table)), *table.notes]
    title = ". ".join(filter(None, (table.title, table.lead)))
    if not table.rows:
        yield from (f"\n{latex_text(each)}" for each in (title, *below) if each)
        return
    yield from ("\n\\begin{table}", "\\centering")
    if title:
        yield f"\\caption{{{latex_text(title)}}}"
    yield f"\\begin{{tabular}}{{{''.join('lr'[table.columns[place].right] for place in told)}}}"
    yield from ("\\toprule", _cells(_head(table, place) for place in told), "\\midrule")
    section = ""
    for row in table.rows:
        if row.section != section:
            yield f"\\multicolumn{{{len(told)}}}{{l}}{{\\textit{{{latex_text(row.section)}}}}} \\\\"
        section = row.section
        yield _cells(row.cell(place).shown for place in told)
    yield from ("\\bottomrule", "\\end{tabular}")
    yield from (f"\n\\par\\smallskip{{\\footnotesize {latex_text(each)}\\par}}" for each in below)
    yield "\\end{table}"


def _head(table: Table, place: int) -> str:
    return "" if table.columns[place].kind == "unit" else table.columns[place].head


def _cells(texts: Iterator[str]) -> str:
    row = " & ".join(map(latex_text, texts))
    # Behind \\ of the row before, a text that begins with [ or * would be read as its option.
    return f"{{}}{row} \\\\" if row.startswith(("[", "*")) else f"{row} \\\\"

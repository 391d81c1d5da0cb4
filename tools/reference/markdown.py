"""Tables of Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def tabulate(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; what would end a cell is escaped."""
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    lines += [f"| {' | '.join(_escape(cell) for cell in row)} |" for row in rows]
    return "\n".join((*lines, ""))


def _escape(cell: str) -> str:
    return " ".join(cell.split()).replace("|", "\\|")

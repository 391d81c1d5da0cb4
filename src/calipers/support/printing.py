"""How results print: as text, Markdown, LaTeX, CSV and HTML, all from one document."""

from __future__ import annotations

from typing import Any

from calipers.support.strict_json import dump_strict


class Printed:
    """A result that prints as a table and shows as HTML in a notebook."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the contract's JSON, as Python values."""
        raise NotImplementedError

    def to_json(self, *, indent: int | None = 1) -> str:
        """Return strict JSON; equal input and seed give equal bytes."""
        return dump_strict(self.to_dict(), indent=indent)

    def to_markdown(self) -> str:
        """Return the tables as Markdown, for a pull request or a paper's notes."""
        return str(self._render("markdown"))

    def to_latex(self) -> str:
        """Return the tables as LaTeX with the rules of booktabs."""
        return str(self._render("latex"))

    def to_csv(self) -> str:
        """Return the numbers as CSV in full precision; an empty cell is a null."""
        return str(self._render("csv"))

    def __str__(self) -> str:
        return str(self._render("text"))

    def _repr_html_(self) -> str:
        from calipers.reports.documents import render_in_notebook  # noqa: PLC0415 (loads renderers)

        return render_in_notebook(self)

    def _render(self, form: str) -> Any:
        from calipers.reports.documents import render  # noqa: PLC0415 (loads renderers)

        return render(self, form)

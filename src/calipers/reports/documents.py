"""Which document a result is, and every format it is written in."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from calipers.reports.table import Document, lines

if TYPE_CHECKING:
    from rich.console import Console

_BUILDERS = {
    "Score": ("scores", "score_document"),
    "Compared": ("comparison", "comparison_document"),
    "Ranking": ("ranking", "ranking_document"),
    "GateResult": ("gate", "gate_document"),
    "PowerAnalysis": ("power", "power_document"),
    "Agreement": ("agreement", "agreement_document"),
    "Audit": ("audit", "audit_document"),
    "Calibrations": ("calibration", "calibration_document"),
    "Diagnosis": ("doctor", "diagnosis_document"),
    "Explanation": ("catalogue", "explanation_document"),
}
"""The module and function for each class of results: only what is needed is loaded."""
_RENDERERS = {
    "text": ("terminal", "document_text"),
    "markdown": ("markdown", "document_markdown"),
    "latex": ("latex", "document_latex"),
    "html": ("html", "document_html"),
    "csv": ("spreadsheets", "document_csv"),
    "frame": ("spreadsheets", "document_frame"),
}
_WITH_NOTICES = ("markdown", "latex", "html")  # those of a text are on standard error


def document_of(result: Any) -> Document:
    """Return the document that shows a result."""
    found: Document = _load(_BUILDERS[type(result).__name__])(result)
    return found


def render(result: Any, form: str) -> Any:
    """Return a result in a format: text, markdown, latex, html, csv, or a data frame."""
    notices = getattr(result, "notices", ()) if form in _WITH_NOTICES else ()
    return _load(_RENDERERS[form])((*document_of(result), *lines(notices, "note")))


def show(result: Any, console: Console) -> None:
    """Print a result."""
    _load(("terminal", "show_document"))(document_of(result), console)


def _load(place: tuple[str, str]) -> Any:
    module, name = place
    return getattr(import_module(f"calipers.reports.{module}"), name)

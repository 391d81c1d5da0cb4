"""The document of each type of result, and the formats it can be rendered in."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from calipers.reports.table import Document, make_lines

if TYPE_CHECKING:
    from rich.console import Console

_BUILDERS = {
    "Score": ("scores", "make_score_document"),
    "Compared": ("comparison", "make_comparison_document"),
    "Ranking": ("ranking", "make_ranking_document"),
    "GateResult": ("gate", "make_gate_document"),
    "PowerAnalysis": ("power", "make_power_document"),
    "Agreement": ("agreement", "make_agreement_document"),
    "Audit": ("audit", "make_audit_document"),
    "Calibrations": ("calibration", "make_calibration_document"),
    "Diagnosis": ("doctor", "make_diagnosis_document"),
    "Explanation": ("catalogue", "make_explanation_document"),
    "RunResult": ("run", "make_run_document"),
}
"""The module and function for each class of results: only what is needed is loaded."""
_RENDERERS = {
    "text": ("terminal", "render_text"),
    "markdown": ("markdown", "render_markdown"),
    "latex": ("latex", "render_latex"),
    "html": ("html", "render_html"),
    "csv": ("spreadsheets", "render_csv"),
    "frame": ("spreadsheets", "make_frame"),
}
_WITH_NOTICES = ("markdown", "latex", "html")  # of a text they are on standard error


def make_document(result: Any) -> Document:
    """Return the document that shows a result."""
    found: Document = _load(_BUILDERS[type(result).__name__])(result)
    return found


def render(result: Any, form: str) -> Any:
    """Return a result in a format: text, markdown, latex, html, csv, or a data frame."""
    notices = getattr(result, "notices", ()) if form in _WITH_NOTICES else ()
    return _load(_RENDERERS[form])((*make_document(result), *make_lines(notices, "note")))


def render_in_notebook(result: Any) -> str:
    """Return a result as HTML with its figures below it."""
    html: str = render(result, "html")
    figures: str = _load(("notebook", "render_figures"))(result)
    return html + figures


def show(result: Any, console: Console) -> None:
    """Print a result."""
    _load(("terminal", "show_document"))(make_document(result), console)


def _load(place: tuple[str, str]) -> Any:
    module, name = place
    return getattr(import_module(f"calipers.reports.{module}"), name)

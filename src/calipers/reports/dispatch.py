"""Results as text, tables and pages: which builder makes a document, which renderer writes it.

A notebook shows figures below it.

Builders stand in `tables/`, renderers in `formats/`; each is imported when it is first used.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from calipers.reports.table import Document, make_lines

if TYPE_CHECKING:
    from rich.console import Console

    from calipers.reports.charts.chart import Chart

_BUILDERS = {
    "Score": ("tables.score_tables", "make_score_document"),
    "Compared": ("tables.comparison_tables", "make_comparison_document"),
    "Ranking": ("tables.ranking_tables", "make_ranking_document"),
    "GateResult": ("tables.gate_tables", "make_gate_document"),
    "PowerAnalysis": ("tables.power_tables", "make_power_document"),
    "Agreement": ("tables.agreement_tables", "make_agreement_document"),
    "Audit": ("tables.audit_tables", "make_audit_document"),
    "Calibrations": ("tables.agreement_tables", "make_calibration_document"),
    "Diagnosis": ("tables.diagnosis_tables", "make_diagnosis_document"),
    "Explanation": ("tables.metric_catalogue", "make_explanation_document"),
    "RunResult": ("tables.run_tables", "make_run_document"),
}
"""The module and function for each class of results: only what is needed is loaded."""
_RENDERERS = {
    "text": ("formats.terminal", "render_text"),
    "markdown": ("formats.markdown", "render_markdown"),
    "latex": ("formats.latex", "render_latex"),
    "html": ("formats.html", "render_html"),
    "csv": ("formats.spreadsheets", "render_csv"),
    "frame": ("formats.spreadsheets", "make_frame"),
}
_DATA = ("csv", "frame")  # which have every group
_OF_COLUMNS = {
    "csv": ("formats.group_frames", "render_group_csv"),
    "frame": ("formats.group_frames", "make_group_frame"),
}
_WITH_NOTICES = ("markdown", "latex", "html")  # of a text they are on standard error


def make_document(result: Any, *, is_data: bool = False) -> Document:
    """Return the document that shows a result; that of a score has all groups if it is data."""
    kind = next(each.__name__ for each in type(result).__mro__ if each.__name__ in _BUILDERS)
    build = _load(_BUILDERS[kind])
    document: Document = build(result, most=None) if is_data and kind == "Score" else build(result)
    return document


def render(result: Any, form: str) -> Any:
    """Return a result in a format: text, markdown, latex, html, csv, or a data frame."""
    notices = getattr(result, "notices", ()) if form in _WITH_NOTICES else ()
    if form in _DATA and hasattr(getattr(result, "groups", None), "sum_counts"):
        return _load(_OF_COLUMNS[form])(result)
    document = make_document(result, is_data=form in _DATA)
    return _load(_RENDERERS[form])((*document, *make_lines(notices, "note")))


def render_in_notebook(result: Any) -> str:
    """Return a result as HTML with its figures below it."""
    html: str = render(result, "html")
    return html + render_figures(result)


def show(result: Any, console: Console) -> None:
    """Print a result."""
    _load(("formats.terminal", "show_document"))(make_document(result), console)


def _load(place: tuple[str, str]) -> Any:
    module, name = place
    return getattr(import_module(f"calipers.reports.{module}"), name)


_MOST_FIGURES = 3  # figures: the report shows them all


def render_figures(result: Any) -> str:
    """Return the first figures of a result as HTML; empty without any, or the extra `figures`."""
    if find_spec("vl_convert") is None:
        return ""
    return "".join(
        chart.to_html() for chart in list(_draw_figures(result).values())[:_MOST_FIGURES]
    )


def _draw_figures(result: Any) -> Mapping[str, Chart]:
    kinds = {each.__name__ for each in type(result).__mro__}
    if "RunResult" in kinds:
        return _draw_figures(result.score)
    if "Score" in kinds:
        from calipers.reports.charts import draw_charts  # noqa: PLC0415 (only in notebooks)

        return draw_charts(result)[0]
    if "Compared" in kinds:
        from calipers.reports.charts.forest import draw_differences  # noqa: PLC0415

        drawn = draw_differences(result)
        return {} if isinstance(drawn, str) else {"differences": drawn}
    charts: Mapping[str, Chart] = result.charts() if "Ranking" in kinds else {}
    return charts

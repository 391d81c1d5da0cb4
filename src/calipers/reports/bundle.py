"""A report for a paper: its tables as LaTeX and CSV, its figures, and a methods paragraph."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from calipers.reports.charts.chart import make_folder, save_charts
from calipers.reports.charts.of_report import draw_report
from calipers.reports.gate import tabulate_checks
from calipers.reports.latex import escape_latex, render_latex
from calipers.reports.methods import describe_methods
from calipers.reports.ranked_pairs import list_pairs, tabulate_pairs
from calipers.reports.ranking import order_groups, tabulate_systems
from calipers.reports.recommendations import tabulate_recommendations
from calipers.reports.scores import is_wide, list_shown, tabulate_matrices, tabulate_score
from calipers.reports.spreadsheets import render_csv, render_shown_csv
from calipers.reports.table import Document, Table
from calipers.reports.tasks import tabulate_hardest
from calipers.reports.tiers import select_groups, tabulate_tiers
from calipers.support.whole_files import write_whole

if TYPE_CHECKING:
    from calipers.runs.report_data import Report

TABLES, FIGURES = "tables", "figures"


def write_bundle(report: Report, folder: Path) -> list[Path]:
    """Write tables, figures, the methods paragraph and the report itself; return the files."""
    report = replace(report, score=order_groups(report.score, report.ranking))
    texts = {"methods.md": f"{describe_methods(report)}\n"}
    texts["methods.tex"] = f"{escape_latex(describe_methods(report))}\n"
    for name, shown, data in _list_tables(report):
        texts[f"{TABLES}/{name}.tex"] = render_latex(shown)
        texts[f"{TABLES}/{name}.csv"] = data
    texts["report.html"] = report.to_html()
    make_folder(folder / TABLES)
    written = []
    for name, text in texts.items():
        write_whole(folder / name, text)
        written.append(folder / name)
    return written + save_charts(draw_report(report), folder / FIGURES)


def _list_tables(report: Report) -> Iterator[tuple[str, Document, str]]:
    """Yield the name of each table, what people see of it, and its data as CSV."""
    score = report.score
    if report.gate is not None:
        checks = tabulate_checks(report.gate.checks, "Checks", percent=False)
        yield "checks", (checks,), render_csv((checks,))
    if report.ranking is not None:
        ranked = report.ranking.metrics[0]
        systems = tabulate_systems(ranked, report.ranking.by)
        yield "leaderboard", (systems,), render_csv((systems,))
        yield "pairs", (tabulate_pairs(ranked),), render_shown_csv(list_pairs(ranked))
    metrics = tabulate_score(score, wide=is_wide(score))
    yield "metrics", (replace(metrics, title="Metrics"),), render_csv((metrics,))
    for number, tiers in enumerate(score.tiers):
        table = tabulate_tiers(tiers, select_groups(score.groups, tiers))
        yield f"tiers{f'-{number + 1}' if number else ''}", (table,), render_shown_csv(table)
    for field, part in report.breakdowns.items():
        ordered = order_groups(part, report.ranking)
        names = list_shown(ordered)
        whole = tabulate_score(ordered, names=names, wide=True)
        within = len(ordered.groups[0].by) > 1
        shown: tuple[Table, ...] = (replace(whole, title=f"By {field}"),)
        shown = tuple(tabulate_matrices(ordered, field, names)) if within else shown
        yield f"by-{re.sub(r'[^A-Za-z0-9_-]+', '-', field)}", shown, render_csv((whole,))
    for name, made in (
        ("recommendations", tabulate_recommendations(score.groups)),
        ("tasks", tabulate_hardest(report.tasks, score.groups) if report.tasks else None),
    ):
        if made is not None:
            yield name, (made,), render_shown_csv(made)

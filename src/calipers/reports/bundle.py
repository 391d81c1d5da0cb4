"""A report for a paper: tables as LaTeX and CSV, figures, and a methods paragraph.

The methods paragraph names the tests, the corrections, the counts, the seed and the versions.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from calipers.reports.charts.chart import make_folder, save_charts
from calipers.reports.formats.latex import escape_latex, render_latex
from calipers.reports.formats.spreadsheets import render_csv, render_shown_csv
from calipers.reports.number_format import count_things, strip_controls
from calipers.reports.report_parts import draw_report, tabulate_hardest, tabulate_recommendations
from calipers.reports.table import Document, Table
from calipers.reports.tables.gate_tables import tabulate_checks
from calipers.reports.tables.ranking_tables import (
    list_pairs,
    order_groups,
    tabulate_pairs,
    tabulate_systems,
)
from calipers.reports.tables.score_tables import (
    is_wide,
    select_groups,
    tabulate_matrices,
    tabulate_score,
    tabulate_tiers,
)
from calipers.reports.tables.shown_metrics import list_shown
from calipers.support.files import write_whole
from calipers.support.version import __version__

if TYPE_CHECKING:
    from calipers.comparisons.rank_result import MetricRanking
    from calipers.reports.data.report_data import Report
    from calipers.scores.result import Score

_INTERVALS = {
    "wilson": "Wilson score intervals (Wilson 1927)",
    "logit t": "t intervals on the logit scale",
    "log t": "t intervals on the log scale",
    "delta": "delta-method intervals",
    "delta of logarithm": "delta-method intervals on the log scale",
    "order statistics": "intervals from order statistics",
}
_PACKAGES = ("polars", "numpy")
_FEW = 2


def describe_methods(report: Report) -> str:
    """Return one paragraph about how the numbers of a report were computed."""
    return " ".join(
        (
            *_describe_records(report),
            *_describe_intervals(report.score),
            *_describe_ranking(report),
            *_describe_tiers(report.score),
            *_describe_gate(report),
            *_describe_lost(report.score),
            _describe_versions(report.score),
        )
    )


def _describe_records(report: Report) -> Iterator[str]:
    tasks = f" on {count_things(report.n_tasks, 'task')}" if report.n_tasks else ""
    systems = len(report.score.groups)
    of = f" of {count_things(systems, 'system')}" if systems > 1 else ""
    yield f"We evaluated {count_things(report.score.records, 'record')}{of}{tasks}."


def _describe_intervals(score: Score) -> Iterator[str]:
    level = f"{100 * score.settings['confidence']:g} %"
    resamples = score.settings.get("resamples")
    cluster = score.settings.get("cluster")
    unit = f"records with the same {strip_controls(cluster)}" if cluster else "the runs of one task"
    if resamples:
        yield f"Intervals have a level of {level} and are from {resamples:,} bootstrap resamples."
    else:
        yield f"Intervals have a level of {level}: {'; '.join(_list_intervals(score))}."
    yield f"{unit[0].upper()}{unit[1:]} count as one cluster."


def _list_intervals(score: Score) -> Iterator[str]:
    found: dict[str, dict[str, None]] = {}
    for name in list_shown(score):
        for group in score.groups:
            measured = group.metrics.get(name)
            if measured is not None and measured.interval is not None:
                found.setdefault(measured.interval, {})[name] = None
    for method, names in found.items():
        *first, last = names
        named = f"{', '.join(first)} and {last}" if first else last
        yield f"{_INTERVALS.get(method, f'{method} intervals')} for {named}"


def _describe_ranking(report: Report) -> Iterator[str]:
    if report.ranking is None:
        return
    ranked = report.ranking.metrics[0]
    yield (
        f"The {len(ranked.systems)} systems were compared by {ranked.metric} on the "
        f"{count_things(ranked.n_tasks, 'task')} common to all, every task counting the same."
    )
    tests = list(dict.fromkeys(pair.test for pair in ranked.pairs if pair.test))
    if tests:
        named = f"this test: {tests[0]}" if len(tests) == 1 else f"these tests: {'; '.join(tests)}"
        yield f"Pairs were compared by {named}{_describe_correction(ranked)}."


def _describe_correction(ranked: MetricRanking) -> str:
    if len(ranked.systems) <= _FEW:
        return ""
    return (
        f"; p-values of all {len(ranked.pairs):,} pairs are adjusted by the maximum of their "
        "t statistics (single-step max-t, Westfall and Young 1993), and the intervals of the "
        "systems hold simultaneously. Systems that share a letter are not significantly "
        f"different at {1 - ranked.confidence:.2g}"
    )


def _describe_tiers(score: Score) -> Iterator[str]:
    for tiers in score.tiers[:1]:
        tests = list(dict.fromkeys(each.test for each in tiers.tests.values() if each.test))
        if tests:
            yield (
                f"Tiers were compared with {strip_controls(tiers.baseline)} by {'; '.join(tests)}, "
                f"p-values adjusted for all {len(tiers.tests)} tiers (Holm 1979)."
            )


def _describe_gate(report: Report) -> Iterator[str]:
    if report.gate is not None:
        checks = count_things(len(report.gate.checks), "check")
        yield f"The policy {strip_controls(report.gate.policy)} made {checks}."


def _describe_lost(score: Score) -> Iterator[str]:
    errors = sum(group.errors for group in score.groups)
    truncated = sum(group.truncated for group in score.groups)
    if errors:
        counted = score.settings.get("errors") == "fail"
        how = "count as failures" if counted else "are in no metric"
        yield f"{count_things(errors, 'failed call')} {how}."
    if truncated:
        yield f"{count_things(truncated, 'reply').replace('replys', 'replies')} were truncated."


def _describe_versions(score: Score) -> str:
    known = ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
    return (
        f"All numbers are by Calipers {__version__} (Python {platform.python_version()}, {known}), "
        f"seed {score.seed}."
    )


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
        checks = tabulate_checks(report.gate.checks, "Checks")
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

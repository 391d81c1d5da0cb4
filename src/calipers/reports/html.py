"""A score as HTML for a notebook: everything from outside is escaped."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import TYPE_CHECKING

from calipers.metrics import metric_named
from calipers.reports.figures import figure, group_name, reasons
from calipers.reports.flakiness import flaky_line
from calipers.reports.grids import Grid, html_grid, html_list
from calipers.reports.tiers import (
    HEADS,
    bounded_text,
    cell_text,
    grade_text,
    spread_rows,
    tier_groups,
    tier_notes,
    tier_rows,
    title_of,
    warning_lines,
)

if TYPE_CHECKING:
    from calipers.scores.results import Measured, Score


def score_html(score: Score) -> str:
    """A table with a column per group; the metric's sentence and the null's reason on hover."""
    if not score.groups:
        return "<p>No records.</p>"
    heads = "".join(f"<th>{escape(group_name(group.by))}</th>" for group in score.groups)
    rows = []
    for name in score.groups[0].metrics:
        metric = metric_named(name)
        cells = "".join(
            f'<td style="text-align:right" title="{escape(_hover(measured))}">'
            f"{escape(cell_text(name, group))}</td>"
            for group in score.groups
            for measured in (group.metrics[name],)
        )
        rows.append(
            f'<tr><th style="text-align:left" title="{escape(metric.says)}">{escape(name)}</th>'
            f"{cells}<td>{escape(metric.unit or '')}</td></tr>"
        )
    counts = "".join(
        f'<td style="text-align:right">{group.records:,}</td>' for group in score.groups
    )
    flaky = flaky_line(score)
    tables = ""
    if any(group.statistics for group in score.groups):
        rows += (
            _row(
                "median composite", (bounded_text(each.median_composite) for each in score.groups)
            ),
            _row("grade", map(grade_text, score.groups)),
        )
    for tiers in score.tiers:
        told = list(tier_rows(tiers, tier_groups(score.groups, tiers)))
        tables += html_grid(Grid(title=title_of(tiers), heads=HEADS, sections={"": told}))
        spread = (f"{label}: {text}" for label, text in spread_rows(tiers))
        tables += html_list((*spread, *tier_notes(tiers)))
    listed = (
        *warning_lines(score),
        *reasons(score.groups),
        *([flaky] if flaky else []),
        *score.notices,
    )
    notes = "".join(f"<li>{escape(note)}</li>" for note in listed)
    return (
        f"<table><thead><tr><th>metric</th>{heads}<th></th></tr></thead><tbody>"
        f'<tr><th style="text-align:left">records</th>{counts}<td></td></tr>{"".join(rows)}'
        f"</tbody></table>{tables}{f'<ul>{notes}</ul>' if notes else ''}"
    )


def _row(label: str, cells: Iterable[str]) -> str:
    shown = "".join(f'<td style="text-align:right">{escape(cell)}</td>' for cell in cells)
    return f'<tr><th style="text-align:left">{label}</th>{shown}<td></td></tr>'


def _hover(measured: Measured) -> str:
    if measured.reason is not None or measured.interval is None:
        return measured.reason or f"n = {measured.n}"
    low, high = (figure(bound) for bound in (measured.low, measured.high))
    return f"n = {measured.n}, {low} to {high} ({measured.interval})"

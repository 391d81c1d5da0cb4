"""A score as HTML for a notebook: everything from outside is escaped."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from calipers.metrics import metric_named
from calipers.reporting.figures import figure, group_name, reasons, with_interval
from calipers.reporting.flakiness import flaky_line

if TYPE_CHECKING:
    from calipers.results import Measured, Score


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
            f"{with_interval(measured, metric.unit)}</td>"
            for measured in (group.metrics[name] for group in score.groups)
        )
        rows.append(
            f'<tr><th style="text-align:left" title="{escape(metric.says)}">{escape(name)}</th>'
            f"{cells}<td>{escape(metric.unit or '')}</td></tr>"
        )
    counts = "".join(
        f'<td style="text-align:right">{group.records:,}</td>' for group in score.groups
    )
    flaky = flaky_line(score)
    listed = (*reasons(score.groups), *([flaky] if flaky else []), *score.notices)
    notes = "".join(f"<li>{escape(note)}</li>" for note in listed)
    return (
        f"<table><thead><tr><th>metric</th>{heads}<th></th></tr></thead><tbody>"
        f'<tr><th style="text-align:left">records</th>{counts}<td></td></tr>{"".join(rows)}'
        f"</tbody></table>{f'<ul>{notes}</ul>' if notes else ''}"
    )


def _hover(measured: Measured) -> str:
    if measured.reason is not None or measured.interval is None:
        return measured.reason or f"n = {measured.n}"
    low, high = (figure(bound) for bound in (measured.low, measured.high))
    return f"n = {measured.n}, {low} to {high} ({measured.interval})"

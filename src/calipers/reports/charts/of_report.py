"""The figures of a report, each under the name of its files: the page and the bundle show them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from calipers.reports.charts import draw_charts
from calipers.reports.charts.chart import Chart
from calipers.reports.charts.forest import draw_forest
from calipers.reports.charts.ranking import draw_systems
from calipers.reports.headline import has_value
from calipers.reports.ranking import MAIN

if TYPE_CHECKING:
    from calipers.runs.report_data import Report

RANKING = "ranking"
_ORDER = ("reliability", "cost_pass_rate", "composite_by_tier", "latency", "tokens")


def draw_report(report: Report) -> dict[str, Chart]:
    """Return the ranked systems, or the main metric by group, then what else can be drawn."""
    charts, _ = draw_charts(report.score)
    if len(report.score.groups) == 1:
        charts.pop("cost_pass_rate", None)
    found: dict[str, Chart] = {}
    if report.ranking is not None:
        found[RANKING] = draw_systems(report.ranking.metrics[0])
    elif main := next((name for name in MAIN if name in charts), None):
        found[main] = charts[main]
    found |= {name: charts[name] for name in _ORDER if name in charts}
    for field in report.breakdowns:
        drawn = _draw_breakdown(report, field)
        if drawn is not None:
            found[f"by-{field}"] = drawn
    return found


def _draw_breakdown(report: Report, field: str) -> Chart | None:
    """Return the main metric by a field; within several systems a table says more."""
    score = report.breakdowns[field]
    main = next((name for name in MAIN if has_value(score, name)), None)
    if main is None or len(score.groups[0].by) > 1:
        return None
    drawn = draw_forest(score, main)
    return None if isinstance(drawn, str) else drawn

"""Trends: a metric of a suite over its runs, with intervals and the gate's verdicts."""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import APIRouter, Response

from calipers.dashboard.catalog import NotHere
from calipers.dashboard.site import SiteHere
from calipers.dashboard.trends import (
    MOST_RUNS,
    TrendRun,
    count_suites,
    list_metrics,
    list_suite_runs,
    list_systems,
    measure_runs,
    tabulate_runs,
)
from calipers.metrics import metric_named
from calipers.reports.charts.groups import number_duplicates
from calipers.reports.charts.trend import TrendPoint, draw_trend
from calipers.reports.pages.vega import PageFigure, make_page_figure

router = APIRouter()


@router.get("/trends")
def show_trends(site: SiteHere, suite: str = "", metric: str = "") -> Response:
    """Choose a suite, or see how a metric of it went from run to run."""
    suites = count_suites(site)
    if not suite and len(suites) == 1:
        [suite] = suites
    if not suite:
        return site.render("trends.html", suites=suites.most_common())
    runs = list_suite_runs(site, suite)
    if not runs:
        raise NotHere(f"no run of a suite {suite} is in the folder")
    names = list_metrics([run for _, run in runs])
    if metric and metric not in names:
        raise NotHere(f"no run of the suite has a value of {metric}")
    chosen = metric or (names[0] if names else "")
    measured = measure_runs(runs, chosen)
    systems = list_systems(measured)
    return site.render(
        "trend.html",
        suite=suite,
        suites=suites.most_common(),
        metric=chosen,
        names=names,
        total=suites[suite],
        most=MOST_RUNS,
        drawn=_draw(measured, systems, chosen) if systems else None,
        table=tabulate_runs(measured, systems, chosen),
    )


def _draw(runs: Sequence[TrendRun], systems: Sequence[str], metric: str) -> PageFigure:
    labels = number_duplicates([each.when[5:] for each in runs])
    points = [
        TrendPoint(
            run=label,
            full_name=each.run.name,
            verdict=each.run.verdict,
            system=name,
            value=found.value,
            low=found.low,
            high=found.high,
        )
        for label, each in zip(labels, runs, strict=True)
        for name, found in each.values.items()
        if name in systems and found.value is not None
    ]
    return make_page_figure("trend", draw_trend(points, metric, metric_named(metric).unit))

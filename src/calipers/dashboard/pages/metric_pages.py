"""Metrics: what each means, and how one went over the runs of a suite, with the gate's verdicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

from fastapi import APIRouter, Response

from calipers.dashboard.catalog import NotHere
from calipers.dashboard.run_view import Run, format_time, list_valued, put_main_first
from calipers.dashboard.site import SiteHere
from calipers.metrics import catalogue, metric_named
from calipers.records.result_folder import read_run_time
from calipers.reports.charts.labels import number_duplicates
from calipers.reports.charts.trend import TrendPoint, draw_trend
from calipers.reports.number_format import format_group
from calipers.reports.pages.cards import group_by_family
from calipers.reports.pages.page_scripts import PageFigure, make_page_figure
from calipers.reports.table import ABSENT, Cell, Column, Table, make_estimate_cell, make_rows
from calipers.reports.tables.shown_metrics import choose_metric_form
from calipers.scores.result import Measured
from calipers.support.errors import UsageError

router = APIRouter()


@router.get("/metrics")
def show_metrics(site: SiteHere) -> Response:
    """Show what every metric means."""
    return site.render("metrics.html", families=list(group_by_family(list(catalogue()))), name=None)


@router.get("/metrics/{name}")
def show_metric(site: SiteHere, name: str) -> Response:
    """Show what one metric means."""
    try:
        found = metric_named(name)
    except UsageError as error:
        raise NotHere(error.message) from None
    return site.render("metric.html", metric=found, name=name)


MOST_RUNS = 100  # the newest
MOST_SYSTEMS = 20


@dataclass(frozen=True, slots=True)
class TrendRun:
    """A run with the values of its systems."""

    run: Run
    when: str
    values: dict[str, Measured]  # by the system's name


@router.get("/trends")
def show_trends(site: SiteHere, suite: str = "", metric: str = "") -> Response:
    """Choose a suite, or see how a metric of it went from run to run."""
    every = [site.read_run(entry) for entry in site.catalog.list_entries() if entry.is_run]
    suites = Counter(run.suite for run in every if run.suite is not None)
    if not suite and len(suites) == 1:
        [suite] = suites
    if not suite:
        return site.render("trends.html", suites=suites.most_common())
    timed = [(_read_time(run), run) for run in every if run.suite == suite]
    runs = sorted(timed, key=lambda each: (each[0], each[1].name))[-MOST_RUNS:]
    if not runs:
        raise NotHere(f"no run of a suite {suite} is in the folder")
    known = list_valued(run for _, run in runs)
    names = put_main_first([name for name in known if not metric_named(name).complement])
    if metric and metric not in names:
        raise NotHere(f"no run of the suite has a value of {metric}")
    chosen = metric or (names[0] if names else "")
    measured = [TrendRun(run, format_time(at), _list_values(run, chosen)) for at, run in runs]
    systems = list(dict.fromkeys(name for each in measured for name in each.values))[:MOST_SYSTEMS]
    return site.render(
        "trend.html",
        suite=suite,
        suites=suites.most_common(),
        metric=chosen,
        names=names,
        total=suites[suite],
        most=MOST_RUNS,
        drawn=_draw_trend(measured, systems, chosen) if systems else None,
        table=_tabulate_runs(measured, systems, chosen),
    )


def _read_time(run: Run) -> float:
    """Return when a run began, or else when its journal was last written to."""
    known = None if run.entry.folder is None else read_run_time(run.entry.folder)
    return run.entry.read_mtime() if known is None else known


def _list_values(run: Run, metric: str) -> dict[str, Measured]:
    groups = run.score.groups if run.score is not None else ()
    names = [format_group(group.by) if group.by else "all records" for group in groups]
    return {
        name: found
        for name, group in zip(number_duplicates(names), groups, strict=True)
        if (found := group.metrics.get(metric)) is not None
        and found.value is not None
        and isfinite(found.value)
    }


def _tabulate_runs(runs: Sequence[TrendRun], systems: Sequence[str], metric: str) -> Table:
    """Return a row per run, the newest first: its verdict, and each system's value."""
    columns = (
        Column(name="run", kind="key"),
        Column(name="when", heading="when, UTC", kind="text"),
        Column(name="gate", kind="tag"),
        *(Column(name=name) for name in systems),
    )
    form = choose_metric_form(metric, [found for each in runs for found in each.values.values()])
    rows = make_rows(
        (
            Cell(value=each.run.name, link=f"/runs/{each.run.id}"),
            each.when,
            _make_tag(each.run.verdict),
            *(make_estimate_cell(each.values.get(name), form, note="") for name in systems),
        )
        for each in reversed(runs)
    )
    return Table(title=f"{metric} by run", columns=columns, rows=rows)


def _make_tag(verdict: str) -> Cell:
    if verdict in ("pass", "fail", "inconclusive", "incomplete"):
        return Cell(value=verdict, tone=verdict)  # type: ignore[arg-type]
    return ABSENT


def _draw_trend(runs: Sequence[TrendRun], systems: Sequence[str], metric: str) -> PageFigure:
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

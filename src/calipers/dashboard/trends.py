"""A suite over time: the runs of a suite in order, and a metric of each with its interval."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from math import isfinite

from calipers.dashboard.run import Run
from calipers.dashboard.site import Site
from calipers.metrics import metric_named
from calipers.records.result_folder import read_run_time
from calipers.reports.figures import group_name
from calipers.reports.table import ABSENT, Cell, Column, Table, estimate_cell, make_rows
from calipers.scores.results import Measured
from calipers.support.quick_dataclasses import dataclass

MOST_RUNS = 100  # the newest
MOST_SYSTEMS = 20
_MAIN = ("accuracy", "pass_rate", "final_score", "composite_score")


@dataclass(frozen=True, slots=True)
class TrendRun:
    """A run with the values of its systems."""

    run: Run
    at: float  # when, in seconds since 1970
    values: dict[str, Measured]  # by the system's name

    @property
    def when(self) -> str:
        """The time as people read it."""
        return datetime.fromtimestamp(self.at, UTC).strftime("%Y-%m-%d %H:%M")


def count_suites(site: Site) -> Counter[str]:
    """Return how many runs of each suite the folder has."""
    runs = (site.read_run(entry) for entry in site.catalog.list_entries() if entry.is_run)
    return Counter(run.suite for run in runs if run.suite is not None)


def list_suite_runs(site: Site, suite: str) -> list[tuple[float, Run]]:
    """Return the newest runs of a suite with their times, the oldest of them first."""
    runs = [site.read_run(entry) for entry in site.catalog.list_entries() if entry.is_run]
    found = [(_read_time(run), run) for run in runs if run.suite == suite]
    return sorted(found, key=lambda each: (each[0], each[1].name))[-MOST_RUNS:]


def _read_time(run: Run) -> float:
    """Return when a run began, or else when its journal was last written to."""
    known = None if run.entry.folder is None else read_run_time(run.entry.folder)
    return run.entry.read_mtime() if known is None else known


def list_metrics(runs: Sequence[Run]) -> list[str]:
    """Return the metrics that any of the runs has a value of, the main ones first."""
    names = dict.fromkeys(
        name
        for run in runs
        if run.score is not None
        for group in run.score.groups
        for name, found in group.metrics.items()
        if found.value is not None and not metric_named(name).complement
    )
    return [*(name for name in _MAIN if name in names), *(n for n in names if n not in _MAIN)]


def measure_runs(runs: Sequence[tuple[float, Run]], metric: str) -> list[TrendRun]:
    """Return each run with its systems' values of a metric, as its score has them."""
    return [TrendRun(run, at, _list_values(run, metric)) for at, run in runs]


def _list_values(run: Run, metric: str) -> dict[str, Measured]:
    if run.score is None:
        return {}
    return {
        group_name(group.by) if group.by else "all records": found
        for group in run.score.groups
        if (found := group.metrics.get(metric)) is not None
        and found.value is not None
        and isfinite(found.value)
    }


def list_systems(runs: Sequence[TrendRun]) -> list[str]:
    """Return the systems that any run has, as far as a page has room for them."""
    return list(dict.fromkeys(name for each in runs for name in each.values))[:MOST_SYSTEMS]


def tabulate_runs(runs: Sequence[TrendRun], systems: Sequence[str], metric: str) -> Table:
    """Return a row per run, the newest first: its verdict, and each system's value."""
    columns = (
        Column(name="run", kind="key"),
        Column(name="when", heading="when, UTC", kind="text"),
        Column(name="gate", kind="tag"),
        *(Column(name=name) for name in systems),
    )
    rows = make_rows(
        (
            Cell(value=each.run.name, link=f"/runs/{each.run.id}"),
            each.when,
            _make_tag(each.run.verdict),
            *(estimate_cell(each.values.get(name), note="") for name in systems),
        )
        for each in reversed(runs)
    )
    return Table(title=f"{metric} by run", columns=columns, rows=rows)


def _make_tag(verdict: str) -> Cell:
    if verdict in ("pass", "fail", "inconclusive", "incomplete"):
        return Cell(value=verdict, tone=verdict)  # type: ignore[arg-type]
    return ABSENT

"""The list of runs, and one run: verdict, numbers, figures, progress."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl
from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse

from calipers.dashboard.catalog import NotHere
from calipers.dashboard.filters import NONE, Filter, Query, shown
from calipers.dashboard.grouping import few_values, with_groups
from calipers.dashboard.index import Index
from calipers.dashboard.routes.shared import filter_form, nav
from calipers.dashboard.site import Run, SiteHere, query_of, task_url
from calipers.metrics import metric_named
from calipers.metrics.declare.declaration import Feature, Metric, Rank
from calipers.reports.gate import gate_summary
from calipers.reports.pages.families import group_by_family
from calipers.reports.remarks import list_reasons, list_remarks
from calipers.scores.results import Group, Score

LISTED = 200
_ALSO_GROUPS = ("run", "correct", "passed")
_HEADLINE = (
    "accuracy",
    "pass_rate",
    "final_score",
    "composite_score",
    "cost_usd",
    "latency_p95_ms",
)


router = APIRouter()


@router.get("/")
def runs(site: SiteHere, q: str = "", verdict: str = "") -> Response:
    """Everything in the folder, or what a search leaves of it, what was written last first."""
    every = sorted(site.catalog.entries(), key=lambda entry: entry.changed(), reverse=True)
    found: list[dict[str, Any]] = []
    for entry in every:
        if len(found) < LISTED and _is_meant(run := site.run_of(entry), q, verdict):
            found.append({"run": run, "headline": _headline(run.score)})
    return site.page("runs.html", found=found, q=q, verdict=verdict, every=every, most=LISTED)


@router.get("/runs/{id_}")
def run(site: SiteHere, request: Request, id_: str) -> Response:
    """One run: its verdict, its numbers, its figures."""
    found, query = site.run(id_), query_of(request)
    if "add_field" in request.query_params:  # from the form: the address says it in our way
        return RedirectResponse(f"/runs/{id_}{query.to_url()}", 303)
    opened = site.indexes.open(found.entry) if found.entry.records.exists() else None
    ready = None if query.narrows or query.by else found.score
    return site.page(
        "run.html",
        **nav(found, query, "overview"),
        **filter_form(query, opened),
        gate_summary=gate_summary(found.gate) if found.gate else None,
        progress=site.followed(found.entry).progress() if found.running else None,
        view=None if ready is None else _score_view(found, query, ready),
        groupings=_groupings(opened.index) if opened else [],
        failed=int(opened.index.column("failed").sum()) if opened and opened.index.rows else 0,
        opened=opened,
    )


@router.get("/runs/{id_}/score")
def score(site: SiteHere, request: Request, id_: str) -> Response:
    """The numbers of a view, measured now: a part of the page that comes when it is ready."""
    found, query = site.run(id_), query_of(request)
    opened = site.indexes.open(found.entry)
    grouped = with_groups(query, opened.index)
    measured = site.measuring.score(opened, grouped, found.name)
    if opened.complete and not (query.narrows or query.by):
        site.keep(found.entry, measured)
    view = _score_view(found, grouped, measured)
    return site.page("_score.html", run=found, view=view, opened=opened)


@router.get("/runs/{id_}/figures")
def figures(site: SiteHere, request: Request, id_: str) -> Response:
    """The figures of a view: a part of the page that comes when it is ready."""
    found, query = site.run(id_), query_of(request)
    drawn = site.figures(site.pictured_score(found, query))
    return site.page("_figures.html", run=found, query=query, figures=list(drawn.values()))


@router.get("/runs/{id_}/progress")
def progress(site: SiteHere, id_: str, short: bool = False) -> Response:  # noqa: FBT001, FBT002
    """How far a run is: a part of the page that is asked for again and again."""
    found = site.run(id_)
    if found.entry.folder is None:
        raise NotHere(f"{found.name} is no run")
    now = site.followed(found.entry).progress()
    name = "_progress_short.html" if short else "_progress.html"
    return site.page(name, run=found, progress=now)


@router.get("/runs/{id_}/gate")
def gate(site: SiteHere, request: Request, id_: str) -> Response:
    """Each check with its evidence."""
    found, query = site.run(id_), query_of(request)
    summary = gate_summary(found.gate) if found.gate else None
    return site.page("gate.html", **nav(found, query, "gate"), gate_summary=summary)


def _is_meant(run: Run, q: str, verdict: str) -> bool:
    text = " ".join((run.name, *run.tags)).lower()
    return all(word in text for word in q.lower().split()) and verdict in ("", run.verdict)


def _headline(score: Score | None) -> list[dict[str, Any]]:
    """The few numbers that a list has room for, of the first groups."""
    if score is None:
        return []
    names = [name for name in _HEADLINE if any(_known(g, name) for g in score.groups)][:3]
    return [
        {
            "name": name,
            "unit": metric_named(name).unit,
            "groups": [(g, g.metrics[name]) for g in score.groups if _known(g, name)],
        }
        for name in names
    ]


def _known(group: Group, name: str) -> bool:
    return name in group.metrics and group.metrics[name].value is not None


def _groupings(index: Index) -> list[str]:
    """The fields that a score may be grouped by."""
    fields = index.summary.fields  # what was only measured cannot be grouped by
    names = [n for n in index.columns if n in fields and n not in ("id", "answer", "target")]
    texts = [n for n in names if index.columns[n] == pl.String or n in _ALSO_GROUPS]
    return [name for name in texts[:30] if few_values(index, name, 40)]


def _score_view(run: Run, query: Query, score: Score) -> dict[str, Any]:
    """What the template shows of a score; its figures come behind, for they take longer."""
    names = list(dict.fromkeys(name for group in score.groups for name in group.metrics))
    known = [name for name in names if any(_known(group, name) for group in score.groups)]
    first = [family for family in group_by_family(known) if family.first]
    cards = {name for family in first for name in family.first}
    return {
        "score": score,
        "beside": [*list_remarks(score), *list_reasons(score.groups, cards)],
        "families": first,
        "others": [name for name in names if name not in cards],
        "rows": lambda name, group: rows_behind(run, query, name, group.by),
        "task_link": lambda task: f"/runs/{run.id}/samples{task_url(query, task)}",
        "query": query,
    }


def rows_behind(run: Run, query: Query, name: str, by: Mapping[str, Any]) -> str:
    """The address of the rows that a number is made of, those that weigh against it first."""
    metric = metric_named(name)
    view = query
    for field, value in by.items():
        view = view.only(field, value)
    feature = _feature(metric)
    filters, sort = view.filters, ""
    if feature is not None:
        filters = (*filters, Filter(feature, "!=", NONE))
        falls = (metric.better == "lower") != metric.complement
        sort = f"-{feature}" if falls or metric.better is None else feature
    return f"/runs/{run.id}/samples{Query(filters=filters, text=view.text, sort=sort).to_url()}"


def _feature(metric: Metric) -> str | None:
    """The value per row that a metric is made of, where it is one that rows show."""
    found = metric.aggregate.feature if isinstance(metric.aggregate, Rank) else metric.averaged
    if not isinstance(found, Feature) or not found.listed:
        return None
    return shown(found.name)

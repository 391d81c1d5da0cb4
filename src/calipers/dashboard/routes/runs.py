"""The list of runs, and one run: verdict, numbers, figures, progress."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

import polars as pl
from fastapi import APIRouter, Request, Response

from calipers.dashboard.catalog import NotHere
from calipers.dashboard.filters import NONE, Filter, Query, add_groups, count_pooled, has_few_values
from calipers.dashboard.index import Index
from calipers.dashboard.run import HEADLINE, Run
from calipers.dashboard.site import SiteHere, get_query, redirect_form
from calipers.metrics import metric_named
from calipers.metrics.declare.declaration import Feature, Metric, Rank
from calipers.reports.gate import gate_summary
from calipers.reports.pages.families import group_by_family
from calipers.reports.remarks import list_reasons, list_remarks
from calipers.scores.results import FlakyTask, Group, Score

LISTED = 100  # runs on a page
_ALSO_GROUPS = ("run", "correct", "passed")
router = APIRouter()


@router.get("/")
def list_runs(site: SiteHere, q: str = "", verdict: str = "", page: int = 1) -> Response:
    """List everything in the folder, or what a search finds, newest first."""
    every = sorted(site.catalog.list_entries(), key=lambda entry: entry.read_mtime(), reverse=True)
    runs = map(site.read_run, every)
    meant = [run for run in runs if _is_meant(run, q, verdict)] if q or verdict else list(runs)
    pages = max(1, -(-len(meant) // LISTED))
    page = min(max(1, page), pages)
    first = (page - 1) * LISTED
    asked = {name: text for name, text in (("q", q), ("verdict", verdict)) if text}
    return site.render(
        "runs.html",
        found=[(run, _choose_headline(run.brief)) for run in meant[first : first + LISTED]],
        q=q,
        verdict=verdict,
        every=len(every),
        meant=len(meant),
        first=first,
        page=page,
        pages=pages,
        page_url=lambda number: f"/?{urlencode({**asked, 'page': str(number)})}",
    )


@router.get("/runs/{id_}")
def show_run(site: SiteHere, request: Request, id_: str) -> Response:
    """Show one run: its verdict, its numbers, its figures."""
    found, query = site.run(id_), get_query(request)
    if (elsewhere := redirect_form(request, query)) is not None:
        return elsewhere
    opened = site.open(found) if found.entry.records.exists() else None
    ready = None if query.narrows or query.by or found.running else found.score
    return site.render(
        "run.html",
        run=found,
        query=query,
        here="overview",
        gate_summary=gate_summary(found.gate) if found.gate else None,
        progress=site.follow(found.entry).read_progress() if found.running else None,
        view=None if ready is None else _make_view(found, query, ready),
        pooled=count_pooled(query, opened.index) if opened else None,
        groupings=_list_groupings(opened.index) if opened else [],
        failed=int(opened.index.read_column("failed").sum()) if opened and opened.index.rows else 0,
        opened=opened,
    )


@router.get("/runs/{id_}/score")
def show_score(site: SiteHere, request: Request, id_: str) -> Response:
    """Show the numbers of a view, measured now: a part of the page that is loaded later."""
    found, query = site.run(id_), get_query(request)
    opened = site.open(found)
    grouped = add_groups(query, opened.index)
    measured = site.measuring.score(opened, grouped, found.name)
    if opened.complete and not (query.narrows or query.by):
        site.keep(found.entry, measured)
    view = _make_view(found, grouped, measured)
    return site.render("_score.html", run=found, view=view, opened=opened)


@router.get("/runs/{id_}/figures")
def show_figures(site: SiteHere, request: Request, id_: str) -> Response:
    """Show the figures of a view: a part of the page that is loaded later."""
    found, query = site.run(id_), get_query(request)
    drawn = site.get_figures(site.get_score(found, query))
    return site.render("_figures.html", run=found, query=query, figures=list(drawn.values()))


@router.get("/runs/{id_}/progress")
def show_progress(site: SiteHere, id_: str, short: bool = False) -> Response:  # noqa: FBT001, FBT002
    """Show the progress of a run: a part of the page that is polled."""
    found = site.run(id_)
    if found.entry.folder is None:
        raise NotHere(f"{found.name} is no run")
    now = site.follow(found.entry).read_progress()
    name = "_progress_short.html" if short else "_progress.html"
    return site.render(name, run=found, progress=now)


@router.get("/runs/{id_}/gate")
def show_gate(site: SiteHere, request: Request, id_: str) -> Response:
    """Show each check with its evidence."""
    found, query = site.run(id_), get_query(request)
    summary = gate_summary(found.gate) if found.gate else None
    return site.render("gate.html", run=found, query=query, here="gate", gate_summary=summary)


def _is_meant(run: Run, q: str, verdict: str) -> bool:
    words = q.lower().split()
    text = " ".join((run.name, *run.tags)).lower() if words else ""
    return all(word in text for word in words) and verdict in ("", run.verdict)


def _choose_headline(score: Score | None) -> list[dict[str, Any]]:
    """Return the few numbers that a list has room for, of the first groups."""
    if score is None:
        return []
    names = [name for name in HEADLINE if any(_has_value(g, name) for g in score.groups)][:3]
    return [
        {
            "name": name,
            "unit": metric_named(name).unit,
            "groups": [(g.by, g.metrics[name]) for g in score.groups if _has_value(g, name)],
        }
        for name in names
    ]


def _has_value(group: Group, name: str) -> bool:
    return name in group.metrics and group.metrics[name].value is not None


def _list_groupings(index: Index) -> list[str]:
    fields = index.summary.fields  # measured values cannot be grouped by
    names = [n for n in index.columns if n in fields and n not in ("id", "answer", "target")]
    texts = [n for n in names if index.columns[n] == pl.String or n in _ALSO_GROUPS]
    return [name for name in texts[:30] if has_few_values(index, name, 40)]


def _make_view(run: Run, query: Query, score: Score) -> dict[str, Any]:
    """Return what the template shows of a score, without its figures, which take longer."""
    names = list(dict.fromkeys(name for group in score.groups for name in group.metrics))
    known = [name for name in names if any(_has_value(group, name) for group in score.groups)]
    first = [family for family in group_by_family(known) if family.first]
    cards = {name for family in first for name in family.first}
    return {
        "score": score,
        "beside": [*list_remarks(score), *list_reasons(score.groups, cards)],
        "families": first,
        "others": [name for name in names if name not in cards],
        "rows": lambda name, group: locate_rows(run, query, name, group.by),
        "task_link": lambda task: _locate_task(run, query, task),
        "query": query,
    }


def _locate_task(run: Run, query: Query, task: FlakyTask) -> str:
    of_task = query.set_filters({**task.by, "id": task.id})
    return f"/runs/{run.id}/samples{of_task.rows.to_url()}"


def locate_rows(run: Run, query: Query, name: str, by: Mapping[str, Any]) -> str:
    """Return the address of the rows behind a number, the most unfavourable first."""
    metric = metric_named(name)
    view = query.set_filters(by)
    feature = _find_feature(metric)
    filters, sort = view.filters, ""
    if feature is not None:
        filters = (*filters, Filter(feature, "!=", NONE))
        falls = (metric.better == "lower") != metric.complement
        sort = f"-{feature}" if falls or metric.better is None else feature
    return f"/runs/{run.id}/samples{Query(filters=filters, text=view.text, sort=sort).to_url()}"


def _find_feature(metric: Metric) -> str | None:
    """Return the value per row that a metric is based on, if rows show it; else None."""
    found = metric.aggregate.feature if isinstance(metric.aggregate, Rank) else metric.averaged
    return found.name if isinstance(found, Feature) and found.listed else None

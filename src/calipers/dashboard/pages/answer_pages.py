"""Answers side by side: tasks by systems with the answer in the cell, and one task with its calls.

Which tasks tell systems apart is counted once for a view; a page reads the answers of its tasks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil
from typing import Any
from urllib.parse import urlencode

import polars as pl
from fastapi import APIRouter, Request, Response

from calipers.dashboard.answers import (
    MOST_SYSTEMS,
    ToldView,
    choose_columns,
    find_rows,
    read_answers,
    read_told,
    tell_view,
)
from calipers.dashboard.catalog import NotHere
from calipers.dashboard.index import Index
from calipers.dashboard.index_cache import Opened
from calipers.dashboard.overview import list_kinds
from calipers.dashboard.pages.sample_pages import read_call
from calipers.dashboard.selection import (
    PAGE_ROWS,
    SEARCH_SECONDS,
    Query,
    has_few_values,
)
from calipers.dashboard.site import Site, SiteHere, get_query, redirect_form
from calipers.reports.data.answers_matrix import (
    CHOICES,
    DIFFER,
    DISPUTED,
    RUNS,
    Key,
    choose_tasks,
    make_rows,
)
from calipers.reports.number_format import show_name

MOST_CALLS = 60  # of one task, side by side
_SYSTEM = ("model", "tier", "variant")
_ALSO = ("run", "category", "capability")  # what columns can be besides

router = APIRouter()


@router.get("/runs/{id_}/answers")
def show_answers(site: SiteHere, request: Request, id_: str) -> Response:
    """Show tasks by systems, those of one choice."""
    found, query = site.run(id_), get_query(request)
    if (elsewhere := redirect_form(request, query)) is not None:
        return elsewhere
    opened = site.open(found)
    index = opened.index
    told = tell(site, opened, query) if "id" in index.columns else None
    shown = _choose_show(query, told)
    ids = choose_tasks(told.tasks, shown) if told is not None else pl.Series([], dtype=pl.String)
    pages = max(1, ceil(len(ids) / PAGE_ROWS))
    page = min(query.page, pages)
    some = ids.slice((page - 1) * PAGE_ROWS, PAGE_ROWS).to_list()
    systems = [] if told is None else list(told.systems)[:MOST_SYSTEMS]
    return site.render(
        "answers.html",
        run=found,
        query=query,
        here="answers",
        opened=opened,
        told=told,
        searching=_is_searching(opened, query),
        shown=shown,
        choices=_list_choices(told, query, shown),
        rows=[]
        if told is None
        else make_rows(read_answers(opened, query, some, told.by), some, told.by, systems),
        systems=[
            (_name_system(each), told.systems[each], _locate_samples(query, told.by, each))
            for each in systems
        ]
        if told
        else [],
        columns=_list_columns(index, told),
        categories=list_kinds(opened, query, f"/runs/{id_}/answers"),
        first=(page - 1) * PAGE_ROWS + 1,
        total=len(ids),
        page=page,
        pages=pages,
        page_url=lambda number: replace(query, page=number).to_url(),
        task_url=lambda task: _locate_task(found.id, query, task),
    )


@router.get("/runs/{id_}/answers/task")
def show_task_answers(site: SiteHere, request: Request, id_: str, task: str) -> Response:
    """Show the calls of one task side by side, each with its tools, its answer and its judges."""
    found = site.run(id_)
    query = get_query(request, without=("task",))
    opened = site.open(found)
    index = opened.index
    if "id" not in index.columns:
        raise NotHere("no record has an id")
    by = choose_columns(query, index)
    rows = find_rows(opened, query, [task])
    if not len(rows):
        raise NotHere(f"no record of this view is of the task {task}")
    whole = tell(site, opened, replace(query, text=""))
    calls = [read_call(opened, int(row)) for row in rows.head(MOST_CALLS)]
    keyed = [(tuple(each.record.get(name) for name in by), each) for each in calls]
    places = {key: at for at, key in enumerate(whole.systems)}  # as the columns stand
    keyed.sort(key=lambda item: places.get(item[0], len(places)))
    return site.render(
        "answers_task.html",
        run=found,
        query=query,
        here="answers",
        task=task,
        record=calls[0].record,
        calls=[(_name_system(key), call) for key, call in keyed],
        left_out=len(rows) - len(calls),
        back=f"/runs/{found.id}/answers{query.to_url()}",
        opened=opened,
    )


def tell(site: Site, opened: Opened, query: Query) -> ToldView:
    """Return what is known of the tasks of a view, counted once; of a search as far as it got."""
    by = choose_columns(query, opened.index)
    if query.text:
        search = opened.selector.search(query)
        search.go_on(seconds=4 * SEARCH_SECONDS)
        if not search.done:
            return tell_view(opened, query, by)
    if not query.narrows and (stored := read_told(opened.index)) is not None and stored.by == by:
        return stored
    key = opened.key, opened.index.rows, query.rows, by
    found: ToldView = site.answers.get(key, lambda: tell_view(opened, query, by))
    return found


def _is_searching(opened: Opened, query: Query) -> bool:
    return bool(query.text) and not opened.selector.search(query).done


def _choose_show(query: Query, told: ToldView | None) -> str:
    """Return the choice asked for; without one, the tasks that tell systems apart, if there are."""
    if query.show in CHOICES:
        return query.show
    return DIFFER if told is not None and told.counts[DIFFER] else "all"


def _list_choices(told: ToldView | None, query: Query, shown: str) -> list[dict[str, Any]]:
    if told is None:
        return []
    what = "runs" if told.by == ("run",) else "systems"
    says = {
        "all": "all",
        DIFFER: f"{what} differ",
        RUNS: "runs differ",
        "right": "right everywhere",
        "wrong": "wrong everywhere",
        DISPUTED: "checks and target disagree",
        "failed": "failed calls",
    }
    known = any(shares.right is not None for shares in told.systems.values())
    several = {DIFFER: len(told.systems) > 1 and known, RUNS: told.runs > 1 and known}
    fits = {
        **dict.fromkeys(("right", "wrong"), known),
        DISPUTED: told.counts[DISPUTED] > 0,
        "failed": told.counts["failed"] > 0,
        **several,
    }
    return [
        {
            "says": text,
            "count": told.counts[name],
            "chosen": name == shown,
            "url": replace(query, show=name, page=1).to_url(),
        }
        for name, text in says.items()
        if fits.get(name, True)
    ]


def _list_columns(index: Index, told: ToldView | None) -> list[str]:
    """Return the fields that columns can be instead."""
    if told is None:
        return []
    own = (name for name in index.summary.fields if index.columns.get(name) == pl.String)
    names = dict.fromkeys((*_SYSTEM, *_ALSO, *own))
    few = [
        name
        for name in names
        if name not in ("id", "input", "answer", "target")
        and has_few_values(index, name, MOST_SYSTEMS)
    ]
    return few[:20]


def _name_system(key: Key) -> str:
    """Return what a column is called."""
    whole = (int(each) if isinstance(each, float) and each.is_integer() else each for each in key)
    return " · ".join(map(show_name, whole)) if key else "answer"


def _locate_samples(query: Query, by: Sequence[str], key: Key) -> str:
    """Return the records of one system, as the table of records shows them."""
    return query.set_filters(dict(zip(by, key, strict=True))).rows.to_url()


def _locate_task(run: str, query: Query, task: str) -> str:
    shared = replace(query, page=1, text="").to_pairs()
    return f"/runs/{run}/answers/task?{urlencode([('task', task), *shared])}"

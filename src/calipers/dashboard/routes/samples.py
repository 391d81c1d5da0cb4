"""The records of a run: a paged table, and one record on its own page."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from itertools import chain
from typing import Any

import polars as pl
from fastapi import APIRouter, Request, Response

from calipers.dashboard.catalog import NotHere
from calipers.dashboard.filters import Query, format_value
from calipers.dashboard.index import Index
from calipers.dashboard.indexes import Opened
from calipers.dashboard.marks import diff_words, mark_thought
from calipers.dashboard.selection import PAGE_ROWS
from calipers.dashboard.site import SiteHere, get_query, redirect_form
from calipers.dashboard.timeline import make_timeline
from calipers.records.judgment_shape import REASONS
from calipers.reports.api import trace_svg

_FIRST = ("model", "tier", "run", "category", "capability")
_VERDICTS = ("correct", "passed")
_TEXTS = ("answer", "target", "input")
_NUMBERS = (
    *("prob_correct", "scenario_score", "impl_rate", "composite_score", "latency_ms"),
    *("duration_seconds", "total_tokens", "cost_usd", "math_usr", "step_count"),
)
_MOST_NUMBERS = 5
_PREVIEW = 120
_MOST_FACETS, _MOST_VALUES = 8, 12
_MOST_LISTED = 100  # of the names, tags or judgments in one record
# Rules of a style go before the colours that a picture's elements have as attributes.
_DARK = "".join(
    f"[{part}='{light}']{{{part}:{dark}}}"
    for light, dark in (
        *(("#7d8796", "#a4adb6"), ("#e8590c", "#ff9a5c")),
        *(("#eef1f5", "#272d33"), ("#1c2530", "#e6e9ec")),
    )
    for part in ("fill", "stroke")
)
_PICTURE_POLICY = "default-src 'none'; style-src 'unsafe-inline'"

router = APIRouter()


@router.get("/runs/{id_}/samples")
def show_samples(site: SiteHere, request: Request, id_: str) -> Response:
    """Show a page of the table."""
    found, query = site.run(id_), get_query(request)
    if (elsewhere := redirect_form(request, query)) is not None:
        return elsewhere
    opened = site.open(found)
    return site.render(
        "samples.html",
        **_make_table(query, opened),
        run=found,
        query=query,
        here="samples",
        progress=site.follow(found.entry).read_progress() if found.running else None,
        opened=opened,
    )


@router.get("/runs/{id_}/rows")
def show_rows(site: SiteHere, request: Request, id_: str) -> Response:
    """Show the table alone, with what a search has found so far."""
    found, query = site.run(id_), get_query(request)
    opened = site.open(found)
    table = _make_table(query, opened)
    return site.render("_rows.html", run=found, query=query, opened=opened, **table)


@router.get("/runs/{id_}/facets")
def show_facets(site: SiteHere, request: Request, id_: str) -> Response:
    """Show the values of fields that have few, with their number of records in the view."""
    found, query = site.run(id_), get_query(request)
    opened = site.open(found)
    return site.render("_facets.html", run=found, query=query, facets=_list_facets(query, opened))


@router.get("/runs/{id_}/samples/{row}")
def show_sample(site: SiteHere, request: Request, id_: str, row: int) -> Response:
    """Show one record: input, reasoning, answer, and its measured values."""
    found, query = site.run(id_), get_query(request)
    opened = site.open(found)
    record, values = _read_record(opened.index, row)
    answer, other = record.get("answer"), record.get("target") or record.get("reference")
    selected = opened.selector.select(replace(query, page=1))
    place, before, behind = selected.find_neighbours(row)
    return site.render(
        "sample.html",
        run=found,
        query=query,
        here="samples",
        row=row,
        record=record,
        measured=values,
        place=place,
        selected=selected,
        before=before,
        behind=behind,
        cot=mark_thought(record["cot"], opened.settings) if record.get("cot") else None,
        against=diff_words(answer, other) if answer is not None and other is not None else None,
        judgments=_parse_list(record.get("judgments")),
        checks=_parse_list(record.get("checks")),
        timeline=make_timeline(record.get("trace")),
        graphs=_list_graphs(record.get("trace")),
        tags=_parse_list(record.get("tags")),
        names={name: _parse_list(record.get(name)) for name in _NAMES if record.get(name)},
        raw=_as_json(record),
        known=_KNOWN,
        most_listed=_MOST_LISTED,
        reasons=REASONS,
        opened=opened,
    )


@router.get("/runs/{id_}/samples/{row}/record.json")
def send_record(site: SiteHere, id_: str, row: int) -> Response:
    """Send one record with its full texts, which the page truncates."""
    record, _ = _read_record(site.open(site.run(id_)).index, row)
    headers = {"content-disposition": f'attachment; filename="{id_}-{row}.json"'}
    return Response(_as_json(record), media_type="application/json", headers=headers)


@router.get("/runs/{id_}/samples/{row}/trace.svg")
def send_trace(
    site: SiteHere,
    id_: str,
    row: int,
    graph: str = "tools",
    dark: bool = False,  # noqa: FBT001, FBT002 (a parameter of the address)
) -> Response:
    """Send a picture of the record's trace; as an image it cannot run scripts."""
    found = site.run(id_)
    record, _ = _read_record(site.open(found).index, row)
    if not record.get("trace"):
        raise NotHere("the record has no trace")
    picture = trace_svg(record["trace"], graph="agents" if graph == "agents" else "tools")
    if dark:
        picture = picture.replace("<title", f"<style>{_DARK}</style><title", 1)
    headers = {"content-security-policy": _PICTURE_POLICY}
    return Response(picture, media_type="image/svg+xml", headers=headers)


_NAMES = ("expected_behaviors", "observed_behaviors", "violations")
_KNOWN = (
    *("id", "model", "tier", "run", "category", "capability", "tags", "input", "target", "answer"),
    *("cot", "reference", "judgments", "trace", "error", "usage", "checks", *_NAMES),
)


def _make_table(query: Query, opened: Opened) -> dict[str, Any]:
    selected = opened.selector.select(query)
    page = min(query.page, selected.pages) if selected.complete else query.page
    enough = not query.sort and len(selected.rows) > query.page * PAGE_ROWS
    rows = selected.page(page)
    index = opened.index
    heads = _choose_columns(index)
    texts = [name for name in _TEXTS if name in index.summary.fields]
    previews = index.read_records(rows, texts)
    cells = index.read_cells(("id", "error", *chain(*heads.values())), rows)
    lines = [
        {
            "row": row,
            "cells": {name: cells[name][at] for name in cells},
            "texts": {name: _shorten(previews[name][at]) for name in texts},
        }
        for at, row in enumerate(rows)
    ]
    return {
        "selected": selected,
        "page": page,
        "lines": lines,
        "heads": heads,
        "texts": texts,
        "sort_url": lambda name: replace(
            query, sort=f"-{name}" if query.sort == name else name, page=1
        ).to_url(),
        "page_url": lambda number: replace(query, page=number).to_url(),
        "first_row": (page - 1) * PAGE_ROWS + 1,
        "going_on": not (selected.complete or enough),
        "verdicts": _VERDICTS,
    }


def _choose_columns(index: Index) -> dict[str, list[str]]:
    """Return what a table shows of each record: right or wrong, by whom, and some numbers."""
    first = [name for name in (*_VERDICTS, *_FIRST) if name in index.columns]
    numbers = [name for name in _NUMBERS if name in index.columns and name not in first]
    return {"first": first, "numbers": numbers[:_MOST_NUMBERS]}


def _shorten(text: str | None) -> str | None:
    if text is None or len(text) <= _PREVIEW:
        return text
    return f"{text[: _PREVIEW - 1]}…"


def _list_facets(query: Query, opened: Opened) -> list[dict[str, Any]]:
    """Return fields of few values, each value with its records under the other filters."""
    index = opened.index
    named = [n for n in (*_VERDICTS, *_FIRST, "failed") if n in index.columns]
    texts = [
        n for n, kind in index.columns.items() if kind == pl.String and n in index.summary.values
    ]
    others = [n for n in texts if n not in (*named, "id", "answer", "target", "error")]
    found: list[dict[str, Any]] = []
    for name in (*named, *others):
        if len(found) < _MOST_FACETS and index.count_distinct(name) <= _MOST_VALUES:
            values = _count_values(query, name, opened)
            if len(values) > 1:
                found.append({"name": name, "values": values})
    return found


def _count_values(query: Query, name: str, opened: Opened) -> list[dict[str, Any]]:
    chosen = {each.value for each in query.filters if each.field == name}
    others = replace(query, filters=tuple(f for f in query.filters if f.field != name))
    column = opened.index.read_column(name)
    if others.narrows:
        column = column.gather(opened.selector.select_all(others))
    counts = column.value_counts(sort=True, name="_count")
    return [
        {
            "value": format_value(value),
            "count": count,
            "url": (
                others if format_value(value) in chosen else others.set_filters({name: value})
            ).to_url(),
            "chosen": format_value(value) in chosen,
        }
        for value, count in counts.iter_rows()
    ]


def _read_record(index: Index, row: int) -> tuple[dict[str, Any], dict[str, Any]]:
    if not 0 <= row < index.rows:
        raise NotHere(f"there is no record {row}")
    return index.read_one(row)


def _parse_list(text: str | None) -> list[Any]:
    found = _parse(text)
    return found if isinstance(found, list) else []


def _list_graphs(text: str | None) -> list[str]:
    found = _parse(text)
    if not isinstance(found, dict):
        return []
    parts = {"tools": "tool_calls", "agents": "agent_interactions"}
    return [graph for graph, part in parts.items() if found.get(part)]


def _parse(text: str | None) -> Any:
    try:
        return None if text is None else json.loads(text)
    except (ValueError, RecursionError):
        return None


def _as_json(record: Mapping[str, Any]) -> str:
    """Return the record as JSON, nested values parsed, not as text."""
    nested = (*_NAMES, "judgments", "trace", "usage", "tags", "messages", "checks", "optimal_tools")
    parsed = {name: _parse(value) for name, value in record.items() if name in nested}
    known = {name: value for name, value in parsed.items() if value is not None}
    return json.dumps({**record, **known}, indent=2, ensure_ascii=False)

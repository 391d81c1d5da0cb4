"""The records of a run in a paged table, and one record with its trace on a page."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain
from math import isfinite
from typing import Any

import polars as pl
from fastapi import APIRouter, Request, Response

from calipers.dashboard.catalog import NotHere
from calipers.dashboard.highlight import diff_words, judge_statements, mark_thought
from calipers.dashboard.index import Index
from calipers.dashboard.index_cache import Opened
from calipers.dashboard.selection import PAGE_ROWS, Query, format_value
from calipers.dashboard.site import SiteHere, get_query, redirect_form
from calipers.metrics.families.judged import find_criterion
from calipers.metrics.families.traces import measure_agents
from calipers.records.derived_fields import PASSAGE_NAMES
from calipers.reports.data.transcript import (
    Tone,
    Turn,
    choose_marks,
    list_pictures,
    read_transcript,
)
from calipers.reports.trace_picture import trace_svg

MOST_STEPS = 400  # steps that are shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One call of a tool; `start` and `width` are its place from 0 to 100."""

    number: int
    tool: str
    agent: str | None
    context: str | None
    success: bool | None
    seconds: float | None
    start: float
    width: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """The calls of a trace in order."""

    steps: tuple[Step, ...]
    total: int
    seconds: float | None  # from the first to the end of the last; None where no times are known
    by_time: bool  # or by order alone


def make_timeline(trace: Any) -> Timeline | None:
    """Return the timeline of a trace, an object or its JSON; None if no tool was called."""
    calls = _list_calls(trace)
    if not calls:
        return None
    shown = calls[:MOST_STEPS]
    starts, seconds = _read_times(shown)
    end = max(at + (took or 0.0) for at, took in zip(starts, seconds, strict=True))
    by_time = end > 0
    places = [at / end if by_time else n / len(shown) for n, at in enumerate(starts)]
    widths = [(took or 0.0) / end if by_time else 1 / len(shown) for took in seconds]
    steps = tuple(
        Step(
            number=number,
            tool=str(call.get("tool_name")),
            agent=_as_text(call.get("agent_id")),
            context=_as_text(call.get("context")),
            success=call["success"] if isinstance(call.get("success"), bool) else None,
            seconds=took,
            start=round(100 * place, 2),
            width=round(max(0.4, 100 * width), 2),
        )
        for number, (call, took, place, width) in enumerate(
            zip(shown, seconds, places, widths, strict=True), start=1
        )
    )
    return Timeline(
        steps=steps, total=len(calls), seconds=end if by_time else None, by_time=by_time
    )


def _list_calls(trace: Any) -> list[Mapping[str, Any]]:
    try:
        found = json.loads(trace) if isinstance(trace, str) else trace
    except (ValueError, RecursionError):
        return []
    calls = found.get("tool_calls") if isinstance(found, Mapping) else None
    return [call for call in calls or () if isinstance(call, Mapping)]


def _read_times(calls: Sequence[Mapping[str, Any]]) -> tuple[list[float], list[float | None]]:
    """Return when each call began, from 0, and its duration; in sequence without time stamps."""
    seconds = [_read_seconds(call.get("duration")) for call in calls]
    stamps = [_read_stamp(call.get("timestamp")) for call in calls]
    if all(stamp is not None for stamp in stamps):
        first = min(stamp for stamp in stamps if stamp is not None)
        return [stamp - first for stamp in stamps if stamp is not None], seconds
    starts, at = [], 0.0
    for took in seconds:
        starts.append(at)
        at += took or 0.0
    return starts, seconds


def _read_seconds(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and isfinite(value) and value >= 0 else None


def _read_stamp(value: Any) -> float | None:
    """Return seconds since an epoch, from a number or an ISO text."""
    if isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value):
        return float(value)
    try:
        return datetime.fromisoformat(value).timestamp() if isinstance(value, str) else None
    except (ValueError, OverflowError, OSError):
        return None


def _as_text(value: Any) -> str | None:
    return None if value is None else str(value)


_FIRST = ("model", "tier", "run", "category", "capability")
_VERDICTS = ("correct", "passed")
_TEXTS = ("answer", "target", "input")
_NUMBERS = (
    *("prob_correct", "scenario_score", "impl_rate", "composite_score", "latency_ms"),
    *("duration_seconds", "total_tokens", "cost_usd", "math_usr", "rag_usr", "step_count"),
)
_MOST_NUMBERS, _MOST_JUDGED = 5, 3
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadCall:
    """One record as a conversation, with what was measured of it and who judged it."""

    row: int
    record: Mapping[str, Any]
    measured: Mapping[str, Any]
    turns: Sequence[Turn]
    marks: Mapping[str, Tone]
    judgments: Sequence[Mapping[str, Any]]
    checks: Sequence[Mapping[str, Any]]

    @property
    def right(self) -> bool | None:
        """Whether it passed or is right, if that is known."""
        found = (self.measured.get(name) for name in ("passed", "correct"))
        return next((each for each in found if isinstance(each, bool)), None)


def read_call(opened: Opened, row: int) -> ReadCall:
    """Return a record as a conversation; raise NotHere if there is none of that number."""
    record, measured = _read_record(opened.index, row)
    call = ReadCall(
        row=row,
        record=record,
        measured=measured,
        turns=read_transcript(record),
        marks={},
        judgments=[e for e in _parse_list(record.get("judgments")) if isinstance(e, Mapping)],
        checks=[
            each
            for each in _parse_list(record.get("checks"))
            if isinstance(each, Mapping) and "held" in each
        ],
    )
    return replace(call, marks=choose_marks(record, right=call.right))


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
    call = read_call(opened, row)
    record, values = call.record, call.measured
    answer, other = record.get("answer"), record.get("target") or record.get("reference")
    cot = mark_thought(record["cot"], opened.settings) if record.get("cot") else []
    selected = opened.selector.select(replace(query, page=1))
    place, before, behind = selected.find_neighbours(row)
    return site.render(
        "sample.html",
        run=found,
        query=query,
        here="samples",
        row=row,
        call=call,
        record=record,
        measured=values,
        place=place,
        selected=selected,
        before=before,
        behind=behind,
        cot=cot if any(line.step or len(line.pieces) > 1 for line in cot) else None,
        marked={piece.mark for line in cot for piece in line.pieces if piece.mark},
        against=diff_words(answer, other) if answer is not None and other is not None else None,
        statements=judge_statements(record, opened.settings),
        agents=measure_agents(record.get("trace")),
        timeline=make_timeline(record.get("trace")),
        graphs=_list_graphs(record.get("trace")),
        tags=_list_tags(record.get("tags")),
        names={name: _parse_list(record.get(name)) for name in _NAMES if record.get(name)},
        raw=_dump_record(record),
        known=_KNOWN,
        most_listed=_MOST_LISTED,
        opened=opened,
    )


@router.get("/runs/{id_}/samples/{row}/record.json")
def send_record(site: SiteHere, id_: str, row: int) -> Response:
    """Send one record with its full texts, which the page truncates."""
    record, _ = _read_record(site.open(site.run(id_)).index, row)
    headers = {"content-disposition": f'attachment; filename="{id_}-{row}.json"'}
    return Response(_dump_record(record), media_type="application/json", headers=headers)


@router.get("/runs/{id_}/samples/{row}/pictures/{number}")
def send_picture(site: SiteHere, id_: str, row: int, number: int) -> Response:
    """Send a picture of the conversation; as an image it cannot run scripts."""
    record, _ = _read_record(site.open(site.run(id_)).index, row)
    pictures = list_pictures(read_transcript(record))
    if not 0 <= number < len(pictures):
        raise NotHere(f"the record has no picture {number}")
    headers = {"content-security-policy": "default-src 'none'; sandbox"}
    found = pictures[number]
    return Response(found.data, media_type=found.media_type, headers=headers)


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
    *("cot", "reference", "passages", "judgments", "trace", "error", "usage", "checks", "messages"),
    *_NAMES,
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
    judged = [name for name in index.summary.values if find_criterion(name) is not None]
    known = [name for name in _NUMBERS if name in index.columns and name not in first]
    if "latency_ms" in known:  # one time is enough
        known = [name for name in known if name != "duration_seconds"]
    return {"first": first, "numbers": [*judged[:_MOST_JUDGED], *known[:_MOST_NUMBERS]]}


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
    found = _parse_json(text)
    return found if isinstance(found, list) else []


def _list_tags(text: str | None) -> list[Any]:
    """Return the tags of a record: those of a list, or the one that is a text."""
    found = _parse_json(text)
    if isinstance(found, list):
        return found
    return [] if text is None else [text]


def _list_graphs(text: str | None) -> list[str]:
    found = _parse_json(text)
    if not isinstance(found, dict):
        return []
    parts = {"tools": "tool_calls", "agents": "agent_interactions"}
    return [graph for graph, part in parts.items() if found.get(part)]


def _parse_json(text: str | None) -> Any:
    try:
        return None if text is None else json.loads(text)
    except (ValueError, RecursionError):
        return None


def _dump_record(record: Mapping[str, Any]) -> str:
    """Return the record as JSON, nested values parsed, not as text."""
    nested = {
        *(*_NAMES, "judgments", "trace", "usage", "tags", "messages", "checks", "optimal_tools"),
        *("passages", "relevant_ids", *PASSAGE_NAMES),
    }
    parsed = {name: _parse_json(value) for name, value in record.items() if name in nested}
    known = {name: value for name, value in parsed.items() if value is not None}
    return json.dumps({**record, **known}, indent=2, ensure_ascii=False)

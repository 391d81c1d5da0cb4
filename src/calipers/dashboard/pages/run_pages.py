"""The list of runs, and one run: verdict, numbers, figures, progress, judges, diagnosis."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import polars as pl
from fastapi import APIRouter, Request, Response

from calipers.dashboard.catalog import Catalog, NotHere
from calipers.dashboard.index import Index
from calipers.dashboard.index_cache import Opened
from calipers.dashboard.overview import (
    draw_calls,
    list_kinds,
    list_looks,
    share_by_part,
    tabulate_systems,
)
from calipers.dashboard.pages.answer_pages import tell
from calipers.dashboard.run_view import HEADLINE, Run
from calipers.dashboard.selection import (
    NONE,
    Filter,
    Query,
    add_groups,
    count_pooled,
    has_few_values,
)
from calipers.dashboard.site import Site, SiteHere, get_query, redirect_form
from calipers.gates.result import Check
from calipers.metrics import metric_named
from calipers.metrics.declare.declaration import Feature, Metric, Rank
from calipers.metrics.families.judged import find_criterion
from calipers.reports.number_format import Form, format_group, split_figure
from calipers.reports.table import Table
from calipers.reports.tables.diagnosis_tables import describe_file, describe_support, list_findings
from calipers.reports.tables.gate_tables import (
    list_policy_metrics,
    put_blocking_first,
    summarize_gate,
)
from calipers.reports.tables.notes import list_reasons, list_remarks
from calipers.reports.tables.score_tables import tabulate_score
from calipers.reports.tables.shown_metrics import (
    choose_metric_form,
    choose_rows,
    get_unit,
    is_usual,
    label_metric,
)
from calipers.reports.tables.verdict_tables import describe_lead, describe_verdict, make_verdict
from calipers.scores.calibration import SCHEMA, Calibration, read_calibrations
from calipers.scores.result import FlakyTask, Group, Measured, Score
from calipers.support.errors import CalipersError, UsageError

LISTED = 100  # runs on a page
_MOST_LINES = 5  # systems of a run in the list
_MANY = 50_000  # records of a view that is measured in two steps
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
        found=[(run, _choose_headline(run)) for run in meant[first : first + LISTED]],
        starts=_list_starts(site.catalog.root.name or "results"),
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
        gate_summary=summarize_gate(found.gate) if found.gate else None,
        progress=site.follow(found.entry).read_progress() if found.running else None,
        view=None if ready is None else _make_view(site, found, query, ready, opened),
        pooled=count_pooled(query, opened.index) if opened else None,
        groupings=_list_groupings(opened.index) if opened else [],
        kinds=list_kinds(opened, query, f"/runs/{id_}") if opened else [],
        failed=int(opened.index.read_column("failed").sum()) if opened and opened.index.rows else 0,
        opened=opened,
        more=False,
    )


@router.get("/runs/{id_}/score")
def show_score(site: SiteHere, request: Request, id_: str, whole: bool = False) -> Response:  # noqa: FBT001, FBT002
    """Show the numbers of a view, measured now: a part of the page that is loaded later.

    Of very many records the usual metrics come first; the page then asks for the whole.
    """
    found, query = site.run(id_), get_query(request, without=("whole",))
    opened = site.open(found)
    grouped = add_groups(query, opened.index)
    first = () if whole else _choose_first(found, query, opened)
    measured = site.measuring.score(opened, grouped, found.name, first)
    if opened.complete and not (query.narrows or query.by):
        site.keep(found.entry, measured)
    view = _make_view(site, found, grouped, measured, opened)
    return site.render("_score.html", run=found, view=view, opened=opened, more=bool(first))


def _choose_first(run: Run, query: Query, opened: Opened) -> tuple[str, ...]:
    """Return the metrics that a view of very many records shows first; none for all at once.

    They are those of the policy and the usual ones that the run as a whole has values of.
    """
    kept = run.score
    if kept is None or not query.narrows or opened.index.rows < _MANY:
        return ()
    policy = list_policy_metrics(run.gate)
    names = dict.fromkeys(name for group in kept.groups for name in group.metrics)
    usual = (name for name in names if name in policy or is_usual(name))
    return tuple(n for n in usual if any(_has_value(group, n) for group in kept.groups))


@router.get("/runs/{id_}/lead")
def show_lead(site: SiteHere, request: Request, id_: str) -> Response:
    """Show how far the best system is ahead, and how sure that is; it takes a test."""
    found, query = site.run(id_), get_query(request)
    opened = site.open(found)
    first = _choose_first(found, query, opened)
    grouped = add_groups(query, opened.index)
    score = (
        site.measuring.score(opened, grouped, found.name, first)
        if first
        else site.get_score(found, query)
    )
    ranking = None
    if len(score.groups) > 1:
        by = ",".join(score.groups[0].by) if len(score.groups[0].by) == 1 else ""
        from calipers.comparisons.ranked_systems import MAIN_METRICS  # noqa: PLC0415 (slow to load)

        names = put_blocking_first(MAIN_METRICS, found.gate)
        known = (name for name in names if all(_has_value(each, name) for each in score.groups))
        with suppress(CalipersError):
            ranking = site.measuring.rank(
                [(opened, query.rows, found.name)], next(known, None), by or None, None
            )
    told = make_verdict(None if query.narrows or query.by else found.gate, score, ranking)
    return site.render(
        "_lead.html",
        run=found,
        query=query,
        sentence=describe_verdict(told),
        lead=describe_lead(told),
        ranked=ranking is not None,
    )


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
    summary = summarize_gate(found.gate) if found.gate else None
    wrong_first = _name_verdict(found.score)

    def locate_failing(check: Check, id_: str | None) -> str:
        of_system = Query().set_filters(check.by)
        if id_ is None:
            answers = replace(of_system, sort=wrong_first).to_url()
            return f"/runs/{found.id}/samples{answers}"
        pairs = [("task", id_), *of_system.to_pairs()]
        return f"/runs/{found.id}/answers/task?{urlencode(pairs)}"

    return site.render(
        "gate.html",
        run=found,
        query=query,
        here="gate",
        gate_summary=summary,
        failing_url=locate_failing,
    )


def _is_meant(run: Run, q: str, verdict: str) -> bool:
    words = q.lower().split()
    text = " ".join((run.name, *run.tags)).lower() if words else ""
    return all(word in text for word in words) and verdict in ("", run.verdict)


def _choose_headline(run: Run) -> dict[str, Any] | None:
    """Return the few numbers that a list has room for: a line per system, the best first."""
    score = run.brief
    if score is None:
        return None
    names = [name for name in HEADLINE if any(_has_value(g, name) for g in score.groups)][:3]
    if not names:
        return None
    told = make_verdict(run.gate, score).standings
    groups = [each.group for each in told if each.group is not None] or list(score.groups)
    forms = {
        name: choose_metric_form(name, [g.metrics[name] for g in groups if _has_value(g, name)])
        for name in names
    }
    lines = [
        (
            format_group(group.by) if group.by else "all records",
            [_split(group.metrics.get(name), forms[name]) for name in names],
        )
        for group in groups[:_MOST_LINES]
    ]
    heads = [" ".join(filter(None, (label_metric(n), get_unit(n)))) for n in names]
    return {"heads": heads, "lines": lines, "more": max(0, len(groups) - _MOST_LINES)}


def _split(found: Measured | None, form: Form) -> tuple[str, str]:
    return ("—", "") if found is None else split_figure(found.value, found.low, found.high, form)


def _list_starts(folder: str) -> list[tuple[str, str]]:
    """Return what to begin with, each as a command to copy."""
    made = "evals/suite.yaml"
    return [
        (
            "An example that needs no key",
            f"calipers init evals\ncalipers run {made} -o {folder}/first",
        ),
        ("A log or a table of your own", f"cp YOUR-LOG.jsonl {folder}/"),
        (
            "A suite made from your own file",
            f"calipers init evals --from YOUR-FILE.csv\ncalipers run {made} -o {folder}/first",
        ),
    ]


def _has_value(group: Group, name: str) -> bool:
    return name in group.metrics and group.metrics[name].value is not None


def _list_groupings(index: Index) -> list[str]:
    fields = index.summary.fields  # measured values cannot be grouped by
    names = [n for n in index.columns if n in fields and n not in ("id", "answer", "target")]
    texts = [n for n in names if index.columns[n] == pl.String or n in _ALSO_GROUPS]
    return [name for name in texts[:30] if has_few_values(index, name, 40)]


def _list_values(opened: Opened | None) -> Collection[str]:
    """Return the columns by which records can be filtered and sorted."""
    return () if opened is None else opened.index.columns


def _make_view(
    site: Site, run: Run, query: Query, score: Score, opened: Opened | None
) -> dict[str, Any]:
    """Return what the template shows of a score, without its figures, which take longer."""
    gate = None if query.narrows or query.by else run.gate
    choice = choose_rows(score, list_policy_metrics(gate))
    every = dict.fromkeys(name for group in score.groups for name in group.metrics)
    verdict = make_verdict(gate, score)
    known = [each.group for each in verdict.standings if each.group is not None]
    if len(known) == len(score.groups):  # the best first, as in the systems' rows
        score = replace(score, groups=tuple(known))
    by = tuple(score.groups[0].by) if score.groups else ()
    ready = opened is not None and opened.complete and "id" in opened.index.columns
    told = tell(site, opened, query) if opened is not None and ready else None
    field, shares = (
        share_by_part(opened, query, by, verdict.metric) if opened and ready else (None, {})
    )

    wrong_first = _name_verdict(score)

    def locate_part(system: str, part: str) -> str:
        own = next((g.by for g in score.groups if format_group(g.by) == system), {})
        pinned = query.set_filters({**own, **({} if field is None else {field: part})})
        return f"/runs/{run.id}/samples{replace(pinned, sort=wrong_first, by=()).to_url()}"

    failed = sum(group.errors for group in score.groups)
    shown = {*choice.rows, *choice.alike, *choice.folded}
    return {
        "score": score,
        "verdict": verdict,
        "systems": tabulate_systems(verdict, shares, locate_part) if verdict.metric else None,
        "looks": list(list_looks(run.id, query, told, verdict, failed)),
        "picture": draw_calls(opened, query, told) if opened and told is not None else None,
        "choice": choice,
        "alike": next(iter(replace(choice, folded=()).list_notes(score.groups)), None),
        "others": [*choice.folded, *(name for name in every if name not in shown)],
        "beside": [*list_remarks(score), *list_reasons(score.groups, choice.rows)],
        "rows": lambda name, group: locate_rows(run, query, name, group.by, _list_values(opened)),
        "task_link": lambda task: _locate_task(run, query, task),
        "query": query,
    }


def _locate_task(run: Run, query: Query, task: FlakyTask) -> str:
    of_task = query.set_filters({**task.by, "id": task.id})
    return f"/runs/{run.id}/samples{of_task.rows.to_url()}"


def _name_verdict(score: Score | None) -> str:
    """Return the field by which records that are wrong come first; nothing where there is none."""
    groups = () if score is None else score.groups
    for metric, name in (("accuracy", "correct"), ("pass_rate", "passed")):
        found = (group.metrics.get(metric) for group in groups)
        if any(each is not None and each.value is not None for each in found):
            return name
    return ""


def locate_rows(
    run: Run, query: Query, name: str, by: Mapping[str, Any], values: Collection[str]
) -> str:
    """Return the address of the rows behind a number, the most unfavourable first."""
    metric = metric_named(name)
    view = query.set_filters(by)
    feature = _find_feature(metric)
    filters, sort = view.filters, ""
    if feature is not None and feature in values:
        filters = (*filters, Filter(feature, "!=", NONE))
        falls = (metric.better == "lower") != metric.complement
        sort = f"-{feature}" if falls or metric.better is None else feature
    return f"/runs/{run.id}/samples{Query(filters=filters, text=view.text, sort=sort).to_url()}"


def _find_feature(metric: Metric) -> str | None:
    """Return the value per row that a metric is based on, if rows show it; else None."""
    found = metric.aggregate.feature if isinstance(metric.aggregate, Rank) else metric.averaged
    return found.label if isinstance(found, Feature) and found.listed else None


@router.get("/runs/{id_}/judges")
def show_judges(site: SiteHere, request: Request, id_: str) -> Response:
    """Show how far judges agree, and the bias of each."""
    found, query = site.run(id_), get_query(request)
    opened = site.open(found)
    judged = any(map(opened.index.summary.fields.__contains__, ("judgments", "winner")))
    return site.render(
        "judges.html",
        run=found,
        query=query,
        here="judges",
        audit=site.measuring.audit(opened, query.rows, found.name) if judged else None,
        criteria=_tabulate_criteria(site, found, query, opened) if judged else None,
        record_link=lambda task: _locate_records(found, task),
        calibrations=_read_calibrations(found.entry.folder, site.catalog),
        opened=opened,
    )


def _tabulate_criteria(site: Site, run: Run, query: Query, opened: Opened) -> Table | None:
    """Return what judges give for each criterion of their rubric, by system; None without any."""
    score = site.get_score(run, query.rows)
    known = dict.fromkeys(name for group in score.groups for name in group.metrics)
    names = [name for name in known if find_criterion(name) is not None]
    if not names:
        return None
    values = _list_values(opened)
    return tabulate_score(
        score,
        names=names,
        rows_behind=lambda name, group: locate_rows(run, query, name, group.by, values),
    )


@router.get("/runs/{id_}/doctor")
def show_doctor(site: SiteHere, request: Request, id_: str) -> Response:
    """Show what a view's records hold and support, and what looks wrong in them."""
    found, query = site.run(id_), get_query(request)
    if (elsewhere := redirect_form(request, query)) is not None:
        return elsewhere
    opened = site.open(found)
    diagnosis = None
    if opened.complete:
        path = found.entry.records
        diagnosis = site.measuring.diagnose(opened, query.rows, found.name, path)
    return site.render(
        "doctor.html",
        run=found,
        query=query,
        here="doctor",
        diagnosis=diagnosis,
        file_blocks=describe_file,
        finding_blocks=list_findings,
        support_lines=describe_support,
        record_link=lambda task: _locate_records(found, task),
        opened=opened,
    )


def _locate_records(run: Run, task: str) -> str:
    return f"/runs/{run.id}/samples?{urlencode({'id': task})}"


def _read_calibrations(folder: Path | None, catalog: Catalog) -> list[Calibration]:
    found: list[Calibration] = []
    for path in sorted(folder.glob("*.json")) if folder is not None else ():
        content = catalog.read_stored(path)
        if content is not None and content.get("schema") == SCHEMA:
            with suppress(UsageError):  # another program's, or an older one
                found += read_calibrations(path)
    return found

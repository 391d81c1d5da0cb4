"""Views side by side: the differences of two and the tasks that flipped, or a leaderboard of many.

Several systems against one have a table per metric, a row per system. The leaderboard is of the
systems of one run, or of any number of views, from the best down.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import isfinite
from typing import Annotated, Any
from urllib.parse import parse_qsl, quote, urlencode

import polars as pl
from fastapi import APIRouter, Response
from fastapi import Query as Parameter
from fastapi.responses import RedirectResponse

from calipers.comparisons.compare_result import Compared, MetricComparison, Pair
from calipers.dashboard.catalog import NotHere
from calipers.dashboard.highlight import diff_words
from calipers.dashboard.index_cache import Opened
from calipers.dashboard.pages.sample_pages import read_call
from calipers.dashboard.run_view import Run, list_valued
from calipers.dashboard.selection import Query, add_groups, has_few_values, read_query
from calipers.dashboard.site import Site, SiteHere
from calipers.metrics import metric_named
from calipers.reports.charts.forest import draw_systems
from calipers.reports.number_format import format_figure, format_p, show_name
from calipers.reports.pages.page_scripts import make_page_figure
from calipers.reports.table import EMPTY, Cell, Column, Table, make_difference_cell, make_rows
from calipers.reports.tables.comparison_tables import (
    choose_tone,
    choose_value_form,
    join_counts,
    tabulate_pair,
)
from calipers.reports.tables.ranking_tables import describe_best, make_sentence, tabulate_tasks
from calipers.reports.tables.shown_metrics import (
    choose_difference_form,
    get_unit,
    is_rate,
    label_metric,
    put_usual_first,
)
from calipers.reports.tables.verdict_tables import (
    VerdictOverview,
    make_verdict,
)
from calipers.support.errors import CalipersError

_CANDIDATE_COLUMNS = (
    Column(name="system", kind="key"),
    Column(name="value"),
    Column(name="difference", heading="difference to the base"),
    Column(name="lane", heading="0 in the middle", kind="lane", where="web"),
    Column(name="p_adjusted", heading="p adjusted (Holm)"),
    Column(name="won · lost · tied (tasks)"),
)


def tabulate_candidates(
    compared: Compared, names: Sequence[str], links: Sequence[str]
) -> list[Table]:
    """Return a table per metric: the base, and each system with its difference to it."""
    return [_tabulate_metric(compared, name, links) for name in names]


def _tabulate_metric(compared: Compared, name: str, links: Sequence[str]) -> Table:
    found = [pair.metrics[name] for pair in compared.pairs]
    form = choose_value_form(name, *found)
    ends = [end for each in found for end in (each.low, each.high) if end is not None]
    reach = max(map(abs, filter(isfinite, ends)), default=0.0)  # one scale for all rows
    first = compared.pairs[0]
    known = next((each.base for each in found if each.base is not None), None)
    # On the tasks that both have: the base's value differs from pair to pair if tasks are missing.
    alike = len({pair.n_pairs for pair in compared.pairs}) == 1
    blank = (EMPTY,) * (len(_CANDIDATE_COLUMNS) - 2)
    rows: list[tuple[Any, ...]] = []
    if alike:
        rows.append((first.base, Cell(value=known, form=form), *blank))
    for pair, each, link in zip(compared.pairs, found, links, strict=True):
        tone = choose_tone(name, each, compared.confidence)
        rows.append(
            (
                Cell(value=pair.candidate, link=link),
                Cell(value=each.candidate, form=form, note=each.reason or ""),
                make_difference_cell(each, tone, choose_difference_form(name)),
                Cell(value=reach, low=each.low, high=each.high, tone=tone),
                Cell(text=format_p(each.p_holm)),
                Cell(text=join_counts(each.wins, each.losses, each.ties)),
            )
        )
    unit = get_unit(name)
    title = f"{label_metric(name)} ({unit})" if unit else label_metric(name)
    return Table(title=title, columns=_CANDIDATE_COLUMNS, rows=make_rows(rows))


MOST_FLIPS = 500
MOST_CANDIDATES = 30  # candidates at a time
MOST_RANKED = 100  # views at a time
_MOST_PARTS = 40  # columns of a table
_SYSTEM = "model"
_OF_TASKS = ("category", "capability", "target", "tier")
MOST_CHOICES = 500  # runs to choose from, the newest

router = APIRouter()


class Side:
    """A view as one side of a comparison: `ID?FILTERS`, the address of it without the path."""

    def __init__(self, site: Site, reference: str) -> None:
        id_, _, filters = reference.partition("?")
        self.reference = reference
        self.run: Run = site.run(id_)
        self.query: Query = read_query(parse_qsl(filters, keep_blank_values=True))
        self.opened: Opened = site.open(self.run)

    @property
    def name(self) -> str:
        """What the page calls it."""
        filters = ", ".join(show_name(each.value) for each in self.query.filters)
        return f"{self.run.name}: {filters}" if filters else self.run.name

    @property
    def system(self) -> str | None:
        """The model that all of its records are of, if they name one alone."""
        index = self.opened.index
        if self.query.filters or "model" not in index.columns or not index.rows:
            return None
        found = index.read_column("model")[0] if index.count_distinct("model") == 1 else None
        return None if found is None else str(found)

    def locate(self, row: int) -> str:
        """Return the address of one of its records."""
        return f"/runs/{self.run.id}/samples/{row}{self.query.rows.to_url()}"

    def find_row(self, id_: str, run: str | None) -> int:
        """Return the first record of a task, or of one of its runs, that is in the view."""
        index = self.opened.index
        if "id" not in index.columns:
            raise NotHere(f"no record of {self.name} has an id")
        found = (index.read_column("id") == id_).fill_null(value=False)
        if run is not None and "run" in index.columns:
            text = index.read_column("run").cast(pl.String).str.replace(r"\.0$", "")
            found &= (text == run).fill_null(value=False)
        kept = self.opened.selector.mask(self.query)
        rows = (found if kept is None else found & kept).arg_true()
        if not len(rows):
            raise NotHere(f"task {id_} is not in {self.name}")
        return int(rows[0])


def name_sides(sides: Sequence[Side]) -> list[tuple[Opened, Query, str]]:
    """Return what to measure; systems are called by what tells them apart.

    Runs of one model each are called by their models, unless two are of the same.
    """
    models = [side.system for side in sides]
    if None not in models and len(set(models)) == len(sides) > 1:
        return [
            (side.opened, side.query, str(model)) for side, model in zip(sides, models, strict=True)
        ]
    alone = len({side.run.id for side in sides}) == 1 < len(sides)
    found = []
    for side in sides:
        filters = ", ".join(each.value for each in side.query.filters)
        found.append((side.opened, side.query, filters if alone and filters else side.name))
    return found


@router.get("/compare")
def compare(
    site: SiteHere,
    base: str = "",
    candidate: Annotated[list[str] | None, Parameter()] = None,
    flips: str = "",
) -> Response:
    """Choose views, or see the first compared with the others."""
    chosen = [each for each in dict.fromkeys(candidate or ()) if each][:MOST_CANDIDATES]
    choices = list_choices(site)
    if not (base and chosen):
        if not chosen and (two := _suggest_sides(site, base)) is not None:
            return RedirectResponse(f"/compare?{_make_link(*two)}", 303)
        base = base or (choices[0][0] if choices else "")
        chosen = chosen or [_suggest_side(base, [each for each, _ in choices])]
        sides_asked = {"choices": choices, "base": base, "chosen": chosen}
        return site.render("compare_choose.html", **sides_asked, problem=None)
    ours, *theirs = sides = [Side(site, reference) for reference in (base, *chosen)]
    try:
        found = site.measuring.compare(name_sides(sides))
    except CalipersError as error:
        sides_asked = {"choices": choices, "base": base, "chosen": chosen}
        return site.render("compare_choose.html", 400, **sides_asked, problem=error)
    shared = {"choices": choices, "base": ours, "chosen": chosen, "result": found.result}
    names = _sort_metrics(found.result.pairs)
    if len(theirs) > 1:
        links = [f"/compare?{_make_link(base, each)}" for each in chosen]
        tables = tabulate_candidates(found.result, names, links)
        return site.render("compare_many.html", **shared, candidates=theirs, tables=tables)
    counts = found.result.flips
    pair = found.result.pairs[0]
    changed, same = _split_metrics(names, pair, found.result.confidence)
    return site.render(
        "compare.html",
        **shared,
        candidate=theirs[0],
        pair=pair,
        sentence=_describe_pair(pair, names, found.result.confidence),
        changed=tabulate_changed(found.result, pair, changed),
        same=same,
        flips=found.list_flips(flips, MOST_FLIPS),
        total=sum(counts.values()) if flips not in counts else counts[flips],
        counts=counts,
        which=flips,
        link=_make_link(base, chosen[0]),
    )


@router.get("/compare/task")
def show_task(
    site: SiteHere, base: str, candidate: str, task: str, run: str | None = None
) -> Response:
    """Show two answers to one task next to each other."""
    ours, theirs = Side(site, base), Side(site, candidate)
    rows = [side.find_row(task, run) for side in (ours, theirs)]
    calls = [read_call(side.opened, row) for side, row in zip((ours, theirs), rows, strict=True)]
    records = [call.record for call in calls]
    answers: list[Any] = [record.get("answer") for record in records]
    flips = site.measuring.compare(name_sides([ours, theirs]))
    before, behind = flips.find_neighbours(task, run)
    return site.render(
        "compare_task.html",
        base=ours,
        candidate=theirs,
        task=task,
        run_number=run,
        records=records,
        urls=[ours.locate(rows[0]), theirs.locate(rows[1])],
        calls=calls,
        differences=diff_words(*answers) if None not in answers else None,
        wholes=[
            f"/runs/{side.run.id}/samples/{row}"
            for side, row in zip((ours, theirs), rows, strict=True)
        ],
        link=_make_link(base, candidate),
        before=before,
        behind=behind,
    )


def _make_link(base: str, candidate: str) -> str:
    return f"base={quote(base, safe='')}&candidate={quote(candidate, safe='')}"


def _sort_metrics(pairs: Sequence[Pair]) -> list[str]:
    """Return the most telling metrics first, without those that no pair has a difference in."""
    known = dict.fromkeys(
        name for pair in pairs for name, each in pair.metrics.items() if each.difference is not None
    )
    if "accuracy" in known:  # the share of wrong answers is its complement
        known = {name: None for name in known if not metric_named(name).complement}
    return put_usual_first(known)


def list_choices(site: Site) -> list[tuple[str, str]]:
    """Return every run, and each system of a run that has several, as a side to choose."""
    found = []
    entries = site.catalog.list_entries()
    newest = sorted(entries, key=lambda entry: entry.read_mtime(), reverse=True)[:MOST_CHOICES]
    for entry in sorted(newest, key=lambda entry: entry.name):
        found.append((entry.id, entry.name))
        for field, value in _list_systems(site, site.read_run(entry)):
            query = Query().set_filters({field: value})
            found.append((f"{entry.id}{query.to_url()}", f"{entry.name}: {show_name(value)}"))
    return found


def _suggest_sides(site: Site, base: str) -> tuple[str, str] | None:
    """Return what is worth comparing first: the two best systems of a run, or the newest two runs.

    Of the run asked for, or else of the newest; None where there is nothing to compare.
    """
    id_, _, filters = base.partition("?")
    entries = sorted(site.catalog.list_entries(), key=lambda e: e.read_mtime(), reverse=True)
    if id_:
        entries.sort(key=lambda entry: entry.id != id_)
    if not entries or (id_ and entries[0].id != id_):
        return None
    first = site.read_run(entries[0])
    if not filters and (best := _find_best(site, first)) is not None:
        return best
    like = [e for e in entries[1:] if _is_like(site.read_run(e), first)]
    if not like:
        return None
    return (base, like[0].id) if id_ else (like[0].id, first.id)


def _is_like(run: Run, other: Run) -> bool:
    """Say whether two runs may have tasks in common: those of one suite, or two files."""
    return (run.suite, run.entry.is_run) == (other.suite, other.entry.is_run)


def _find_best(site: Site, run: Run) -> tuple[str, str] | None:
    """Return the second and the best system of a run that has several."""
    if not run.entry.is_run:
        site.open(run)  # whose index knows the systems
    systems = _list_systems(site, run)
    if len(systems) < 2:  # noqa: PLR2004
        return None
    field, names = systems[0][0], [value for _, value in systems]
    if run.score is not None:
        told = make_verdict(run.gate, run.score).standings
        ranked = [str(each.by[field]) for each in told if each.by.get(field) is not None]
        names = [name for name in dict.fromkeys(ranked) if name in names] or names
    sides = [f"{run.id}{Query().set_filters({field: name}).to_url()}" for name in names[:2]]
    return (sides[1], sides[0]) if len(sides) > 1 else None


def _describe_pair(pair: Pair, names: Sequence[str], confidence: float) -> str:
    """Return which side is better by the main metric, and how sure that is."""
    name = next((each for each in names if metric_named(each).better is not None), None)
    if name is None:
        return "Neither side can be called better: no metric has a direction and a value."
    found = pair.metrics[name]
    form = choose_value_form(name, found)
    label = label_metric(name)
    base, candidate = (format_figure(each, form=form) for each in (found.base, found.candidate))
    said = f"{label[:1].upper()}{label[1:]}: {candidate} against {base}"
    if not found.difference:
        return f"{said}, no difference."
    size = format_figure(found.difference, found.low, found.high, choose_difference_form(name))
    p = format_p(found.p_holm)
    sure = {
        "gain": "better for sure",
        "loss": "worse for sure",
    }.get(choose_tone(name, found, confidence), "not a sure difference")
    return f"{said}: {sure} ({size}, p {p if p.startswith('<') else f'= {p}'})."


def _split_metrics(
    names: Sequence[str], pair: Pair, confidence: float
) -> tuple[list[str], list[str]]:
    """Return the metrics that changed for sure, after the main one, and the others."""
    changed = [
        name
        for at, name in enumerate(names)
        if not at or pair.metrics[name].is_significant(confidence)
    ]
    return changed, [name for name in names if name not in changed]


def tabulate_changed(compared: Compared, pair: Pair, names: Sequence[str]) -> Table:
    """Return a row per metric, all drawn on one scale: points of rates, shares of the base else."""
    table = tabulate_pair(compared, pair, names=names)
    place = next(at for at, column in enumerate(table.columns) if column.name == "lane")
    sizes = {name: _measure_lane(name, pair.metrics[name]) for name in names}
    reach = max((abs(end) for ends in sizes.values() for end in ends or ()), default=0.0)
    rows = []
    for row, name in zip(table.rows, names, strict=True):
        ends = sizes[name]
        low, high = (None, None) if ends is None else ends
        lane = replace(row.get_cell(place), value=reach, low=low, high=high)
        rows.append(replace(row, cells=(*row.cells[:place], lane, *row.cells[place + 1 :])))
    columns = list(table.columns)
    columns[place] = replace(columns[place], heading="points, or share of the base")
    first = [at for name in _FIRST for at, each in enumerate(columns) if each.name == name]
    order = [*first, *(at for at in range(len(columns)) if at not in first)]
    moved = (replace(row, cells=tuple(row.cells[at] for at in order)) for row in rows)
    return replace(table, rows=tuple(moved), columns=tuple(columns[at] for at in order), notes=())


_FIRST = ("metric", "difference", "lane")  # a narrow screen shows these at once


_LARGEST = 1.0  # of what is drawn: 100 points, or as much as the base


def _measure_lane(name: str, found: MetricComparison) -> tuple[float, float] | None:
    if found.low is None or found.high is None:
        return None
    size = 1.0 if is_rate(name) else abs(found.base or 0.0)
    if not size:
        return None
    low, high = (min(_LARGEST, max(-_LARGEST, end / size)) for end in (found.low, found.high))
    return low, high


def _suggest_side(base: str, references: Sequence[str]) -> str:
    """Return a side to start from: another run, or at least another system."""
    others = [each for each in references if each != base]
    elsewhere = (each for each in others if each.partition("?")[0] != base.partition("?")[0])
    return next(elsewhere, others[0] if others else "")


def _list_systems(site: Site, run: Run) -> list[tuple[str, str]]:
    """Return what tells the systems of a run apart: by its manifest, or by the index of a file."""
    known = run.list_systems() if run.entry.is_run else site.indexes.list_systems(run.entry)
    for field in ("model", "tier"):
        if len(known.get(field, ())) > 1:
            return [(field, value) for value in known[field]]
    return []


@router.get("/rank")
def rank(
    site: SiteHere,
    of: Annotated[list[str] | None, Parameter()] = None,
    metric: str = "",
    by: str = "",
    tasks: str = "",
) -> Response:
    """Choose what to rank, or see it ranked."""
    chosen = list(dict.fromkeys(of or ()))[:MOST_RANKED]
    choices = list_choices(site)
    if not chosen:
        return site.render(
            "rank_choose.html", choices=choices, chosen=chosen, problem=None, alone=None
        )
    from calipers.comparisons.ranked_systems import MAIN_METRICS  # noqa: PLC0415 (slow to load)

    sides = [Side(site, reference) for reference in chosen]
    known = list_valued(side.run for side in sides)
    names = [name for name in known if metric_named(name).better is not None]
    wanted = metric or next((name for name in MAIN_METRICS if name in names), None)
    try:
        ranking = site.measuring.rank(name_sides(sides), wanted, by or None, tasks or None)
    except CalipersError as error:
        whole = len(sides) == 1 and not (metric or by or tasks)
        alone = _measure_alone(site, sides[0]) if whole else None
        shown = {"problem": None if alone else error, "alone": alone}
        status = 200 if alone else 400
        return site.render("rank_choose.html", status, choices=choices, chosen=chosen, **shown)
    ranked = ranking.metrics[0]
    return site.render(
        "rank.html",
        ranking=ranking,
        ranked=ranked,
        headline=make_sentence(describe_best(ranked)),
        drawn=make_page_figure("ranking", draw_systems(ranked)),
        sides=sides,
        tasks=tabulate_tasks(ranked) if ranked.tasks_by is not None else None,
        tasks_by=tasks,
        fields=list(dict.fromkeys((*_list_fields(sides), *filter(None, [tasks])))),
        names=list(dict.fromkeys((ranked.metric, *names))),
        choices=choices,
        chosen=chosen,
        link=urlencode([("of", reference) for reference in chosen]),
    )


def _measure_alone(site: Site, side: Side) -> VerdictOverview | None:
    """Return what is known of a view's system where it has one alone; None for several."""
    index = side.opened.index
    query = add_groups(side.query, index)
    if not query.by and _SYSTEM in index.columns:
        query = replace(query, by=(_SYSTEM,))
    score = site.measuring.score(side.opened, query, side.run.name)
    return make_verdict(None, score) if len(score.groups) == 1 else None


def _list_fields(sides: Sequence[Side]) -> list[str]:
    """Return the fields to break the tasks down by: those with few values, and each task."""
    index = sides[0].opened.index
    if "id" not in index.summary.fields:
        return []
    few = [name for name in _OF_TASKS if has_few_values(index, name, _MOST_PARTS)]
    return [*few, "id"]

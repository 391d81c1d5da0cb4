"""Views side by side: the differences of two and the tasks that flipped, or a leaderboard of many.

The leaderboard is of the systems of one run, or of any number of views, from the best down.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any
from urllib.parse import parse_qsl, quote, urlencode

import polars as pl
from fastapi import APIRouter, Response
from fastapi import Query as Parameter

from calipers.comparisons.results import Pair
from calipers.dashboard.candidates import tabulate_candidates
from calipers.dashboard.catalog import NotHere
from calipers.dashboard.filters import Query, has_few_values, read_query
from calipers.dashboard.indexes import Opened
from calipers.dashboard.marks import diff_words, mark_thought
from calipers.dashboard.run import Run, list_valued, put_main_first
from calipers.dashboard.site import Site, SiteHere
from calipers.metrics import metric_named
from calipers.reports.charts.ranking import draw_systems
from calipers.reports.pages.vega import make_page_figure
from calipers.reports.ranking import describe_best, make_sentence, tabulate_tasks
from calipers.support.errors import CalipersError

MOST_FLIPS = 500
MOST = 30  # candidates at a time
MOST_RANKED = 100  # views at a time
_MOST_PARTS = 40  # columns of a table
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
        filters = ", ".join(each.value for each in self.query.filters)
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
    chosen = [each for each in dict.fromkeys(candidate or ()) if each][:MOST]
    choices = list_choices(site)
    if not (base and chosen):
        base = base or (choices[0][0] if choices else "")
        chosen = chosen or [_suggest_side(base, [each for each, _ in choices])]
        return site.render("compare_choose.html", choices=choices, base=base, chosen=chosen)
    ours, *theirs = sides = [Side(site, reference) for reference in (base, *chosen)]
    found = site.measuring.compare(name_sides(sides))
    shared = {"choices": choices, "base": ours, "chosen": chosen, "result": found.result}
    names = _sort_metrics(found.result.pairs)
    if len(theirs) > 1:
        links = [f"/compare?{_make_link(base, each)}" for each in chosen]
        tables = tabulate_candidates(found.result, names, links)
        return site.render("compare_many.html", **shared, candidates=theirs, tables=tables)
    counts = found.result.flips
    return site.render(
        "compare.html",
        **shared,
        candidate=theirs[0],
        pair=found.result.pairs[0],
        names=names,
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
    found = [
        side.opened.index.read_one(row) for side, row in zip((ours, theirs), rows, strict=True)
    ]
    records = [record for record, _ in found]
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
        measured=[values for _, values in found],
        differences=diff_words(*answers) if None not in answers else None,
        cots=[
            mark_thought(each["cot"], side.opened.settings) if each.get("cot") else None
            for side, each in zip((ours, theirs), records, strict=True)
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
    return put_main_first(known)


def list_choices(site: Site) -> list[tuple[str, str]]:
    """Return every run, and each system of a run that has several, as a side to choose."""
    found = []
    entries = site.catalog.list_entries()
    newest = sorted(entries, key=lambda entry: entry.read_mtime(), reverse=True)[:MOST_CHOICES]
    for entry in sorted(newest, key=lambda entry: entry.name):
        found.append((entry.id, entry.name))
        for field, value in _list_systems(site, site.read_run(entry)):
            query = Query().set_filters({field: value})
            found.append((f"{entry.id}{query.to_url()}", f"{entry.name}: {value}"))
    return found


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
        return site.render("rank_choose.html", choices=choices, chosen=chosen, problem=None)
    from calipers.comparisons.ranked_systems import MAIN_METRICS  # noqa: PLC0415 (slow to load)

    sides = [Side(site, reference) for reference in chosen]
    known = list_valued(side.run for side in sides)
    names = [name for name in known if metric_named(name).better is not None]
    wanted = metric or next((name for name in MAIN_METRICS if name in names), None)
    try:
        ranking = site.measuring.rank(name_sides(sides), wanted, by or None, tasks or None)
    except CalipersError as error:
        return site.render("rank_choose.html", 400, choices=choices, chosen=chosen, problem=error)
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


def _list_fields(sides: Sequence[Side]) -> list[str]:
    """Return the fields to break the tasks down by: those with few values, and each task."""
    index = sides[0].opened.index
    if "id" not in index.summary.fields:
        return []
    few = [name for name in _OF_TASKS if has_few_values(index, name, _MOST_PARTS)]
    return [*few, "id"]

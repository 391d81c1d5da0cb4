"""Two views side by side: differences with intervals, the tasks that flipped, two answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import parse_qsl, quote

import polars as pl
from fastapi import APIRouter, Response

from calipers.dashboard.catalog import NotHere
from calipers.dashboard.filters import Query, read_query
from calipers.dashboard.grouping import has_few_values
from calipers.dashboard.indexes import Opened
from calipers.dashboard.marks import mark_thought
from calipers.dashboard.site import Run, Site, SiteHere
from calipers.dashboard.words import diff_words
from calipers.support.errors import UsageError

MOST_FLIPS = 500
_FIRST = ("accuracy", "pass_rate", "final_score", "composite_score")

router = APIRouter()


class Side:
    """A view as one side of a comparison: `ID?FILTERS`, the address of it without the path."""

    def __init__(self, site: Site, reference: str) -> None:
        id_, _, filters = reference.partition("?")
        self.reference = reference
        self.run: Run = site.run(id_)
        self.query: Query = read_query(parse_qsl(filters, keep_blank_values=True))
        self.opened: Opened = site.indexes.open(self.run.entry)

    @property
    def name(self) -> str:
        """What the page calls it."""
        filters = ", ".join(each.value for each in self.query.filters)
        return f"{self.run.name}: {filters}" if filters else self.run.name

    @property
    def measured(self) -> tuple[Opened, Query, str]:
        """What is compared."""
        return self.opened, self.query, self.name

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


@router.get("/compare")
def compare(site: SiteHere, base: str = "", candidate: str = "", flips: str = "") -> Response:
    """Choose two views, or see them compared."""
    if not (base and candidate):
        choices = choices_of(site)
        base = base or (choices[0][0] if choices else "")
        candidate = candidate or _suggest_side(base, [each for each, _ in choices])
        return site.render("compare_choose.html", choices=choices, base=base, candidate=candidate)
    ours, theirs = Side(site, base), Side(site, candidate)
    found = site.measuring.compare(ours.measured, theirs.measured)
    listed = [each for each in found.flips if flips in ("", "lost" if each.lost else "won")]
    return site.render(
        "compare.html",
        base=ours,
        candidate=theirs,
        pair=found.result.pairs[0],
        result=found.result,
        names=_sort_metrics(found.result.pairs[0].metrics),
        flips=listed[:MOST_FLIPS],
        total=len(listed),
        counts=found.result.flips,
        which=flips,
        link=_link(base, candidate),
        choices=choices_of(site),
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
    return site.render(
        "compare_task.html",
        base=ours,
        candidate=theirs,
        task=task,
        run_number=run,
        records=records,
        urls=[ours.locate(rows[0]), theirs.locate(rows[1])],
        measured=[values for _, values in found],
        differences=_diff(*records),
        cots=[
            mark_thought(each["cot"], side.opened.settings) if each.get("cot") else None
            for side, each in zip((ours, theirs), records, strict=True)
        ],
        link=_link(base, candidate),
        neighbours=_find_neighbours(site, ours, theirs, task, run),
    )


def _diff(ours: dict[str, Any], theirs: dict[str, Any]) -> Any:
    if ours.get("answer") is None or theirs.get("answer") is None:
        return None
    return diff_words(ours["answer"], theirs["answer"])


def _find_neighbours(
    site: Site, ours: Side, theirs: Side, task: str, run: str | None
) -> dict[str, Any]:
    """Return the flips before and after this one."""
    flips = site.measuring.compare(ours.measured, theirs.measured).flips
    places = [at for at, each in enumerate(flips) if each.id == task and each.run == run]
    if not places:
        return {"before": None, "behind": None}
    at = places[0]
    return {
        "before": flips[at - 1] if at else None,
        "behind": flips[at + 1] if at + 1 < len(flips) else None,
    }


def _link(base: str, candidate: str) -> str:
    return f"base={quote(base, safe='')}&candidate={quote(candidate, safe='')}"


def _sort_metrics(metrics: Any) -> list[str]:
    """Return the most telling metrics first, those without a difference last."""
    known = [name for name in metrics if metrics[name].difference is not None]
    first = [name for name in _FIRST if name in known]
    return [*first, *(name for name in known if name not in first)]


def choices_of(site: Site) -> list[tuple[str, str]]:
    """Return every run, and each system of a run that has several, as a side to choose."""
    found = []
    for entry in site.catalog.list_entries():
        found.append((entry.id, entry.name))
        if site.indexes.is_there(entry):
            found += _list_systems(site, entry.id, entry.name)
    return found


def _suggest_side(base: str, references: Sequence[str]) -> str:
    """Return a side to begin with: another run, or at least another system."""
    others = [each for each in references if each != base]
    elsewhere = (each for each in others if each.partition("?")[0] != base.partition("?")[0])
    return next(elsewhere, others[0] if others else "")


def _list_systems(site: Site, id_: str, name: str) -> list[tuple[str, str]]:
    try:
        index = site.indexes.open(site.catalog.find_entry(id_)).index
    except UsageError:
        return []
    for field in ("model", "tier"):
        if has_few_values(index, field):
            values = sorted(index.read_column(field).drop_nulls().unique().to_list())
            queries = [Query().with_filter(field, value) for value in values]
            return [
                (f"{id_}{query.to_url()}", f"{name}: {value}")
                for value, query in zip(values, queries, strict=True)
            ]
    return []

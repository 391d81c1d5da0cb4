"""People rate: one record at a time, blind to who answered and what judges say of it.

The only page that writes, and only into the file that `view --rate` names; `safety.py` lets its
form through.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from threading import Lock
from typing import Annotated, Any
from urllib.parse import parse_qsl, urlencode

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import RedirectResponse

from calipers.dashboard.catalog import Entry, NotHere
from calipers.dashboard.index_cache import NotYet
from calipers.dashboard.ratings import (
    MOST_UNITS,
    NAMES,
    Queue,
    RaterFile,
    Unit,
    check_name,
    choose_stratum,
    find_rubric,
    make_place,
    order_units,
    read_scores,
)
from calipers.dashboard.safety import RATE
from calipers.dashboard.site import Site, SiteHere
from calipers.judges.rubrics import Rubric
from calipers.records.nested_fields import get_judgments
from calipers.reports.data.transcript import list_pictures, read_transcript
from calipers.support.errors import CalipersError, UsageError

router = APIRouter()
_MOST_OPTIONS = 11  # of a scale that is shown as buttons
_MOST_FIELDS = 200  # of a form
_SHOWN_ELSEWHERE = ("input", "answer", "target", "reference", "trace", "cot", "messages", *NAMES)
_TARGETS = ("target", "reference")
_JUDGED = ("judgments", "judge", "checks")
_READ = (*NAMES, "judgments", "answer", "error")


class Rating:
    """The file and the queue of a dashboard that people rate in."""

    def __init__(self, file: Path, rater: str | None) -> None:
        self.file = RaterFile(file)
        self.rater = None if rater is None else check_name(rater)
        self._queue: Queue | None = None
        self._lock = Lock()

    def open_queue(self, site: Site) -> Queue:
        """Return the queue, made when it is first asked for; raise NotYet until it can be."""
        with self._lock:
            if self._queue is None:
                self._queue = self._make_queue(site)
            return self._queue

    def _make_queue(self, site: Site) -> Queue:
        entries = [
            entry
            for entry in site.catalog.list_entries()
            if entry.records.resolve() != self.file.path.resolve()
        ]
        newest = sorted(entries, key=Entry.read_mtime, reverse=True)
        units: dict[tuple[str, ...], Unit] = {}
        unread: CalipersError | None = None
        for entry in newest:
            try:
                for unit in _list_units(site, entry):
                    units.setdefault(unit.place, unit)
            except NotYet:
                raise
            except CalipersError as error:  # its own page says so; the others can be rated
                unread = unread or error
        if any(unit.judgments for unit in units.values()):
            units = {place: unit for place, unit in units.items() if unit.judgments}
        if not units:
            if unread is not None:
                raise unread
            raise UsageError("there is nothing to rate", fix="name a folder with answers")
        kinds: dict[tuple[str, ...], list[Unit]] = {}  # all lines of a file name the same fields
        for unit in units.values():
            kinds.setdefault(tuple(unit.names), []).append(unit)
        alike = max(kinds.values(), key=len)
        root = site.catalog.root
        folders = (root if root.is_dir() else root.parent, self.file.path.resolve().parent)
        judgments = [judgment for unit in alike for judgment in unit.judgments]
        rubric = find_rubric(judgments, folders)
        return Queue(order_units(alike), rubric, left_out=len(units) - len(alike))


def _list_units(site: Site, entry: Entry) -> Iterator[Unit]:
    opened = site.open(site.read_run(entry))
    if not opened.complete:
        raise NotYet(entry.name)
    index = opened.index
    records = index.read_records(range(min(index.rows, MOST_UNITS)), _READ)
    for row, record in enumerate(records.iter_rows(named=True)):
        if record.get("error") or record.get("id") is None or record.get("answer") is None:
            continue
        names = {name: record[name] for name in NAMES if record.get(name) is not None}
        judgments = get_judgments({"judgments": _parse_list(record.get("judgments"))})
        key = f"{entry.id}-{row}"
        yield Unit(
            key=key,
            entry=entry,
            row=row,
            names=names,
            judgments=judgments,
            stratum=choose_stratum(judgments),
        )


def _parse_list(text: Any) -> Any:
    try:
        return json.loads(text) if isinstance(text, str) else text
    except (ValueError, RecursionError):
        return None


def get_rating(site: Site) -> Rating:
    """Return what people rate with: without it, these pages are not there."""
    found: Rating = site.rating
    return found


@router.get(RATE)
def show_next(site: SiteHere, rater: str = "", told: str = "") -> Response:
    """Show the next record to a rater, or ask for their name."""
    rating = get_rating(site)
    queue, ratings = rating.open_queue(site), rating.file.read()
    name = check_name(rating.rater or rater) if rating.rater or rater else None
    unit = None if name is None else queue.find_next(name, ratings)
    return _render(site, name, unit, told=told)


@router.get(f"{RATE}/pictures/{{key}}/{{number}}")
def send_rated_picture(site: SiteHere, key: str, number: int) -> Response:
    """Send a picture of the conversation; as an image it cannot run scripts."""
    unit = _find_unit(get_rating(site).open_queue(site), key)
    pictures = list_pictures(read_transcript(_read_record(site, unit)))
    if not 0 <= number < len(pictures):
        raise NotHere(f"the record has no picture {number}")
    headers = {"content-security-policy": "default-src 'none'; sandbox"}
    return Response(pictures[number].data, media_type=pictures[number].media_type, headers=headers)


async def _read_form(request: Request) -> dict[str, str]:
    """Return the fields of a form, whose size `safety.py` bounds."""
    body = (await request.body()).decode("utf-8", "replace")
    try:
        return dict(parse_qsl(body, keep_blank_values=True, max_num_fields=_MOST_FIELDS))
    except ValueError as error:
        raise UsageError("not a form of this page", fix="go back and try again") from error


@router.post(RATE)
def take_rating(site: SiteHere, given: Annotated[dict[str, str], Depends(_read_form)]) -> Response:
    """Write a rating, put a record off, or take the last rating back; then show the next."""
    rating = get_rating(site)
    queue, name = rating.open_queue(site), check_name(rating.rater or given.get("rater", ""))
    does, told = given.get("do", "rate"), ""
    if does == "undo":
        told = "undone" if rating.file.take_back(name) else "nothing"
        return _redirect_on(name, told)
    unit = _find_unit(queue, given.get("unit", ""))
    if does == "skip":
        queue.skip(name, unit.key)
        return _redirect_on(name, "skipped")
    try:
        scores = read_scores(queue.rubric, given)
    except UsageError as problem:
        return _render(site, name, unit, problem=problem, given=given)
    done = (make_place(e) for e in rating.file.read() if e.get("rater") == name)
    if unit.place not in done:  # sent twice
        rating.file.add(queue.make_rating(unit, name, scores))
    return _redirect_on(name, "rated")


def _redirect_on(rater: str, told: str) -> Response:
    return RedirectResponse(f"{RATE}?{urlencode({'rater': rater, 'told': told})}", 303)


def _find_unit(queue: Queue, key: str) -> Unit:
    if key not in queue.by_key:
        raise NotHere("that record is not in the queue")
    return queue.by_key[key]


def _read_record(site: Site, unit: Unit) -> dict[str, Any]:
    """Return a record without what would tell who answered, and what judges say."""
    record, _ = site.open(site.read_run(unit.entry)).index.read_one(unit.row)
    return {name: value for name, value in record.items() if name not in (*_JUDGED, "model")}


def _render(
    site: Site,
    name: str | None,
    unit: Unit | None,
    *,
    told: str = "",
    problem: UsageError | None = None,
    given: Mapping[str, str] | None = None,
) -> Response:
    rating = get_rating(site)
    queue, ratings = rating.open_queue(site), rating.file.read()
    record = {} if unit is None else _read_record(site, unit)
    rubric = queue.rubric
    page = site.render(
        "rate.html",
        200 if problem is None else 400,
        section="rate",
        rater=name,
        unit=unit,
        turns=read_transcript({k: v for k, v in record.items() if k not in _TARGETS}),
        target=next((record[each] for each in _TARGETS if record.get(each) is not None), None),
        texts=[] if rubric is None else _list_texts(rubric, record),
        rubric=rubric,
        scales=[] if rubric is None else _list_scales(rubric),
        judged=any(each.judgments for each in queue.units[:1]),
        left_out=queue.left_out,
        total=len(queue.units),
        left=None if name is None else queue.count_left(name, ratings),
        progress=queue.measure(ratings),
        file=rating.file.path.name,
        problem=problem,
        given=given or {},
        told=told,
    )
    # A browser names the origin of a form only where the page lets it.
    page.headers["referrer-policy"] = "same-origin"
    return page


def _list_texts(rubric: Rubric, record: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return what else the judge reads of a record."""
    return [
        (each.name, str(record[each.field]))
        for each in rubric.reads
        if each.field not in _SHOWN_ELSEWHERE and record.get(each.field) is not None
    ]


def _list_scales(rubric: Rubric) -> list[dict[str, Any]]:
    """Return what is scored, with the scores to choose from; none for a number to type."""
    scales = []
    says = {criterion.name: criterion.says for criterion in rubric.criteria}
    says |= {item.name: item.says for item in rubric.items}
    for name in rubric.names:
        lowest, highest = rubric.get_range(name)
        steps: list[float] = []
        if rubric.is_all_or_nothing(name):
            steps = [lowest, highest]
        elif lowest.is_integer() and highest.is_integer() and highest - lowest < _MOST_OPTIONS:
            steps = [float(each) for each in range(int(lowest), int(highest) + 1)]
        scales.append(
            {
                "name": name,
                "says": says[name],
                "lowest": lowest,
                "highest": highest,
                "steps": [f"{each:g}" for each in steps],
                "may_not_apply": rubric.may_not_apply(name),
            }
        )
    return scales

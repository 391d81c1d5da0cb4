"""What the first page of a run says: who is best, a row per system, and what is worth a look."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import polars as pl

from calipers.dashboard.answers import ToldView, find_rows, select_outcomes
from calipers.dashboard.selection import Query, format_value, has_few_values
from calipers.metrics.families.judged import find_criterion
from calipers.reports.data.answers_matrix import CORRECT, DISPUTED
from calipers.reports.number_format import format_group, shorten_name, show_name
from calipers.reports.table import ABSENT, Cell, Column, Table, Tone, make_estimate_cell
from calipers.reports.tables.gate_tables import format_check_value, is_unsure, label_check
from calipers.reports.tables.shown_metrics import choose_metric_form, get_unit
from calipers.reports.tables.verdict_tables import (
    SystemStanding,
    VerdictOverview,
    tabulate_standings,
)

if TYPE_CHECKING:
    from calipers.dashboard.index import Index
    from calipers.dashboard.index_cache import Opened

_MOST_PARTS = 6  # columns of categories
_MOST_JUDGED = 3
_MOST_CHECKS = 3
_LATENCY = "latency_p95_ms"
_LOW: tuple[tuple[float, Tone], ...] = ((0.5, "low3"), (0.75, "low2"), (0.9, "low1"))
_AFTER = "value"  # the column that further ones stand behind
_MOST_SQUARES, _MOST_LINES = 200, 12  # tasks and systems of the picture
_CELL, _GAP, _LINE, _LETTER = 10, 2, 18, 6.2
_WIDTH, _LEAST_STEP, _INDENT = 480, 3, 130  # of all tasks, of one, and of the names
_MOST_CALLS = 3_000  # squares

Place = Callable[[Query], str]


def tabulate_systems(
    verdict: VerdictOverview,
    shares: Mapping[str, Mapping[str, float]],
    locate: Callable[[str, str], str],
) -> Table:
    """Return a row per system; behind its value the policy's other metrics, kinds of task, judges.

    `shares` has for each kind of task how many answers of each system are right, and `locate` gives
    the address of these answers.
    """
    table = tabulate_standings(verdict)
    shown = verdict.standings[: len(table.rows)]
    further = [*_list_checks(verdict, shown), *_list_parts(shown, shares, locate)]
    last = list(_list_measured(shown, verdict.metric))
    at = next((n + 1 for n, each in enumerate(table.columns) if each.name == _AFTER), 1)
    rows = tuple(
        replace(
            row,
            cells=(
                *row.cells[:at],
                *(cells[n] for _, cells in further),
                *row.cells[at:],
                *(cells[n] for _, cells in last),
            ),
        )
        for n, row in enumerate(table.rows)
    )
    columns = (
        *table.columns[:at],
        *(column for column, _ in further),
        *table.columns[at:],
        *(column for column, _ in last),
    )
    return replace(table, columns=columns, rows=rows)


_Further = Iterator[tuple[Column, list[Cell]]]


def _list_checks(verdict: VerdictOverview, shown: Sequence[SystemStanding]) -> _Further:
    """Yield the policy's metrics, beside the one that systems are ranked by."""
    names = dict.fromkeys(
        check.name
        for each in shown
        for check in each.checks
        if check.name not in (verdict.metric, _LATENCY, "cost_usd")
        and each.find_check(check.name) is not None
    )
    for name in list(names)[:_MOST_CHECKS]:
        found = [each.find_check(name) for each in shown]
        known = next(check for check in found if check is not None)
        head = f"{label_check(known)} {known.threshold}"
        cells = [ABSENT if check is None else _make_check_cell(check) for check in found]
        yield Column(name=name, heading=head, kind="text", where="people"), cells


def _make_check_cell(check: Any) -> Cell:
    tone: Tone = "gain" if check.verdict == "pass" else "loss" if check.verdict == "fail" else ""
    sign = {"pass": "✓ ", "fail": "✕ "}.get(check.verdict, "")
    mark = " ?" if is_unsure(check) else ""
    return Cell(text=f"{sign}{format_check_value(check)}{mark}", tone=tone)


def _list_parts(
    shown: Sequence[SystemStanding],
    shares: Mapping[str, Mapping[str, float]],
    locate: Callable[[str, str], str],
) -> _Further:
    for part, found in list(shares.items())[:_MOST_PARTS]:
        cells = []
        for each in shown:
            share = found.get(each.name)
            if share is None:
                cells.append(ABSENT)
                continue
            tone: Tone = next((tone for bar, tone in _LOW if share < bar), "")
            link = locate(each.name, part)
            cells.append(Cell(text=f"{100 * share:.0f} %", tone=tone, link=link))
        yield Column(name=f"part {part}", heading=part, where="people"), cells


def _list_measured(shown: Sequence[SystemStanding], ranked_by: str | None) -> _Further:
    """Yield what judges gave, and the latency."""
    known = dict.fromkeys(
        name
        for each in shown
        for name, found in ({} if each.group is None else each.group.metrics).items()
        if found.value is not None
    )
    judged = [name for name in known if find_criterion(name) is not None][:_MOST_JUDGED]
    for name in (*judged, *([_LATENCY] if _LATENCY in known else [])):
        if name == ranked_by:
            continue
        found = [each.get_measured(name) for each in shown]
        form = choose_metric_form(name, [each for each in found if each is not None])
        unit = get_unit(name)
        heading = "p95" if name == _LATENCY else name[len("judged(") : -1]
        cells = [make_estimate_cell(each, form) for each in found]
        head = f"{heading}, {unit}" if unit else heading
        note = "what judges give, on the scale of their rubric" if name in judged else ""
        yield Column(name=name, heading=head, where="people", note=note), cells


def share_by_part(
    opened: Opened, query: Query, by: Sequence[str], metric: str | None
) -> tuple[str | None, dict[str, dict[str, float]]]:
    """Return the field of the kind of task, and of each kind the systems' right answers.

    Where the systems are ranked by accuracy, right is what is the target.
    """
    index = opened.index
    field = _find_part(index)
    if field is None or field in by or "id" not in index.columns:
        return None, {}
    if any(name not in index.columns for name in by):
        return None, {}
    rows = find_rows(opened, query, None)
    told = select_outcomes(index, rows, (*by, field), ids=False).filter(~pl.col("failed"))
    right = CORRECT if metric == "accuracy" else "right"
    told = told.drop_nulls(right)
    shares = told.group_by(field, *by).agg(pl.col(right).mean()).sort(field, nulls_last=True)
    found: dict[str, dict[str, float]] = {}
    for part, *key, share in shares.iter_rows():
        name = format_group(dict(zip(by, key, strict=True)))
        found.setdefault(format_value(part), {})[name] = share
    return field, found


def _find_part(index: Index, most: int = _MOST_PARTS) -> str | None:
    """Return the field of the kind of task, if there are not too many."""
    return next((n for n in ("category", "capability") if has_few_values(index, n, most)), None)


_MOST_KINDS = 12  # as chips


def list_kinds(opened: Opened, query: Query, address: str) -> list[dict[str, Any]]:
    """Return the kinds of task as chips, each with the address of the view with it alone."""
    index = opened.index
    fields = ("category", "capability")
    name = next((n for n in fields if has_few_values(index, n, _MOST_KINDS)), None)
    if name is None:
        return []
    chosen = {each.value for each in query.filters if each.field == name and each.operator == "="}
    others = replace(query, filters=tuple(f for f in query.filters if f.field != name), page=1)
    values = map(format_value, index.read_column(name).unique().sort(nulls_last=True))
    return [
        {
            "says": show_name(value),
            "chosen": value in chosen,
            "url": address
            + (others if value in chosen else others.set_filters({name: value})).to_url(),
        }
        for value in values
    ]


@dataclass(frozen=True, slots=True)
class Look:
    """Something worth a look: how many there are, what they are, and where."""

    count: int
    says: str
    url: str
    tone: str = ""


def list_looks(
    run: str, query: Query, told: ToldView | None, verdict: VerdictOverview, failed: int
) -> Iterator[Look]:
    """Yield what is worth a look in a view, each with the page that shows it."""
    answers = f"/runs/{run}/answers"
    best = verdict.best
    if told is not None and len(told.systems) > 1 and told.counts["differ"]:
        url = answers + replace(query.rows, show="differ").to_url()
        what = "runs" if told.by == ("run",) else "systems"
        yield Look(told.counts["differ"], f"tasks on which {what} differ", url)
    if told is not None and told.runs > 1 and told.counts["runs"]:
        url = answers + replace(query.rows, show="runs").to_url()
        yield Look(told.counts["runs"], "tasks right in one run and wrong in another", url)
    if told is not None and told.counts[DISPUTED]:
        url = answers + replace(query.rows, show=DISPUTED).to_url()
        yield Look(told.counts[DISPUTED], "tasks whose checks and target disagree", url)
    if told is not None and told.counts["wrong"]:
        url = answers + replace(query.rows, show="wrong").to_url()
        yield Look(told.counts["wrong"], "tasks that nobody solves", url)
    if failed:
        url = f"/runs/{run}/samples{query.rows.set_filters({'failed': True}).to_url()}"
        yield Look(failed, "failed calls", url, "warn")
    if len(verdict.standings) > 1:
        second = verdict.standings[1]
        sides = [("base", second.by), ("candidate", best.by)]
        pairs = [(side, run + query.set_filters(by).rows.to_url()) for side, by in sides]
        yield Look(
            2,
            f"best systems side by side: {shorten_name(best.name)}, {shorten_name(second.name)}",
            f"/compare?{urlencode(pairs)}",
        )
    name = shorten_name(best.name)
    required = [check for check in best.failed if check.level == "required"]
    for check in required[:3]:
        url = f"{answers}/task?{urlencode({'task': check.name})}"
        yield Look(1, f"required task that {name} misses: {check.name}", url, "bad")


@dataclass(frozen=True, slots=True)
class Square:
    """One call in the picture of a run: its record, where it stands, and what became of it."""

    row: int
    says: str
    x: float
    y: float
    height: float
    kind: str


@dataclass(frozen=True, slots=True)
class Picture:
    """Every call of a run as a square: tasks from left to right, a line per system."""

    width: int
    height: int
    size: int  # the width of a square
    squares: tuple[Square, ...]
    lines: tuple[tuple[str, float], ...]  # names of systems, and where they stand
    parts: tuple[tuple[str, float, int], ...]  # kinds of task, where they begin, room for letters
    disputed: bool  # whether there are calls whose checks and target disagree


def draw_calls(opened: Opened, query: Query, told: ToldView) -> Picture | None:
    """Return the picture of a view of few tasks; None of one with too many, or without outcomes."""
    tasks = told.counts["all"]
    if not 1 < tasks <= _MOST_SQUARES or len(told.systems) > _MOST_LINES:
        return None
    if told.runs * tasks * len(told.systems) > _MOST_CALLS:
        return None
    if all(shares.right is None for shares in told.systems.values()):
        return None
    field = _find_part(opened.index, _MOST_KINDS)
    part = field if field not in told.by else None
    rows = find_rows(opened, query, None)
    calls = select_outcomes(opened.index, rows, (*told.by, *([part] if part else [])))
    step = max(_LEAST_STEP, min(_CELL + _GAP, _WIDTH // tasks))
    placed, parts, end = _place_tasks(calls, part, step)
    top = 2 if part is None else 16
    names = [_name_line(told.by, key) for key in told.systems]
    return Picture(
        width=int(end),
        size=step - (_GAP if step > 2 * _LEAST_STEP else 1),
        height=top + _LINE * len(names),
        squares=tuple(_list_squares(calls.with_columns(rows.alias("row")), told, placed, top)),
        lines=tuple((name, top + n * _LINE + 10) for n, name in enumerate(names)),
        parts=tuple(_measure_parts(parts, end)),
        disputed=told.counts[DISPUTED] > 0,
    )


def _name_line(by: Sequence[str], key: Sequence[Any]) -> str:
    return format_group(dict(zip(by, key, strict=True))) if by else ""


def _place_tasks(
    calls: pl.DataFrame, part: str | None, step: int
) -> tuple[dict[str, float], list[tuple[str, float]], float]:
    """Return where each task stands, where each kind of task begins, and where all of them end."""
    order: dict[str, tuple[str, int]] = {}
    for at, (task, kind) in enumerate(calls.select("id", part or pl.lit("")).iter_rows()):
        order.setdefault(task, (format_value(kind), at))
    placed: dict[str, float] = {}
    parts: list[tuple[str, float]] = []
    x = float(_INDENT)
    for task, (kind, _) in sorted(order.items(), key=lambda entry: entry[1]):
        if part is not None and (not parts or parts[-1][0] != kind):
            x += 3 * _GAP if parts else 0
            parts.append((kind, x))
        placed[task] = x
        x += step
    return placed, parts, x


def _list_squares(
    calls: pl.DataFrame, told: ToldView, placed: Mapping[str, float], top: int
) -> Iterator[Square]:
    """Yield the calls of each task and system, one below the other."""
    lines = {key: n for n, key in enumerate(told.systems)}
    cells: dict[tuple[str, Any], list[tuple[int, str, bool]]] = {}
    for call in calls.iter_rows(named=True):
        key = tuple(call[name] for name in told.by)
        kind = _SHOWN_AS["failed" if call["failed"] else call["right"]]
        cells.setdefault((call["id"], key), []).append((call["row"], kind, call[DISPUTED]))
    for (task, key), found in cells.items():
        span = (_LINE - 5) / len(found)
        name = " · ".join(filter(None, (task, _name_line(told.by, key))))
        for place, (row, kind, disputed) in enumerate(found):
            said = (_DISPUTED_SAYS if disputed else _SAYS)[kind]
            yield Square(
                row=row,
                says=f"{name}: {said}",
                x=placed[task],
                y=top + lines[key] * _LINE + place * span,
                height=span - 0.8 if span > _GAP else span,
                kind=kind,
            )


_SHOWN_AS: dict[Any, str] = {"failed": "lost", True: "right", False: "wrong", None: "open"}
_SAYS = {"lost": "call failed", "right": "right", "wrong": "wrong", "open": "not known"}
_DISPUTED_SAYS = {
    "right": "passes its checks, is not the target",
    "wrong": "fails its checks, is the target",
}


def _measure_parts(
    parts: Sequence[tuple[str, float]], end: float
) -> Iterator[tuple[str, float, int]]:
    """Yield the kinds of task with how many letters there is room for above their tasks."""
    ends = [x for _, x in parts[1:]]
    for (name, x), last in zip(parts, [*ends, end], strict=False):
        yield name, x, max(2, int((last - x - 4) / _LETTER))

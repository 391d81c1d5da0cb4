"""Which tasks of a view tell its systems apart: counted once, and of a large index ahead of use."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from calipers.dashboard.index import Index
from calipers.dashboard.selection import Query, check_column, has_few_values
from calipers.reports.data.answers_matrix import (
    CELL,
    Key,
    Shares,
    add_verdicts,
    count_choices,
    order_systems,
    tell_tasks,
)
from calipers.support.files import stage_file, write_whole

if TYPE_CHECKING:
    from calipers.dashboard.index_cache import Opened

MOST_SYSTEMS = 60  # columns
_SYSTEM = ("model", "tier", "variant")
_MOST_RUNS = 12  # as columns
_PREVIEW = 120  # characters of a text
_FAILED, _VERDICTS = "failed", ("passed", "correct")
_LARGE = 50_000  # rows of an index whose tasks are counted ahead of use
_TASKS, _ABOUT = "tasks.arrow", "tasks.json"


@dataclass(frozen=True, slots=True)
class ToldView:
    """The tasks of a view: which choices each is among; and the systems, the best first."""

    by: tuple[str, ...]
    tasks: pl.DataFrame
    counts: dict[str, int]
    systems: dict[Key, Shares]
    runs: int  # the most answers that a system has to a task


def choose_columns(query: Query, index: Index) -> tuple[str, ...]:
    """Return the fields whose values are the columns: as asked, or what tells systems apart."""
    if query.by:
        for name in query.by:
            check_column(name, index)
        return query.by
    pinned = {each.field for each in query.filters if each.operator == "="}
    several = tuple(
        name for name in _SYSTEM if name not in pinned and has_few_values(index, name, MOST_SYSTEMS)
    )
    if several:
        return several
    return ("run",) if has_few_values(index, "run", _MOST_RUNS) else ()


def tell_view(opened: Opened, query: Query, by: tuple[str, ...]) -> ToldView:
    """Return what is known of the tasks of a view."""
    return _tell_rows(opened.index, find_rows(opened, query, None), by)


def _tell_rows(index: Index, rows: pl.Series, by: tuple[str, ...]) -> ToldView:
    told = select_outcomes(index, rows, by, ids=False)
    numbers, first = index.number("id")
    cells = numbers.cast(pl.Int64)
    for name in by:
        values, different = index.number(name)
        cells = cells * len(different) + values
    if len(rows) < index.rows:
        numbers, cells = numbers.gather(rows), cells.gather(rows)
    tasks = tell_tasks(told.with_columns(numbers.alias("id"), cells.alias(CELL)), by)
    ids = index.read_column("id").gather(first.gather(tasks["id"]))
    most = tasks["calls"].max()
    return ToldView(
        by=by,
        tasks=tasks.drop("calls").with_columns(ids.alias("id")),
        counts=count_choices(tasks),
        systems=order_systems(told, by),
        runs=most if isinstance(most, int) else 0,
    )


def find_rows(opened: Opened, query: Query, ids: Sequence[str] | None) -> pl.Series:
    """Return the rows of the tasks that a view is of: a search finds tasks, not single answers."""
    names = opened.index.read_column("id")
    kept = names.is_not_null()
    if (mask := opened.selector.mask(query)) is not None:
        kept &= mask
    if ids is not None:
        return (kept & names.is_in(ids)).arg_true()
    if query.text:
        found = names.gather(opened.selector.search(query).list_rows()).unique()
        kept &= names.is_in(found.implode())
    return kept.arg_true()


def select_outcomes(
    index: Index, rows: pl.Series, by: Sequence[str], *, ids: bool = True
) -> pl.DataFrame:
    """Return of each row its task, its system, its verdicts, and whether the call failed."""
    known = [name for name in (*_VERDICTS, _FAILED) if name in index.columns]
    index.hold(["id", *by, *known])
    whole = len(rows) == index.rows

    def read(name: str) -> pl.Series:
        column = index.read_column(name)
        return column if whole else column.gather(rows)

    names = ["id", *by] if ids else by
    frame = pl.DataFrame([*map(read, names), *(read(each).alias(f"_{each}") for each in known)])
    failed = (
        pl.col(f"_{_FAILED}").fill_null(value=False) if _FAILED in known else pl.lit(value=False)
    )
    frame = frame.with_columns(failed.alias("failed"))
    passed, correct = (f"_{name}" if name in known else None for name in _VERDICTS)
    return add_verdicts(frame, passed, correct)


def read_answers(
    opened: Opened, query: Query, ids: Sequence[str], by: Sequence[str]
) -> pl.DataFrame:
    """Return the records of some tasks, with what a table shows of each."""
    index = opened.index
    rows = find_rows(opened, query, ids)
    told = select_outcomes(index, rows, by)
    if not told.height:
        return told
    fields = ("input", "target", "answer", "category")
    names = [name for name in fields if name in index.summary.fields]
    texts = index.read_records(rows.to_list(), names)
    shown = [texts[name].cast(pl.String).str.head(_PREVIEW) for name in names if name not in by]
    lacking = [] if "answer" in names else [pl.lit(None, pl.String).alias("answer")]
    return told.with_columns(*shown, *lacking, rows.alias("row"))


def write_told(index: Index) -> None:
    """Count the tasks of a large index as it is without filters, so that no page has to."""
    if index.rows < _LARGE or "id" not in index.columns:
        return
    by = choose_columns(Query(), index)
    rows = index.read_column("id").is_not_null().arg_true()
    told = _tell_rows(index, rows, by)
    about = {
        "by": by,
        "counts": told.counts,
        "systems": [[list(key), shares] for key, shares in told.systems.items()],
        "runs": told.runs,
    }
    with stage_file(index.folder / _TASKS) as beside:
        told.tasks.write_ipc(beside)
    write_whole(index.folder / _ABOUT, json.dumps(about))


def read_told(index: Index) -> ToldView | None:
    """Return what was counted ahead of use; None of a small index, or of one not yet complete."""
    if not (index.folder / _ABOUT).exists():
        return None
    about = json.loads((index.folder / _ABOUT).read_text(encoding="utf-8"))
    return ToldView(
        by=tuple(about["by"]),
        tasks=pl.read_ipc(index.folder / _TASKS),
        counts=about["counts"],
        systems={tuple(key): Shares(*shares) for key, shares in about["systems"]},
        runs=about["runs"],
    )

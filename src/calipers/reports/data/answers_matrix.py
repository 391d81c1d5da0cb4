"""Each task's answers, system by system: what a table of tasks and systems shows.

An answer is right if its checks passed; without checks, if it is the target. Where both are known
and say different things it is disputed, and a table shows both.

A page over an index makes it of the rows that it shows. A report gathers it while records are read:
of very many tasks those whose ids have the smallest hashes are kept, each with all of its answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

import polars as pl

from calipers.reports.data.report_data import SampleKind
from calipers.support.names import split_natural

Key: TypeAlias = tuple[Any, ...]
Choice = Literal["all", "differ", "runs", "right", "wrong", "disputed", "failed"]

DIFFER, RUNS, RIGHT, WRONG, FAILED = "differ", "runs", "right", "wrong", "failed"
DISPUTED = "disputed"
CHOICES: tuple[Choice, ...] = ("all", "differ", "runs", "right", "wrong", "disputed", "failed")
PASSED, CORRECT = "_passed", "_correct"  # the two verdicts, beside what follows from them
CELL = "_cell"
TELLING = "telling"  # how far the systems' shares of right answers lie apart
MOST_SHOWN = 30  # tasks of a report
_MOST_KEPT = 400  # tasks whose answers are gathered
_MOST_ROWS = 40_000  # of all of them
_WAITING = 4 * _MOST_ROWS
_LONGEST = 160  # characters of a text
_HASH = "_hash"
_TEXTS = ("input", "target", "answer")


class Shares(NamedTuple):
    """How many of a system's answers are right, and how many by each verdict; of ended calls."""

    right: float | None
    passed: float | None
    correct: float | None

    @property
    def differ(self) -> bool:
        """Whether checks and target say different things of the system."""
        return None not in (self.passed, self.correct) and self.passed != self.correct


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenAnswer:
    """One answer of a system to a task, and in how many runs it gave it."""

    answer: str | None
    kind: SampleKind
    disputed: bool = False  # its checks and its target say different things
    runs: int = 1
    rows: tuple[int, ...] = ()  # of the records, where they are numbered


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixRow:
    """A task with each system's answers, in the order of the systems."""

    id: str
    asked: str | None
    target: str | None
    category: str | None
    cells: tuple[tuple[GivenAnswer, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswersMatrix:
    """Tasks by systems, the best first; `counts` has how many of the `tasks` each choice is of.

    A report of very many tasks has seen the answers of some: `tasks` is how many.
    """

    by: tuple[str, ...]
    systems: tuple[Key, ...]
    shares: tuple[Shares, ...]  # of right answers, of each system
    rows: tuple[MatrixRow, ...]
    tasks: int
    counts: Mapping[str, int] = field(default_factory=dict)


def add_verdicts(rows: pl.DataFrame, passed: str | None, correct: str | None) -> pl.DataFrame:
    """Return rows with whether each is `right` (null if unknown), and whether it is `disputed`.

    `passed` and `correct` name the columns of what its checks and its target say, if there are any;
    `failed` says whether the call did, and so gave no answer.
    """
    unknown = pl.lit(None, pl.Boolean)
    rows = rows.with_columns(
        (unknown if passed is None else pl.col(passed)).alias(PASSED),
        (unknown if correct is None else pl.col(correct)).alias(CORRECT),
    )
    return rows.with_columns(
        pl.coalesce(PASSED, CORRECT).alias("right"),
        ((pl.col(PASSED) != pl.col(CORRECT)).fill_null(value=False) & ~pl.col("failed")).alias(
            DISPUTED
        ),
    )


def tell_tasks(rows: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """Return a row per task, in their order: which choices it is among, and how telling it is.

    `calls` is how many there are of a system, at most. A column `CELL` with a number per task and
    system saves time: then the task and the fields of `by` are not looked at row by row.

    The rows have an `id`, the fields of `by`, whether the call `failed`, and what `add_verdicts`
    says of them.
    """
    rows = rows.with_row_index("row")
    numbered = CELL in rows.columns
    cells = rows.group_by(CELL if numbered else ["id", *by]).agg(
        *([pl.first("id")] if numbered else []),
        pl.first("row"),
        pl.len().alias("calls"),
        pl.col("right").sum().alias("good"),
        pl.col("right").count().alias("known"),
        pl.col("failed").sum().alias("lost"),
        pl.col(DISPUTED).any(),
    )
    cells = cells.with_columns((pl.col("good") / pl.col("known")).fill_nan(None).alias("share"))
    share, known = pl.col("share"), pl.col("known") > 0
    unlike = (share.min() != share.max()).fill_null(value=False)
    found = cells.group_by("id").agg(
        pl.min("row"),
        pl.max("calls"),
        (unlike | (share.is_null().any() & share.is_not_null().any())).alias(DIFFER),
        ((pl.col("good") > 0) & (pl.col("good") < pl.col("known"))).any().alias(RUNS),
        (pl.col("good") == pl.col("calls")).all().alias(RIGHT),
        ((pl.col("good") == 0).all() & known.any()).alias(WRONG),
        pl.col(DISPUTED).any(),
        (pl.col("lost") > 0).any().alias(FAILED),
        share.fill_null(0.0).var(ddof=0).fill_null(0.0).alias(TELLING),
    )
    return found.sort("row").drop("row")


def count_choices(told: pl.DataFrame) -> dict[str, int]:
    """Return how many tasks each choice is of."""
    sums = told.select(pl.col(DIFFER, RUNS, RIGHT, WRONG, DISPUTED, FAILED).sum()).row(
        0, named=True
    )
    return {"all": told.height, **{name: int(count) for name, count in sums.items()}}


def choose_tasks(told: pl.DataFrame, choice: str) -> pl.Series:
    """Return the ids of a choice; of `differ`, those that tell systems apart best go first."""
    if choice == DIFFER:
        told = told.filter(DIFFER).sort(TELLING, descending=True, maintain_order=True)
    elif choice in CHOICES[1:]:
        told = told.filter(choice)
    return told["id"]


def order_systems(rows: pl.DataFrame, by: Sequence[str]) -> dict[Key, Shares]:
    """Return the systems, the best first, each with its shares of right answers."""
    ended = ~pl.col("failed")
    shares = [pl.col(name).filter(ended).mean() for name in ("right", PASSED, CORRECT)]
    told = rows.group_by(by).agg(shares) if by else rows.select(shares)
    found = {row[:-3]: Shares(*row[-3:]) for row in told.iter_rows()}
    return dict(sorted(found.items(), key=_sort_system))


def _sort_system(item: tuple[Key, Shares]) -> tuple[Any, ...]:
    key, shares = item
    names = [(each is None, split_natural("" if each is None else str(each))) for each in key]
    return shares.right is None, -(shares.right or 0.0), names


def make_rows(
    records: pl.DataFrame, ids: Sequence[str], by: Sequence[str], systems: Sequence[Key]
) -> tuple[MatrixRow, ...]:
    """Return the rows of these tasks, answers that are the same as one.

    The records have what `tell_tasks` needs, `answer`, and as far as they are known `input`,
    `target`, `category`, and `row`, their number.
    """
    places = {key: at for at, key in enumerate(systems)}
    firsts: dict[str, dict[str, Any]] = {}
    found: dict[str, list[_Cell]] = {}
    for record in records.iter_rows(named=True):
        id_ = record["id"]
        first = firsts.setdefault(id_, {})
        for name in ("input", "target", "category"):
            if first.get(name) is None:
                first[name] = record.get(name)
        place = places.get(tuple(record[name] for name in by))
        if place is not None:
            cells = found.setdefault(id_, [{} for _ in systems])
            answer = None if record["failed"] else record["answer"]
            key = answer, tell_kind(record), record[DISPUTED]
            cells[place].setdefault(key, []).append(record.get("row", -1))
    return tuple(
        MatrixRow(
            id=id_,
            asked=firsts[id_].get("input"),
            target=firsts[id_].get("target"),
            category=firsts[id_].get("category"),
            cells=tuple(map(_list_replies, found.get(id_, [{} for _ in systems]))),
        )
        for id_ in ids
        if id_ in firsts
    )


_Cell: TypeAlias = dict[tuple[str | None, SampleKind, bool], list[int]]


def _list_replies(cell: _Cell) -> tuple[GivenAnswer, ...]:
    return tuple(
        GivenAnswer(
            answer=answer,
            kind=kind,
            disputed=disputed,
            runs=len(rows),
            rows=tuple(n for n in rows if n >= 0),
        )
        for (answer, kind, disputed), rows in cell.items()
    )


def tell_kind(record: Mapping[str, Any]) -> SampleKind:
    """Return whether a call failed, and if not, whether its answer is right."""
    if record["failed"]:
        return "failed"
    return "unknown" if record["right"] is None else "right" if record["right"] else "wrong"


class AnswerTable:
    """Collects answers while records are measured, of a bounded number of tasks."""

    def __init__(self, systems: Sequence[str]) -> None:
        self._systems = tuple(systems)
        self._kept: list[pl.DataFrame] = []
        self._bar: int | None = None  # the largest hash of an id that is still kept
        self._most = _MOST_KEPT
        self._waiting = 0

    def take(self, rows: pl.DataFrame, names: Mapping[str, str]) -> None:
        """Look at some more rows; `names` has the column of each field and verdict."""
        hashes = rows["id"].hash(seed=0)
        if self._bar is not None:
            kept = hashes <= self._bar
            rows, hashes = rows.filter(kept), hashes.filter(kept)
        some = rows.select(
            "id",
            *(pl.col(names[each]).cast(pl.String).alias(each) for each in self._systems),
            *(
                pl.col(names[each]).cast(pl.String).str.head(_LONGEST).alias(each)
                for each in _TEXTS
            ),
            pl.col(names["category"]).cast(pl.String).alias("category"),
            *(pl.col(names[each]).alias(f"_{each}") for each in ("passed", "correct")),
            pl.col(names["failed"]).fill_null(value=False).alias("failed"),
            hashes.alias(_HASH),
        ).drop_nulls("id")
        self._kept.append(some)
        self._waiting += some.height
        if self._waiting > _WAITING:
            self._prune()

    def _prune(self) -> pl.DataFrame:
        """Keep the tasks of the smallest hashes, fewer of them if they have very many answers."""
        whole = pl.concat(self._kept, how="vertical_relaxed")
        while True:
            hashes = whole[_HASH].unique().sort()
            if len(hashes) > self._most:
                self._bar = int(hashes[self._most - 1])
                whole = whole.filter(pl.col(_HASH) <= self._bar)
            if whole.height <= _MOST_ROWS or self._most == 1:
                break
            self._most //= 2
        self._kept, self._waiting = [whole.rechunk()], 0
        return whole

    def make(self, by: Sequence[str], most: int = MOST_SHOWN) -> AnswersMatrix | None:
        """Return the tasks that tell systems apart, then others up to `most`; None without any."""
        by = tuple(name for name in self._systems if name in by)
        if not self._kept or not (whole := self._prune()).height:
            return None
        whole = add_verdicts(whole, PASSED, CORRECT)
        told = tell_tasks(whole, by)
        others = told.filter(~pl.col(DIFFER))["id"]
        ids = [*choose_tasks(told, DIFFER), *others][:most]
        systems = order_systems(whole, by)
        shown = whole.filter(pl.col("id").is_in(ids))
        return AnswersMatrix(
            by=by,
            systems=tuple(systems),
            shares=tuple(systems.values()),
            rows=make_rows(shown, ids, by, tuple(systems)),
            tasks=told.height,
            counts=count_choices(told),
        )

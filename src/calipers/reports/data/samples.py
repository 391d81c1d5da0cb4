"""Samples to read, counts of failures and of solved tasks, gathered while records are measured.

A bounded number of rows of each kind is kept, so that memory does not grow with the records.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import polars as pl

from calipers.engines.plan import FAILED, name_kept
from calipers.metrics.families.answers import correct
from calipers.metrics.families.scenarios import passed
from calipers.records.fields import FIELDS, USUAL_GROUPS, Author, BadValue, Kind
from calipers.records.nested_fields import REASON_FIELDS, read_judgment_list
from calipers.records.sinks import Watch
from calipers.reports.data.answers_matrix import AnswersMatrix, AnswerTable
from calipers.reports.data.report_data import WRONG, Failure, Sample, SampleKind, TaskOutcome
from calipers.reports.data.sample_choice import (
    FAULT,
    GOOD,
    KIND,
    RECORDS,
    SHOWN,
    RowKinds,
    SampleChooser,
)
from calipers.reports.data.transcript import read_transcript
from calipers.support.names import split_natural

_MOST_PAIRS = 200_000  # pairs of a task and a system that are counted
MOST_TASKS = 20  # tasks of a report
_RIGHT, _RUNS = "right", "runs"


class TaskOutcomes:
    """Counts, by task and system, how many runs are right."""

    def __init__(self, systems: Sequence[str]) -> None:
        self._keys = ("id", *systems)
        self._counts: list[pl.DataFrame] = []
        self._waiting = 0  # rows of these tables that are not added up yet
        self._too_many = False

    def take(self, rows: pl.DataFrame, right: pl.Expr) -> None:
        """Count rows; those of which it is not known whether they are right count as no run."""
        if self._too_many:
            return
        known = rows.select(*self._keys, right.cast(pl.Int64).alias(_RIGHT)).drop_nulls(_RIGHT)
        self._counts.append(known.with_columns(pl.lit(1, pl.Int64).alias(_RUNS)))
        self._waiting += known.height
        if self._waiting > _MOST_PAIRS:
            self._add_up()

    def _add_up(self) -> None:
        whole = pl.concat(self._counts)
        self._too_many = (
            whole.select(pl.struct(self._keys).hash()).to_series().n_unique() > _MOST_PAIRS
        )
        self._counts = [] if self._too_many else [_sum_runs(whole, self._keys)]
        self._waiting = 0

    def list_hardest(self, systems: Sequence[str]) -> tuple[TaskOutcome, ...]:
        """Return the tasks that were solved least often; none where there are very many."""
        if self._counts:
            self._add_up()
        if not self._counts:
            return ()
        [counts] = self._counts
        whole = _sum_runs(counts, ["id"])
        share = (pl.col(_RIGHT) / pl.col(_RUNS)).alias("share")
        ordered = sorted(
            whole.select("id", share, _RIGHT, _RUNS).iter_rows(),
            key=lambda row: (row[1], split_natural(row[0])),
        )[:MOST_TASKS]
        kept = counts.filter(pl.col("id").is_in([row[0] for row in ordered]))
        parts = _sum_runs(kept, ["id", *systems])
        by: dict[str, dict[tuple[str | None, ...], tuple[int, int]]] = {}
        for id_, *key, right, runs in parts.iter_rows():
            by.setdefault(id_, {})[tuple(key)] = (right, runs)
        return tuple(
            TaskOutcome(id=id_, right=right, runs=runs, by_system=by[id_] if systems else {})
            for id_, _, right, runs in ordered
        )


def _sum_runs(counts: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    return counts.group_by(keys).agg(pl.col(_RIGHT, _RUNS).sum())


OUTCOMES = ("accuracy", "pass_rate")  # metrics that define what is wrong
SEVERAL = 60  # values of a field that can be shown one by one


def _name_own(name: str) -> str:
    return f"_own_{name}"


_SYSTEM = ("model", "tier", "variant")
_AUTHORS = (Author.TASK, Author.SYSTEM, Author.HARNESS, Author.VERDICT)  # in a sample's order
_REPORTED = sorted(
    (field for field in FIELDS.values() if field.in_report),
    key=lambda field: _AUTHORS.index(field.author),
)
_TEXTS = tuple(field.name for field in _REPORTED if field.kind is not Kind.NUMBER)
_NUMBERS = tuple(field.name for field in _REPORTED if field.kind is Kind.NUMBER)
_JUDGED = "judgments"
_CHECKS = "checks"
_SAID = ("messages", "trace")  # the conversation, where a record holds it
_KEPT = (*USUAL_GROUPS, "run", *_TEXTS, *_NUMBERS, _JUDGED, _CHECKS, *_SAID)
_MOST_JUDGES = 20
_MOST_CHECKS = 100
_RANK = "_rank"
_SYSTEMS = tuple(map(_name_own, _SYSTEM))
_KEYS = (*_SYSTEMS, KIND, FAULT)
_Key: TypeAlias = tuple[str | None, ...]
_SHOWN_FIELDS = (*USUAL_GROUPS, "run")
_MOST_IDS = 50  # ids of what failed
_SHARES: Mapping[SampleKind, float] = {"wrong": 0.7, "failed": 0.2, "right": 0.1, "unknown": 0.0}
_FILLING: tuple[SampleKind, ...] = ("wrong", "failed", "unknown")
_BAD = ("failed", "wrong")
_VERDICTS = {"passed": passed.name, "correct": correct.name, "failed": FAILED}


class SampleTable:
    """Collects rows while they are measured, and returns samples and failures at the end."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._telling = SampleChooser(
            most, kind=KIND, systems=_SYSTEMS, sure=_name_own("prob_correct")
        )
        self._counts: Counter[_Key] = Counter()
        self._ids: dict[_Key, dict[str, None]] = {}  # of what failed, in the order of the rows
        self._values: dict[str, set[Any]] = {name: set() for name in USUAL_GROUPS}
        self._tasks = TaskOutcomes(_SYSTEMS)
        self._answers = AnswerTable(_SYSTEM)

    @property
    def watch(self) -> Watch:
        """What it has to see of each row."""
        columns = {name: name for name in ("id", *SHOWN)}
        columns |= {_name_own(name): name_kept(name) for name in _KEPT}
        return Watch(kept=_KEPT, columns=columns, take=self._take)

    def _take(self, rows: pl.DataFrame) -> None:
        if not rows.height:
            return
        rows = rows.with_columns(
            *(_as_text(rows[_name_own(name)]) for name in _SHOWN_FIELDS),
            pl.col("id").cast(pl.String),
        )
        self._tasks.take(rows, GOOD)
        self._answers.take(rows, {name: _name_own(name) for name in _KEPT} | _VERDICTS)
        kinds = RowKinds.tell(rows, _SYSTEMS, _name_own("error"))
        for name, seen in self._values.items():
            if len(seen) <= SEVERAL:
                whole = kinds.different if name in _SYSTEM else rows
                seen.update(_list_different(whole[_name_own(name)]))
        too_many = [_name_own(name) for name in _SYSTEM if len(self._values[name]) > SEVERAL]
        named = kinds.numbered.with_columns(
            pl.lit(None, pl.String).alias(name) for name in too_many
        )
        for *key, records in named.select(*_KEYS, RECORDS).iter_rows():
            self._counts[tuple(key)] += records
        self._list_ids(rows, kinds, named)
        self._telling.take(rows.select("id", *map(_name_own, _KEPT)), kinds)

    def _list_ids(self, rows: pl.DataFrame, kinds: RowKinds, named: pl.DataFrame) -> None:
        """Keep the first ids of each kind of failure."""
        keys = named.select(_KEYS).iter_rows()
        lacking = [
            _get_kind(key) in _BAD and len(self._ids.get(key, ())) < _MOST_IDS for key in keys
        ]
        if any(lacking):
            found = kinds.list_rows(rows, named.filter(pl.Series(lacking)), "id")
            first = (
                pl.col("id").unique(maintain_order=True).head(2 * _MOST_IDS)
            )  # half may be known
            for *key, ids in found.group_by(_KEYS, maintain_order=True).agg(first).iter_rows():
                whole = self._ids.get(tuple(key), {}) | dict.fromkeys(ids)
                self._ids[tuple(key)] = dict.fromkeys(list(whole)[:_MOST_IDS])

    def count_several(self) -> dict[str, int]:
        """Return the fields that take several values, though not too many, and how many."""
        counts = {name: len(self.list_values(name)) for name in USUAL_GROUPS}
        return {name: count for name, count in counts.items() if 1 < count <= SEVERAL}

    def list_values(self, name: str) -> list[str]:
        """Return the values of a field, sorted; some of them if there are very many."""
        return sorted(self._values[name] - {None}, key=split_natural)

    def count_kinds(self) -> dict[SampleKind, int]:
        """Return how many records there are of each kind."""
        found: Counter[str | None] = Counter()
        for key, records in self._counts.items():
            found[_get_kind(key)] += records
        return {kind: found[kind] for kind in _SHARES if kind in found}

    def list_failures(self) -> Iterator[Failure]:
        """Yield the failures by system: failed calls by their kind, then wrong answers."""
        for key in sorted(self._ids, key=_sort_failures):
            row = dict(zip(_KEYS, key, strict=True))
            what = row[FAULT] if row[KIND] == "failed" else WRONG
            yield Failure(
                what=str(what),
                by=_keep_known(row, _SYSTEM),
                records=self._counts[key],
                ids=tuple(self._ids[key]),
            )

    def list_hardest(self, by: Sequence[str]) -> tuple[TaskOutcome, ...]:
        """Return the tasks that were solved least often; by system, if these fields tell them."""
        return self._tasks.list_hardest([_name_own(name) for name in by if name in _SYSTEM])

    def list_answers(self, by: Sequence[str]) -> AnswersMatrix | None:
        """Return the answers of tasks, by system: of those that tell systems apart first."""
        return self._answers.make(by)

    def choose_samples(self) -> tuple[Sample, ...]:
        """Return the most telling records, of each system in turn; no more than were asked for."""
        if self._telling.rows is None or not self._most:
            return ()
        place = pl.int_range(pl.len()).over(*_SYSTEMS, KIND)
        rows = self._telling.rows.with_columns(place.alias(_RANK)).sort(
            _RANK, *_SYSTEMS, maintain_order=True, nulls_last=True
        )
        there = {kind: rows.filter(pl.col(KIND) == kind) for kind in _SHARES}
        wanted = _share_out({kind: some.height for kind, some in there.items()}, self._most)
        found = (
            _make_sample(kind, row)
            for kind, some in there.items()
            for row in some.head(wanted[kind]).iter_rows(named=True)
        )
        return tuple(each for each in found if each.texts or each.kind in ("wrong", "failed"))


def _get_kind(key: _Key) -> str | None:
    return key[_KEYS.index(KIND)]


def _sort_failures(key: _Key) -> list[tuple[bool, str]]:
    """Return what to sort by: the kind, then the system, which may be unknown, and the fault."""
    return [(each is None, each or "") for each in (_get_kind(key), *key)]


def _as_text(column: pl.Series) -> pl.Series:
    """Return the values as texts; a whole number read as a fraction without its point."""
    whole = column.dtype.is_float() and bool((column.drop_nulls() % 1 == 0).all())
    return (column.cast(pl.Int64) if whole else column).cast(pl.String)


def _list_different(column: pl.Series) -> list[str | None]:
    """Return the different values of a column, at once if it has none."""
    return [None] if column.null_count() == len(column) else column.unique().to_list()


def _share_out(there: Mapping[SampleKind, int], most: int) -> dict[SampleKind, int]:
    """Return how many samples of each kind: its share, and more of the wrong ones if room is left.

    >>> _share_out({"wrong": 100, "failed": 1, "right": 50, "unknown": 0}, 10)
    {'wrong': 8, 'failed': 1, 'right': 1, 'unknown': 0}
    """
    found = {kind: min(there[kind], round(share * most)) for kind, share in _SHARES.items()}
    for kind in _FILLING:
        found[kind] += min(there[kind] - found[kind], most - sum(found.values()))
    return found


def _keep_known(row: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {name: row[_name_own(name)] for name in names if row[_name_own(name)] is not None}


def _make_sample(kind: SampleKind, row: Mapping[str, Any]) -> Sample:
    told = {
        **_keep_known(row, _TEXTS),
        **_describe_checks(row[_name_own(_CHECKS)]),
        **_describe_judgments(row[_name_own(_JUDGED)]),
    }
    shown = (name for name in told if name != "error" or kind == "failed")
    return Sample(
        kind=kind,
        id=str(row["id"]),
        by=_keep_known(row, ("model", "tier", "variant", "run", "category")),
        texts={name: str(told[name]) for name in shown},
        numbers={name: float(number) for name, number in _keep_known(row, _NUMBERS).items()},
        turns=tuple(read_transcript(_keep_known(row, (*_TEXTS, *_SAID)))),
    )


def _describe_checks(text: str | None) -> dict[str, str]:
    try:
        results = [] if text is None else json.loads(text)
    except (ValueError, RecursionError):
        return {}
    results = results if isinstance(results, list) else []
    lines = [
        _describe_result(each) for each in results if isinstance(each, dict) and "held" in each
    ]
    return {"checks": "\n".join(lines[:_MOST_CHECKS])} if lines else {}


def _describe_result(found: Mapping[str, Any]) -> str:
    no, yes = ("not violated", "violated") if found.get("rule") == "forbid" else ("no", "yes")
    held = (yes if found["held"] else no) if isinstance(found["held"], bool) else "unknown"
    detail = f" ({found['detail']})" if found.get("detail") else ""
    return f"{found.get('name')}: {held}{detail}"


def _describe_judgments(text: str | None) -> dict[str, str]:
    """Return what the judges said, a line each with its reasons."""
    try:
        judges = [] if text is None else read_judgment_list(text)
    except BadValue:
        return {}
    lines = map(_describe_judgment, judges[:_MOST_JUDGES])
    return {"judges": "\n".join(lines)} if judges else {}


def _describe_judgment(found: Mapping[str, Any]) -> str:
    verdict = {"True": "passed", "False": "not passed"}.get(str(found.get("passed")))
    said = next((found[name] for name in REASON_FIELDS if found.get(name)), None)
    told = [str(each) for each in (verdict, found.get("weighted_score"), said) if each is not None]
    return f"{found.get('judge', 'judge')}: {'; '.join(told)}"

"""`calipers judge`: existing records are judged, each once, and finished work is never lost.

The journal lies beside the output: a line per judgment, appended as it comes. When run again, it
judges what is missing or failed, then rewrites the whole output. The result counts records,
judgments and failures, and says what they cost.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calipers.judges.ask import Judgment, OutOfBudget, Pace
from calipers.judges.judge_spec import JudgeSpec, require_prices
from calipers.judges.panels import WorkingJudge, list_rubrics, open_judges
from calipers.judges.rubrics import Rubric
from calipers.records.completeness import (
    JUDGE_JOURNAL,
    JUDGED_FILES,
    JUDGES_SCHEMA,
    OPEN_JUDGMENTS,
)
from calipers.records.nested_fields import add_judgments
from calipers.records.task_data import read_records
from calipers.support.errors import EXIT_INCOMPLETE, EXIT_PASS, DataError, EmptyError, UsageError
from calipers.support.files import PRIVATE, stage_file
from calipers.support.printing import Tabular
from calipers.systems.budget import Budget
from calipers.systems.journal import Journal, Tally, Watch, encode_record
from calipers.systems.keys import make_mask
from calipers.systems.pace import run_to_end

if TYPE_CHECKING:
    import polars as pl

COUNTED = ("prompt_tokens", "completion_tokens", "cost_usd")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelUse:
    """What one model of the judges used."""

    model: str
    judgments: int
    tokens: float
    cost_usd: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PairCounts:
    """Pairs of answers by outcome; a pair without a winner was not judged in both orders."""

    a: str
    b: str
    a_wins: int
    b_wins: int
    ties: int
    inconsistent: int  # of the ties: the two orders named different winners
    undecided: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedFiles(Tabular):
    """The counts and costs of judging; as a table, the judged records."""

    output: str
    records: int
    judged: int
    failed: int  # judgments
    not_judged: int  # records without what the judge reads, or of calls that failed
    flagged: int
    cut: int
    escalated: int  # judgments that a second, better judge made
    tokens: float
    cost_usd: float | None
    by_model: tuple[ModelUse, ...]
    failures: tuple[tuple[int, str], ...]  # why there are no scores, and how often
    bad_rows: int = 0  # that were left out
    interrupted: bool = False
    spent: bool = False  # the budget does not allow another call
    given_up: bool = False  # a judge that gave no valid answer was not asked further
    notices: tuple[str, ...] = ()
    pairs: PairCounts | None = None  # where answers were compared in pairs

    def to_dict(self) -> dict[str, Any]:
        """Return the counts as Python values."""
        failures = [{"count": count, "reason": reason} for count, reason in self.failures]
        return asdict(self) | {"failures": failures}

    def to_polars(self) -> pl.DataFrame:
        """Return the judged records; where answers were compared, a row per pair."""
        from calipers.records.convert import read  # noqa: PLC0415 (only where they are asked for)

        return read(self.output)

    @property
    def exit_code(self) -> int:
        """What the command line gives back: 3 where a judgment is missing."""
        missing = self.failed or self.interrupted or self.spent or self.given_up
        return EXIT_INCOMPLETE if missing else EXIT_PASS


def sum_judgments(
    output: str,
    records: Sequence[Sequence[Judgment] | None],
    *,
    bad_rows: int,
    interrupted: bool,
    spent: bool = False,
    given_up: bool = False,
    notices: tuple[str, ...] = (),
) -> JudgedFiles:
    """Sum over the judgments of each record; None for a record of a failed call."""
    called = [record for record in records if record is not None]
    judged = [judgment for judgments in called for judgment in judgments]
    costs = [judgment.fields["cost_usd"] for judgment in judged if "cost_usd" in judgment.fields]
    reasons = Counter(str(e.fields["reason"]) for e in judged if e.fields["scores"] is None)
    scored = [any(judgment.fields["scores"] is not None for judgment in one) for one in called]
    tried = [any(judgment.failed for judgment in one) for one in called]
    judged_records = sum(map(max, scored, tried))
    return JudgedFiles(
        output=output,
        records=len(records),
        judged=sum(scored),
        failed=sum(judgment.failed for judgment in judged),
        not_judged=0 if interrupted or spent or given_up else len(records) - judged_records,
        flagged=sum(any(judgment.fields["flags"] for judgment in one) for one in called),
        cut=sum(any(judgment.fields.get("cut") for judgment in one) for one in called),
        escalated=sum("escalated" in judgment.fields for judgment in judged),
        tokens=sum(judgment.fields.get(name, 0) for judgment in judged for name in COUNTED[:2]),
        cost_usd=sum(costs) if len(costs) == len(judged) and costs else None,
        by_model=tuple(_sum_by_model(judged)),
        failures=tuple((count, reason) for reason, count in reasons.most_common(5)),
        bad_rows=bad_rows,
        interrupted=interrupted,
        spent=spent,
        given_up=given_up,
        notices=notices,
    )


def _sum_by_model(judgments: Sequence[Judgment]) -> Iterator[ModelUse]:
    """Yield what each model used, whether its judgment was final or not."""
    used: dict[str, list[Mapping[str, Any]]] = {}
    for judgment in judgments:
        for part in judgment.fields.get("usage", [judgment.fields]):
            used.setdefault(str(part["model"]), []).append(part)
    for model, parts in used.items():
        costs = [part["cost_usd"] for part in parts if "cost_usd" in part]
        yield ModelUse(
            model=model,
            judgments=len(parts),
            tokens=sum(part.get(name, 0) for part in parts for name in COUNTED[:2]),
            cost_usd=sum(costs) if len(costs) == len(parts) else None,
        )


Place = tuple[str, str, int]
"""A record's key, a judge's name and the number of the sample."""


class JudgeJournal:
    """The judgments made so far; new ones are appended."""

    def __init__(
        self,
        journal: Journal,
        judges: Sequence[JudgeSpec],
        rubrics: Sequence[Rubric],
        files: Sequence[str] = (),
    ) -> None:
        self._journal = journal
        self._files = [_locate(file, journal.path.parent) for file in files]
        self._judges: list[dict[str, Any]] = [
            {
                "judge": judge.name,
                "model": judge.answerable,
                "rubric": rubric.name,
                "rubric_hash": rubric.hash,
                "samples": judge.samples,
            }
            for judge, rubric in zip(judges, rubrics, strict=True)
        ]
        self.done: dict[Place, Judgment] = {}
        self.calls = 0  # that were answered, over all runs
        self.cost_usd = 0.0
        self._read()

    def add(self, place: Place, judgment: Judgment) -> None:
        """Write a judgment; it counts only once it is written."""
        key, judge, sample = place
        line = {"key": key, "judge": judge, "sample": sample, "failed": judgment.failed}
        line |= {"calls": judgment.calls}
        text = encode_record({**line, "judgment": judgment.fields})
        self._journal.append(text.encode("utf-8", "replace"))
        self.done[place] = judgment

    def note_written(self, still_open: int | None) -> None:
        """Note that the output is written, with so many judgments open; None: work has begun."""
        self._journal.append(encode_record({OPEN_JUDGMENTS: still_open}).encode())

    def _read(self) -> None:
        """Read the journal; raise UsageError if it is of other judges or rubrics."""
        lines = self._journal.read_lines()
        first = next(lines, None)
        if first is None:
            head = {"schema": JUDGES_SCHEMA, "judges": self._judges, JUDGED_FILES: self._files}
            self._journal.append(encode_record(head).encode())
            return
        self._refuse_changes(first[2])
        for _, _, line in lines:
            if OPEN_JUDGMENTS in line:
                continue
            judgment, sample = line.get("judgment"), line.get("sample")
            if (
                not isinstance(judgment, dict)
                or not {"scores", "reason", "flags"} <= set(judgment)
                or not isinstance(sample, int)
            ):
                raise DataError(
                    f"{self._journal.path}: a line that is not a judgment",
                    fix="take it out, or start over with another output: -o FILE",
                )
            place = (str(line.get("key")), str(line.get("judge")), sample)
            calls = int("prompt_tokens" in judgment)
            if isinstance(counted := line.get("calls"), int) and not isinstance(counted, bool):
                calls = max(calls, counted)
            self.done[place] = Judgment(judgment, bool(line.get("failed")), calls)
            self.calls += calls
            cost = judgment.get("cost_usd")
            self.cost_usd += cost if isinstance(cost, int | float) else 0.0

    def _refuse_changes(self, before: Mapping[str, Any]) -> None:
        given, own = before.get("judges"), self._judges
        judges = [e for e in given if isinstance(e, dict)] if isinstance(given, list) else []
        compared: list[tuple[str, Any, Any]] = [
            ("schema", before.get("schema"), JUDGES_SCHEMA),
            ("number of judges", len(judges), len(own)),
        ]
        for old, new in zip(judges, own, strict=False):
            compared += ((name, old.get(name), value) for name, value in new.items())
        for name, then, now in compared:
            if then != now:
                raise UsageError(
                    f"{self._journal.path}: it was begun with another {name}: "
                    f"{str(then)[:60]}, not {now}",
                    fix="name another output: -o FILE",
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The records to judge, the judges, and the file for the judged records."""

    files: Sequence[str]
    judges: Sequence[JudgeSpec]
    output: Path
    pace: Pace = field(default_factory=Pace)
    cache: Path | None = None
    map: Mapping[str, str] = field(default_factory=dict)
    skip_bad: bool = False
    price_file: str | None = None  # where the judges' prices are from
    budget_usd: float | None = None  # over all runs with this output
    budget_calls: int | None = None  # the same

    def records(self, on_bad: Callable[[DataError], None]) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield each record with its key: its content, and its number among equal ones."""
        seen: Counter[str] = Counter()
        for path in self.files:
            for record in read_records(path, on_bad=on_bad if self.skip_bad else None):
                content = json.dumps(record, sort_keys=True).encode()
                digest = sha256(content).hexdigest()[:24]
                seen[digest] += 1
                yield f"{digest}:{seen[digest]}", record

    @property
    def notices(self) -> Iterable[str]:
        """What the user should know about the files, once they have been read."""
        return ()

    def rubrics(self) -> list[Rubric]:
        """Return the rubric of each judge."""
        return list_rubrics(self.judges, Path())

    def lines(
        self, rows: Iterable[tuple[dict[str, Any], Sequence[Judgment]]]
    ) -> Iterator[dict[str, Any]]:
        """Yield what is written of the records and their judgments."""
        for record, judgments in rows:
            yield (
                add_judgments(record, [judgment.fields for judgment in judgments])
                if judgments
                else record
            )

    def rename(self, record: dict[str, Any]) -> dict[str, Any]:
        """Return the record as the judges read it."""
        return record | {name: record.get(theirs) for name, theirs in self.map.items()}

    def list_places(self, key: str) -> Iterator[Place]:
        """Yield the judgments that a record is to have."""
        for judge in self.judges:
            for sample in range(1, judge.samples + 1):
                yield key, judge.name, sample


def judge_files(work: Work, watch: Watch) -> JudgedFiles:
    """Judge what is not judged yet, then write the output."""
    rubrics = work.rubrics()
    check_places(work)
    if work.budget_usd is not None:
        require_prices(work.judges)
    path = locate_journal(work.output)
    with _lock(path), closing(Journal(path)) as journal:
        return _Judging(
            work, rubrics, JudgeJournal(journal, work.judges, rubrics, work.files), watch
        )()


@dataclass(slots=True)
class _Judging:
    _work: Work
    _rubrics: Sequence[Rubric]
    _journal: JudgeJournal
    _watch: Watch
    _bad: int = 0
    _notices: dict[str, None] = field(default_factory=dict)  # each once
    _is_spent: bool = False
    _is_given_up: bool = False  # a judge, which gave no valid answer

    def __call__(self) -> JudgedFiles:
        keys = [
            key if has_answer(record) else None for key, record in self._read_records(count=True)
        ]
        if not keys:
            raise EmptyError(
                f"no records in {', '.join(self._work.files)}", fix="a record per line, as JSON"
            )
        places = [place for key in keys if key is not None for place in self._work.list_places(key)]
        tally = Tally(len(places))
        for place in places:
            if not self._is_open(place):
                _count_judgment(tally, self._journal.done[place])
        tally.begin()
        is_all_judged = tally.done == tally.calls
        if not is_all_judged:
            self._journal.note_written(None)
        interrupted = not is_all_judged and not self._judge(tally)
        if not interrupted:
            try:
                self._write()
            except OSError as error:
                raise UsageError(
                    f"{self._work.output}: {error.strerror}",
                    fix="make room and run again: what is done is kept",
                ) from error
            self._journal.note_written(sum(place not in self._journal.done for place in places))
        return sum_judgments(
            str(self._work.output),
            [None if key is None else self._find_judgments(key) for key in keys],
            bad_rows=self._bad,
            interrupted=interrupted,
            spent=self._is_spent,
            given_up=self._is_given_up,
            notices=(*self._work.notices, *self._notices),
        )

    def _is_open(self, place: Place) -> bool:
        before = self._journal.done.get(place)
        return before is None or before.failed

    def _read_records(self, *, count: bool = False) -> Iterator[tuple[str, dict[str, Any]]]:
        def count_bad(_: DataError) -> None:
            self._bad += count

        return self._work.records(count_bad)

    def _judge(self, tally: Tally) -> bool:
        """Judge what is open; False where that was interrupted."""
        work = self._work
        models = [model for judge in work.judges for model in judge.models]
        budget = None
        if work.budget_usd is not None or work.budget_calls is not None:
            budget = Budget(
                work.budget_usd,
                work.budget_calls,
                spent_usd=self._journal.cost_usd,
                spent_calls=self._journal.calls,
                dearest={},
            )

        async def make_calls() -> None:
            async with open_judges(
                work.judges,
                self._rubrics,
                work.pace,
                mask=make_mask(models),
                say=lambda notice: self._notices.update({notice: None}),
                cache=work.cache,
                budget=budget,
            ) as judges:
                rows = self._read_records()
                async with asyncio.TaskGroup() as workers:
                    for _ in range(work.pace.concurrency):
                        workers.create_task(self._judge_rows(judges, rows, tally))
                self._is_given_up = any(judge.is_given_up for judge in judges)

        try:
            with self._watch(tally):
                run_to_end(make_calls())
        except (KeyboardInterrupt, asyncio.CancelledError):
            return False
        self._is_spent = budget is not None and budget.is_spent
        return True

    async def _judge_rows(
        self,
        judges: Sequence[WorkingJudge],
        rows: Iterable[tuple[str, dict[str, Any]]],
        tally: Tally,
    ) -> None:
        by_name = {judge.judge.name: judge for judge in judges}
        for key, record in rows:
            if not has_answer(record):
                continue
            seen = self._work.rename(record)
            async with asyncio.TaskGroup() as panel:
                for place in filter(self._is_open, self._work.list_places(key)):
                    panel.create_task(self._judge_one(by_name[place[1]], place, seen, tally))

    async def _judge_one(
        self, judge: WorkingJudge, place: Place, record: dict[str, Any], tally: Tally
    ) -> None:
        try:
            judgment = await judge(record, place[2])
        except OutOfBudget:
            return  # it stays open
        self._journal.add(place, judgment)
        _count_judgment(tally, judgment)

    def _find_judgments(self, key: str) -> list[Judgment]:
        done = self._journal.done
        return [done[place] for place in self._work.list_places(key) if place in done]

    def _write(self) -> None:
        with (
            stage_file(self._work.output, private=True) as beside,
            beside.open("w", encoding="utf-8", errors="replace") as file,
        ):
            rows = ((record, self._find_judgments(key)) for key, record in self._read_records())
            for line in self._work.lines(rows):
                file.write(encode_record(line))
            file.flush()
            os.fsync(file.fileno())


def has_answer(record: Mapping[str, Any]) -> bool:
    """Return True if the call came to an end."""
    return record.get("error") in (None, "")


def _count_judgment(tally: Tally, judgment: Judgment) -> None:
    counted = {name: judgment.fields.get(name) for name in COUNTED}
    tally.add({**counted, "error": judgment.fields["reason"] if judgment.failed else None})


def _locate(file: str, folder: Path) -> str:
    """Return the path of a file from a folder, so that both can be moved together."""
    return file if "://" in file else os.path.relpath(Path(file).resolve(), folder.resolve())


def locate_journal(output: Path) -> Path:
    """Return the path of the journal of an output."""
    return output.with_name(output.name + JUDGE_JOURNAL)


def check_places(work: Work) -> None:
    """Raise UsageError if an output would overwrite a user's file or an input is a pipe."""
    if "-" in work.files:
        raise UsageError("judge reads its files twice", fix="name files, not -")
    inputs = {Path(file).resolve() for file in work.files}
    if work.output.resolve() in inputs:
        raise UsageError(
            f"{work.output}: it is one of the files to be judged", fix="name another: -o FILE"
        )
    if work.output.exists() and not locate_journal(work.output).exists():
        raise UsageError(
            f"{work.output}: it exists, and has no {JUDGE_JOURNAL} beside it",
            fix="name another: -o FILE",
        )
    if not work.output.parent.is_dir():
        raise UsageError(f"{work.output.parent}: no such folder", fix="make it, or name another")


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Hold a lock, which the process releases however it ends."""
    try:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", fix="check the folder's rights") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise UsageError(
            f"{path}: another `calipers judge` is at work on it",
            fix="wait for it, or name another -o",
        ) from None
    try:
        yield
    finally:
        os.close(lock)

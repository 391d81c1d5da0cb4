"""`calipers judge`: existing records are judged, each once; finished work is never lost.

The journal lies beside the output: a line per judgment, appended as it comes. Run again, and what
is missing or failed is judged; then the output is rewritten, all of it at once.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import field
from hashlib import sha256
from pathlib import Path
from typing import Any

from calipers.judges.journal import JudgeJournal, Place
from calipers.judges.judged import COUNTED, JudgedFiles, sum_judgments
from calipers.judges.models import Judgment, OutOfBudget, Pace
from calipers.judges.panels import WorkingJudge, list_rubrics, open_judges
from calipers.judges.prices import check_prices
from calipers.judges.rubrics import Rubric
from calipers.judges.spec import JudgeSpec
from calipers.records.judgment_shape import add_judgments
from calipers.records.tasks import read_records
from calipers.records.unfinished import JUDGE_JOURNAL
from calipers.support.errors import DataError, EmptyError, UsageError
from calipers.support.quick_dataclasses import dataclass
from calipers.support.whole_files import PRIVATE, stage_file
from calipers.systems.budget import Budget
from calipers.systems.journal import Journal, encode_record
from calipers.systems.loop import run_to_end
from calipers.systems.secrets import mask_for
from calipers.systems.tally import Tally, Watch


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What to judge, by whom, and where the judged records go."""

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
        for record, found in rows:
            yield add_judgments(record, [each.fields for each in found]) if found else record

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
        check_prices(work.judges)
    path = locate_journal(work.output)
    with _lock(path), closing(Journal(path)) as journal:
        return _Judging(work, rubrics, JudgeJournal(journal, work.judges, rubrics), watch)()


@dataclass(slots=True)
class _Judging:
    _work: Work
    _rubrics: Sequence[Rubric]
    _journal: JudgeJournal
    _watch: Watch
    _bad: int = 0
    _notices: dict[str, None] = field(default_factory=dict)  # each once
    _is_spent: bool = False

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
                _count(tally, self._journal.done[place])
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
                mask=mask_for(models),
                say=lambda notice: self._notices.update({notice: None}),
                cache=work.cache,
                budget=budget,
            ) as judges:
                rows = self._read_records()
                async with asyncio.TaskGroup() as workers:
                    for _ in range(work.pace.concurrency):
                        workers.create_task(self._judge_rows(judges, rows, tally))

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
        _count(tally, judgment)

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
    """Say whether the call came to an end."""
    return record.get("error") in (None, "")


def _count(tally: Tally, judgment: Judgment) -> None:
    counted = {name: judgment.fields.get(name) for name in COUNTED}
    tally.add({**counted, "error": judgment.fields["reason"] if judgment.failed else None})


def locate_journal(output: Path) -> Path:
    """Return the path of the journal of an output."""
    return output.with_name(output.name + JUDGE_JOURNAL)


def check_places(work: Work) -> None:
    """Raise UsageError if an output would overwrite a user's file or an input is a pipe."""
    if "-" in work.files:
        raise UsageError("judge reads its files twice", fix="name files, not -")
    inputs = {Path(each).resolve() for each in work.files}
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

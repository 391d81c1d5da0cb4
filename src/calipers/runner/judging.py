"""`calipers judge`: records that exist are judged, each once, and nothing that is done is lost.

The journal lies beside the output: a line per judgement, appended as it comes. Run again, and what
is missing or failed is judged; then the output is written anew, all of it at once.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from calipers.errors import EXIT_INCOMPLETE, EXIT_PASS, DataError, EmptyError, UsageError
from calipers.judge.rubrics import Rubric
from calipers.runner.data import read_records
from calipers.runner.journal import Journal, encoded
from calipers.runner.judges import (
    Judgement,
    Pace,
    WorkingJudge,
    open_judges,
    rubrics_of,
    with_judgements,
)
from calipers.runner.loop import run_to_end
from calipers.runner.tally import Tally
from calipers.suites import Judge
from calipers.systems import mask_for

SCHEMA = "calipers.judge/1"
_JOURNAL = ".journal"

Watch = Callable[[Tally], AbstractContextManager[object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What to judge, by whom, and where the judged records go."""

    files: Sequence[str]
    judge: Judge
    output: Path
    pace: Pace = field(default_factory=Pace)
    cache: Path | None = None
    rename: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedFiles:
    """What judging came to."""

    output: str
    records: int
    judged: int
    failed: int
    not_judged: int  # records without what the judge reads, or of calls that failed
    flagged: int
    cut: int
    tokens: float
    cost_usd: float | None
    failures: tuple[tuple[int, str], ...]
    interrupted: bool = False

    @property
    def exit_code(self) -> int:
        """What the command line gives back: 3 where a judgement is missing."""
        return EXIT_INCOMPLETE if self.failed or self.interrupted else EXIT_PASS


def judge_files(work: Work, watch: Watch) -> JudgedFiles:
    """Judge what is not judged yet, then write the output."""
    rubric = rubrics_of([work.judge], Path())[0]
    _check(work)
    with _held(_journal_path(work.output)):
        journal = Journal(_journal_path(work.output))
        try:
            return _Judging(work, rubric, journal, watch)()
        finally:
            journal.close()


class _Judging:
    def __init__(self, work: Work, rubric: Rubric, journal: Journal, watch: Watch) -> None:
        self._work = work
        self._rubric = rubric
        self._journal = journal
        self._watch = watch
        self._done: dict[str, Judgement] = {}

    def __call__(self) -> JudgedFiles:
        self._begin()
        keys = [key for key, record in self._records() if _has_answer(record)]
        records = sum(1 for _ in self._records())
        if not records:
            raise EmptyError(
                f"no records in {', '.join(self._work.files)}", fix="a record per line, as JSON"
            )
        tally = Tally(len(keys))
        for key in keys:
            if key in self._done and not self._done[key].failed:
                _count(tally, self._done[key])
        tally.begin()
        interrupted = tally.done < tally.calls and not self._judge(tally)
        if not interrupted:
            try:
                self._write()
            except OSError as error:
                raise UsageError(
                    f"{self._work.output}: {error.strerror}",
                    fix="make room and run again: what is done is kept",
                ) from error
        return self._result(records, keys, interrupted=interrupted)

    def _begin(self) -> None:
        """Read the journal; one of another judge or rubric is refused."""
        judge = self._work.judge
        own = {
            "schema": SCHEMA,
            "judge": judge.name,
            "model": judge.model,
            "rubric": self._rubric.name,
            "rubric_hash": self._rubric.hash,
        }
        lines = self._journal.lines()
        first = next(lines, None)
        if first is None:
            self._journal.append(encoded(own).encode())
            return
        before = first[2]
        for name, value in own.items():
            if before.get(name) != value:
                raise UsageError(
                    f"{self._journal.path}: it was begun with another {name}: "
                    f"{str(before.get(name))[:60]}, not {value}",
                    fix="name another output: -o FILE",
                )
        for _, _, line in lines:
            judgment = line.get("judgment")
            if not isinstance(judgment, dict) or not {"scores", "reason", "flags"} <= set(judgment):
                raise DataError(
                    f"{self._journal.path}: a line that is no judgement",
                    fix="take it out, or begin anew with another output: -o FILE",
                )
            self._done[str(line.get("key"))] = Judgement(judgment, bool(line.get("failed")))

    def _records(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Each record with its key: its content, and which of equal ones it is."""
        seen: Counter[str] = Counter()
        for path in self._work.files:
            for record in read_records(path):
                content = json.dumps(record, sort_keys=True).encode()
                digest = sha256(content).hexdigest()[:24]
                seen[digest] += 1
                yield f"{digest}:{seen[digest]}", record

    def _judge(self, tally: Tally) -> bool:
        """Judge what is open; False where that was interrupted."""
        work = self._work

        async def calls() -> None:
            async with open_judges(
                [work.judge],
                [self._rubric],
                work.pace,
                mask=mask_for([work.judge]),
                cache=work.cache,
            ) as (judge,):
                rows = self._records()
                async with asyncio.TaskGroup() as workers:
                    for _ in range(work.pace.concurrency):
                        workers.create_task(self._work_off(judge, rows, tally))

        try:
            with self._watch(tally):
                run_to_end(calls())
        except (KeyboardInterrupt, asyncio.CancelledError):
            return False
        return True

    async def _work_off(
        self, judge: WorkingJudge, rows: Iterable[tuple[str, dict[str, Any]]], tally: Tally
    ) -> None:
        for key, record in rows:
            before = self._done.get(key)
            if not _has_answer(record) or (before is not None and not before.failed):
                continue
            judgement = await judge(self._renamed(record))
            line = {"key": key, "failed": judgement.failed, "judgment": judgement.fields}
            self._journal.append(encoded(line).encode("utf-8", "replace"))
            self._done[key] = judgement
            _count(tally, judgement)

    def _renamed(self, record: dict[str, Any]) -> dict[str, Any]:
        return record | {name: record.get(theirs) for name, theirs in self._work.rename.items()}

    def _write(self) -> None:
        beside = self._work.output.with_name(f".{self._work.output.name}.new")
        with beside.open("w", encoding="utf-8", errors="replace") as file:
            for key, record in self._records():
                judgement = self._done.get(key)
                found = [] if judgement is None else [judgement]
                file.write(encoded(with_judgements(record, found) if found else record))
            file.flush()
            os.fsync(file.fileno())
        beside.replace(self._work.output)

    def _result(self, records: int, keys: Sequence[str], *, interrupted: bool) -> JudgedFiles:
        found = [self._done[key] for key in keys if key in self._done]
        costs = [each.fields["cost_usd"] for each in found if "cost_usd" in each.fields]
        reasons = Counter(str(each.fields["reason"]) for each in found if each.failed)
        scored = sum(each.fields["scores"] is not None for each in found)
        failed = sum(each.failed for each in found)
        return JudgedFiles(
            output=str(self._work.output),
            records=records,
            judged=scored,
            failed=failed,
            not_judged=records - len(keys) + len(found) - scored - failed,
            flagged=sum(bool(each.fields["flags"]) for each in found),
            cut=sum(bool(each.fields.get("cut")) for each in found),
            tokens=sum(
                each.fields.get("prompt_tokens", 0) + each.fields.get("completion_tokens", 0)
                for each in found
            ),
            cost_usd=sum(costs) if len(costs) == len(found) and costs else None,
            failures=tuple((count, reason) for reason, count in reasons.most_common(5)),
            interrupted=interrupted,
        )


def _has_answer(record: Mapping[str, Any]) -> bool:
    return record.get("error") in (None, "")


def _count(tally: Tally, judgement: Judgement) -> None:
    names = ("prompt_tokens", "completion_tokens", "cost_usd")
    counted = {name: judgement.fields.get(name) for name in names}
    tally.add({**counted, "error": judgement.fields["reason"] if judgement.failed else None})


def _journal_path(output: Path) -> Path:
    return output.with_name(output.name + _JOURNAL)


def _check(work: Work) -> None:
    """Nothing of the user's is written over, and inputs can be read twice."""
    if "-" in work.files:
        raise UsageError("judge reads its files twice", fix="name files, not -")
    inputs = {Path(each).resolve() for each in work.files}
    if work.output.resolve() in inputs:
        raise UsageError(
            f"{work.output}: it is one of the files to be judged", fix="name another: -o FILE"
        )
    if work.output.exists() and not _journal_path(work.output).exists():
        raise UsageError(
            f"{work.output}: it exists, and has no {_JOURNAL} beside it",
            fix="name another: -o FILE",
        )
    if not work.output.parent.is_dir():
        raise UsageError(f"{work.output.parent}: no such folder", fix="make it, or name another")


@contextmanager
def _held(path: Path) -> Iterator[None]:
    """Keep others out; the lock goes with the process, however that ends."""
    try:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
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

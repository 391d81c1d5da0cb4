"""The journal of a run, a line per finished call, and the tally of its records.

Lines are appended one at a time, each whole or not at all. The record of a repeated call is
appended too, and the old line is removed when the journal is next rewritten: a finished call is
never missing. `Tally` counts records for progress displays.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from errno import ENOSPC
from pathlib import Path
from time import monotonic
from typing import Any, BinaryIO

from calipers.records.fields import BILLED_TOKENS, REPORTED, TRUNCATED_REASONS
from calipers.records.nested_fields import sum_judging_cost
from calipers.records.result_folder import RECORDS
from calipers.support.errors import DataError, UsageError
from calipers.support.files import PRIVATE, stage_file
from calipers.systems.conversations import sum_user_cost

JOURNAL_FILE = RECORDS
_CHUNK = 1 << 20
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


class Journal:
    """An open journal, to which records are added."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with _explain_errors(path):
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE)
            self._end = os.fstat(self._file).st_size
        self._drop_torn_line()

    def read_lines(self) -> Iterator[tuple[int, int, dict[str, Any]]]:
        """Yield each record with where its line begins and ends."""
        at = 0
        with _explain_errors(self.path), self.path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield at, at + len(line), _parse_record(line, f"{self.path}:{number}")
                at += len(line)

    def append(self, line: bytes) -> None:
        """Append a line; where there is no room for all of it, nothing of it stays."""
        try:
            _write_all(self._file, line, self._end)
        except BaseException as error:
            os.ftruncate(self._file, self._end)
            if not isinstance(error, OSError):
                raise
            fix = "make room and run again: what is done is kept"
            raise UsageError(f"{self.path}: {error.strerror}", fix=fix) from error
        self._end += len(line)

    def add(self, record: Mapping[str, Any]) -> tuple[int, int]:
        """Append a record; return where its line begins and ends."""
        begin = self._end
        self.append(encode_line(record))
        return begin, self._end

    def read_line(self, start: int, end: int) -> dict[str, Any]:
        """Return the record whose line begins and ends there."""
        return _parse_record(os.pread(self._file, end - start, start), str(self.path))

    def read_records(self) -> Iterator[dict[str, Any]]:
        """Yield each record."""
        return (record for _, _, record in self.read_lines())

    def rewrite(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Rewrite the journal with these records, all at once or not at all."""
        self._replace(map(encode_line, records))

    def keep_only(self, kept: Iterator[tuple[int, int]]) -> None:
        """Rewrite the journal with these lines, all at once or not at all."""
        with _explain_errors(self.path), self.path.open("rb") as old:
            self._replace(_read_piece(old, start, end) for start, end in kept)

    def _replace(self, lines: Iterable[bytes]) -> None:
        with _explain_errors(self.path):
            with stage_file(self.path, private=True) as beside, beside.open("wb") as new:
                new.writelines(lines)
                new.flush()
                os.fsync(new.fileno())
            os.close(self._file)
            self._file = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
            self._end = os.fstat(self._file).st_size

    def close(self) -> None:
        """Make sure that all is on the disk."""
        with _explain_errors(self.path):
            os.fsync(self._file)
            os.close(self._file)

    def _drop_torn_line(self) -> None:
        """Remove a line that a killed run began to write; a whole record without line end stays."""
        if not self._end or os.pread(self._file, 1, self._end - 1) == b"\n":
            return
        start = self._find_last_line()
        torn = os.pread(self._file, self._end - start, start)
        try:
            _parse_record(torn, str(self.path))
        except DataError:
            os.ftruncate(self._file, start)
            self._end = start
        else:
            self.append(b"\n")

    def _find_last_line(self) -> int:
        at = self._end
        while at > 0:
            start = max(0, at - _CHUNK)
            line_end = os.pread(self._file, at - start, start).rfind(b"\n")
            if line_end >= 0:
                return start + line_end + 1
            at = start
        return 0


def _write_all(file: int, data: bytes, at: int) -> None:
    """Write at a place, in as many pieces as the disk takes it in."""
    while data:
        count = os.pwrite(file, data, at)
        if count == 0:  # a full disk may say it this way too
            raise OSError(ENOSPC, os.strerror(ENOSPC))
        data, at = data[count:], at + count


def _read_piece(file: BinaryIO, start: int, end: int) -> bytes:
    file.seek(start)
    return file.read(end - start)


def encode_record(record: Mapping[str, Any]) -> str:
    """Return a record as a line of strict JSON."""
    return _encode(record) + "\n"


def encode_line(record: Mapping[str, Any]) -> bytes:
    """Return the same in UTF-8; unpaired surrogates, which it cannot hold, are replaced."""
    return encode_record(record).encode("utf-8", "replace")


def _parse_record(line: bytes, where: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        record = None
    if not isinstance(record, dict):
        raise DataError(
            f"{where}: not a record; the journal is damaged",
            fix="take the line out, or start over with another folder: -o FOLDER",
        )
    return record


@contextmanager
def _explain_errors(path: Path) -> Iterator[None]:
    """Turn errors of the disk into errors that say what to do."""
    try:
        yield
    except OSError as error:
        fix = "check the folder, its permissions and free space"
        raise UsageError(f"{path}: {error.strerror}", fix=fix) from error


_NUMBER = re.compile(r"[+-]?(?:(?:\d+|\d{1,3}(?:,\d{3})+)(?:\.\d*)?|\.\d+)", re.ASCII)
_EMPTY = '""'  # a name
_MOST_TEXTS = 1_000  # distinct messages of errors; further ones count only by their kind
CACHED = "cached"  # in a record whose answer was not called for, but found in the suite's cache


@dataclass(slots=True)
class Tally:
    """Counts, over all runs of the folder."""

    calls: int  # in all
    done: int = 0
    errors: int = 0
    truncated: int = 0  # replies that were cut off
    retried: int = 0  # calls that took several attempts
    cached: int = 0  # answers from the suite's cache
    tokens: float = 0
    cost_usd: float = 0.0  # of the calls, their judges and simulated users
    judging_usd: float = 0.0  # of the judges alone
    user_usd: float = 0.0  # of the simulated users alone
    priced: bool = False
    decided: int = 0  # records that are right or wrong
    right: int = 0
    notices: tuple[str, ...] = ()  # to be shown before the first call
    began: float = field(default_factory=monotonic)
    done_before: int = 0
    reported: Counter[str] = field(default_factory=Counter)  # by systems, of themselves, by name
    _failed: Counter[tuple[str, str]] = field(default_factory=Counter)  # by model and kind
    _messages: dict[tuple[str, str], Counter[str]] = field(default_factory=dict)  # of each

    def judge(self, cost_usd: float) -> None:
        """Count what judges cost beside the call."""
        self.cost_usd += cost_usd
        self.judging_usd += cost_usd

    def add(self, record: Mapping[str, Any], *, sign: int = 1) -> None:
        """Count a record in, or out again."""
        self.done += sign
        attempts = record.get("attempts")
        self.retried += sign * (isinstance(attempts, int) and attempts > 1)
        if record.get("error") is not None:
            self.errors += sign
            model, error = str(record.get("model")), str(record["error"])
            way = (model, error.partition(":")[0])
            self._failed[way] += sign
            texts = self._messages.setdefault(way, Counter())
            if error in texts or len(texts) < _MOST_TEXTS:
                texts[error] += sign
        elif record.get("finish_reason") in TRUNCATED_REASONS:
            self.truncated += sign
        self.cached += sign * (record.get(CACHED) is True)
        for name in record.get(REPORTED) or ():
            self.reported[name] += sign
        for name in BILLED_TOKENS:
            if name in record:
                self.tokens += sign * _as_number(record[name])
        judging, user = sum_judging_cost(record), sum_user_cost(record)
        if record.get("cost_usd") is not None or judging or user:
            self.priced = True
            self.cost_usd += sign * (_as_number(record.get("cost_usd")) + user)
            self.user_usd += sign * user
            self.judge(sign * judging)
        if (correct := is_correct(record)) is not None:
            self.decided += sign
            self.right += sign * correct

    def forget_failed(self) -> None:
        """Forget a failed call that is made again; its cost stays spent."""
        self.done -= 1
        self.errors -= 1

    @property
    def failures(self) -> tuple[tuple[int, str], ...]:
        """Return how many calls of a system failed in each way, with the most frequent text."""
        return tuple(
            (n, f"{way[0] or _EMPTY}: {self._messages[way].most_common(1)[0][0]}")
            for way, n in self._failed.most_common()
            if n > 0
        )

    def begin(self) -> None:
        """Start measuring the speed."""
        self.began = monotonic()
        self.done_before = self.done

    @property
    def rate(self) -> float:
        """Calls per second in this run."""
        return (self.done - self.done_before) / max(1e-9, monotonic() - self.began)

    @property
    def seconds_left(self) -> float | None:
        """The seconds that are left at this rate."""
        return (self.calls - self.done) / self.rate if self.rate > 0 else None


def _as_number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def is_correct(record: Mapping[str, Any]) -> bool | None:
    """Return True if a record is right, as in accuracy; None if that is unknown."""
    if record.get("error") is not None:
        return None
    if isinstance(record.get("correct"), bool):
        return bool(record["correct"])
    target = record.get("target")
    if target is None:
        return None
    answer = record.get("answer")
    if isinstance(answer, str) and answer == target:
        return True
    return answer is not None and _normalize(answer) == _normalize(target)


def _normalize(value: Any) -> str | Decimal:
    text = str(value).strip().lower()
    return Decimal(text.replace(",", "")) if _NUMBER.fullmatch(text) else text


Watch = Callable[[Tally], AbstractContextManager[object]]
"""Shows a tally while work goes on."""

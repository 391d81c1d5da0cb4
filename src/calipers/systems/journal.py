"""The journal: a line per finished call, written whole or not at all.

Lines are appended, each in one write. The record of a repeated call is appended too, and the old
line is removed when the journal is next rewritten: a finished call is never missing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from calipers.records.result_folder import RECORDS
from calipers.support.errors import DataError, UsageError
from calipers.support.whole_files import PRIVATE, stage_file

NAME = RECORDS
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
            written = os.pwrite(self._file, line, self._end)
            if written < len(line):
                written += os.pwrite(self._file, line[written:], self._end + written)
        except OSError as error:
            os.ftruncate(self._file, self._end)
            fix = "make room and run again: what is done is kept"
            raise UsageError(f"{self.path}: {error.strerror}", fix=fix) from error
        self._end += written

    def add(self, record: Mapping[str, Any]) -> None:
        """Append a record."""
        self.append(encode_line(record))

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
            found = os.pread(self._file, at - start, start).rfind(b"\n")
            if found >= 0:
                return start + found + 1
            at = start
        return 0


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

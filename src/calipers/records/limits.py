"""Limits on what is held in memory at once, so that a small hostile file cannot fill it.

What is streamed has no limit: a log of many gigabytes is read in flat memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from math import ceil, isfinite

from calipers.support.errors import DataError, UsageError

BLOCK_BYTES = 16 << 20  # read at a time, whatever the limits are
FREE_EXPANSION = 256 << 20  # a compressed file may always expand to this many bytes

_MB = 1 << 20
_DOCUMENT = 8  # a JSON document may be this many times as large as a record
_BYTES_PER_VALUE = 4  # half of what dense JSON has; a value takes about 100 bytes of memory
_MARKS = ",[{"  # there is one before every value but the first


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The largest record, and how far compressed data may expand."""

    max_record_mb: float = 32
    max_expansion: float = 200

    def __post_init__(self) -> None:
        for name, least in (("max_record_mb", 0), ("max_expansion", 1)):
            value = getattr(self, name)
            if not (isfinite(value) and value > least):
                raise UsageError(
                    f"--{name.replace('_', '-')} {value:g}: not a number above {least}",
                    fix=f"the default is {Limits.__dataclass_fields__[name].default}",
                )

    @property
    def record_bytes(self) -> int:
        """The bytes that a line, a row, a sample or an element of an array may have."""
        return int(self.max_record_mb * _MB)

    @property
    def document_bytes(self) -> int:
        """The bytes that a JSON document may have, which is held as a whole."""
        return _DOCUMENT * self.record_bytes

    def check_record(self, data: bytes, where: str) -> None:
        """Raise DataError where one record is too large, or has too many values in it."""
        if len(data) > self.record_bytes:
            raise self.record_too_large(where)
        self.check_values(data, where)

    def check_values(self, data: bytes | str, where: str) -> None:
        """Raise DataError where there are too many values in a JSON text that is held whole."""
        if len(data) <= BLOCK_BYTES:
            return
        if isinstance(data, str):
            marks = sum(data.count(mark) for mark in _MARKS)
        else:
            marks = sum(data.count(mark.encode()) for mark in _MARKS)
        most = self.record_bytes // _BYTES_PER_VALUE
        if marks > most:
            needed = ceil(marks * _BYTES_PER_VALUE / _MB)
            raise DataError(
                f"{where}: about {marks:,} values in one record, more than {most:,}",
                fix=f"raise the limit if there is memory for them: --max-record-mb {needed}",
            )

    def record_too_large(self, where: str, *, hint: str = "") -> DataError:
        """Return the error for a record that does not end within the limit."""
        return DataError(
            f"{where}: a record of more than {self.max_record_mb:g} MB{hint}",
            fix=f"raise the limit if it is right: --max-record-mb {2 * self.max_record_mb:g}",
        )

    def make_document_error(self, where: str) -> DataError:
        """Return the error for a JSON document that does not end within the limit."""
        return DataError(
            f"{where}: one JSON document of more than {self.document_bytes // _MB} MB, "
            f"which is {_DOCUMENT} times --max-record-mb",
            fix="write a line per record (.jsonl), which is read in flat memory, "
            f"or raise the limit: --max-record-mb {2 * self.max_record_mb:g}",
        )

    def check_expansion(self, packed: int, expanded: int, where: str) -> None:
        """Raise DataError where compressed data has become implausibly large."""
        if expanded > max(FREE_EXPANSION, self.max_expansion * packed):
            ratio = expanded / max(packed, 1)
            enough = _round_up(2 * ratio)
            raise DataError(
                f"{where}: {packed:,} compressed bytes expand to {expanded // _MB:,} MB and more "
                f"({ratio:,.0f} times; the limit is {self.max_expansion:g})",
                fix=f"raise the limit if the file is right: --max-expansion {enough}",
            )


_DEFAULT = Limits()
_CURRENT: ContextVar[Limits] = ContextVar("limits", default=_DEFAULT)


def get_limits() -> Limits:
    """Return the limits that apply to what is opened now."""
    return _CURRENT.get()


@contextmanager
def limit_reading(
    *, max_record_mb: float | None = None, max_expansion: float | None = None
) -> Iterator[None]:
    """Change, for what is read inside, how much of a file may be held in memory.

    Args:
        max_record_mb: The largest record (a line, a row, a sample of a log), in MB; 32 by default.
            A JSON document that is not a list of records may be eight times as large.
        max_expansion: How many times as large as its file compressed data may become once it is
            beyond 256 MB; 200 by default.

    >>> with limit_reading(max_record_mb=512):
    ...     get_limits().max_record_mb
    512
    """
    given = {"max_record_mb": max_record_mb, "max_expansion": max_expansion}
    chosen = {name: value for name, value in given.items() if value is not None}
    token = _CURRENT.set(replace(_CURRENT.get(), **chosen))
    try:
        yield
    finally:
        _CURRENT.reset(token)


def _round_up(ratio: float) -> int:
    """Return a round number above the ratio."""
    step = int(f"1{'0' * (len(str(int(ratio))) - 1)}")
    return (int(ratio) // step + 1) * step

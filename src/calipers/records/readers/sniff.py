"""The beginning of a file: enough to tell JSON lines from one JSON value, and text from binary."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from calipers.records.readers.bytestream import UNREADABLE, open_bytes
from calipers.support.errors import DataError

_HEAD = 4 << 20
_PACKED = (".gz", ".zst", ".zstd")
_BOM = b"\xef\xbb\xbf"
_LOOKED_AT = 4096  # bytes in which to look for binary data
_ARRAY = re.compile(rb"\s*\[\s*(?:\{|\]|$)")
_SPACE = re.compile(r"\s*")
_MARKUP = (b"<!doctype", b"<html", b"<?xml")
_BINARY = {
    b"PAR1": "a Parquet file: call it .parquet",
    b"PK\x03\x04": "a zip archive: unpack it, or call it .eval if it is a log of Inspect",
    b"SQLite format 3": "an SQLite database: export the table as CSV",
    b"ARROW1": "an Arrow file: write it as Parquet",
    b"Obj\x01": "an Avro file: write it as Parquet or JSON lines",
    b"\xff\xfe": "text in UTF-16: write it in UTF-8",
    b"\xfe\xff": "text in UTF-16: write it in UTF-8",
    b"%PDF": "a PDF document",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The first JSON value of a file; of a very long one, as much as its beginning shows."""

    first: Any
    on_one_line: bool  # whether it ends where the first line does
    alone: bool  # whether nothing stands behind it
    is_whole: bool  # whether its end has been seen
    is_array: bool  # whether it begins as a list of objects does


def find_suffix(path: Path) -> str:
    """Return the ending that says what a file holds, without that of its compression."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    while suffixes and suffixes[-1] in _PACKED:
        suffixes.pop()
    return suffixes[-1] if suffixes else ""


def read_head(path: Path) -> Head:
    """Return what a file of JSON begins with; its `first` is None where that is not JSON."""
    data, is_all = _read_beginning(path)
    is_array = _ARRAY.match(data) is not None
    line, _, rest = data.partition(b"\n")
    with suppress(ValueError, RecursionError):
        first, alone = json.loads(line), is_all and not rest.strip()
        return Head(first=first, on_one_line=True, alone=alone, is_whole=True, is_array=is_array)
    text = data.decode("utf-8", "replace")
    start = _SPACE.match(text)
    with suppress(ValueError, RecursionError):
        first, end = json.JSONDecoder().raw_decode(text, start.end() if start else 0)
        alone = is_all and not text[end:].strip()
        return Head(first=first, on_one_line=False, alone=alone, is_whole=True, is_array=is_array)
    first, one_line = None, True
    if not is_all:
        from pydantic_core import from_json  # noqa: PLC0415 (slow to load, and seldom needed)

        with suppress(ValueError, RecursionError):
            first = from_json(data, allow_inf_nan=True, allow_partial=True)
            one_line = b"\n" not in data
    return Head(first=first, on_one_line=one_line, alone=False, is_whole=False, is_array=is_array)


def refuse_binary(path: Path) -> None:
    """Raise DataError where a file of text is plainly something else."""
    start = _read_beginning(path, _LOOKED_AT)[0]
    kind = next((what for magic, what in _BINARY.items() if start.startswith(magic)), None)
    if kind is None and start.lstrip()[:9].lower().startswith(_MARKUP):
        kind = "a web page or XML: check where it was downloaded from"
    if kind is None and b"\0" in start:
        kind = "binary data"
    if kind is not None:
        what, _, fix = kind.partition(": ")
        raise DataError(
            f"{path}: {what}, not {path.suffix.removeprefix('.') or 'text'}",
            fix=fix or "name a file of records: JSON lines, CSV or Parquet",
        )


def _read_beginning(path: Path, size: int = _HEAD) -> tuple[bytes, bool]:
    """Return the first bytes, decompressed, and whether that is all; damaged data ends early."""
    parts: list[bytes] = []
    length = 0
    try:
        with open_bytes(path) as opened:
            while length < size and (data := opened.stream.read(size - length)):
                parts.append(data)
                length += len(data)
            return b"".join(parts).removeprefix(_BOM), not opened.stream.read(1)
    except UNREADABLE:
        return b"".join(parts).removeprefix(_BOM), False

"""Lines of JSON read exactly, row by row: numbers as they are written, and what is wrong."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import partial
from math import nan
from typing import Any

from calipers.records.fields import BadValue, Number
from calipers.records.rows import Numbered

BOM = b"\xef\xbb\xbf"


def read_rows(data: bytes, first_line: int) -> Iterator[Numbered]:
    """Yield each line with its number: its fields, or what is wrong with it; blank ones skipped."""
    if first_line == 1:
        data = data.removeprefix(BOM)
    for number, line in enumerate(data.split(b"\n"), start=first_line):
        if line.strip():
            yield number, *load_row(line)


def load_row(line: bytes) -> tuple[str, Mapping[str, Any] | BadValue]:
    """Return a line's text, and its fields with numbers as written, or what is wrong with it."""
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        shown = line.decode(errors="replace")
        return shown, BadValue(f"invalid UTF-8 at byte {error.start + 1} of the line")
    try:
        row = _LOADS(text)
    except json.JSONDecodeError as error:
        return text, BadValue(f"not JSON: {error.msg.removesuffix(' at')} at column {error.colno}")
    except RecursionError:
        return text, BadValue("not JSON: nested too deep")
    if isinstance(row, dict):
        return text, row
    return text, BadValue("a JSON value, not an object with fields")


def read_objects(data: bytes) -> Iterator[Mapping[str, Any]]:
    """Yield the lines that are JSON objects, without checking them."""
    from pydantic_core import from_json  # noqa: PLC0415 (slow to load)

    for line in data.split(b"\n"):
        try:
            row = from_json(line)
        except ValueError:
            continue
        if isinstance(row, dict):
            yield row


def _keep_first(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the pairs as a mapping; the first of a repeated key counts, as in the fast path."""
    row = dict(pairs)
    return row if len(row) == len(pairs) else dict(reversed(pairs))


def _read_constant(name: str) -> Number | float:
    return nan if name == "NaN" else Number(name)


_LOADS = partial(
    json.loads,
    parse_float=Number,
    parse_int=Number,
    parse_constant=_read_constant,
    object_pairs_hook=_keep_first,
)

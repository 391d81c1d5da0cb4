"""JSON that is not lines: arrays, objects one after another, and values inside a large document.

The text is read piece by piece, so that memory holds a few values of it, however many there are.
Rows keep the very spelling that they have. A place is the path of keys to a value; `[]` stands for
the elements of a list.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from calipers.records.limits import BLOCK_BYTES, Limits, get_limits
from calipers.records.readers.bytestream import (
    UNREADABLE,
    Block,
    OpenFile,
    make_damage_error,
    open_bytes,
)
from calipers.records.readers.lines import ConvertedLines
from calipers.support.errors import DataError

_BATCH = 10_000
_PIECE = 1 << 20
_NEAR_END = 16  # characters: a literal or an escape that is cut has no more
_SPACE = re.compile(r"[ \t\r\n]*")
_LINE_ENDS = str.maketrans("\r\n", "  ")  # inside a JSON text they stand between its parts only
# The numbers' values are of no interest here, only where each ends: nothing is made of them.
_DECODE_EXTENT = json.JSONDecoder(parse_int=bool, parse_float=bool, parse_constant=bool).raw_decode
_DECODE_VALUE = json.JSONDecoder().raw_decode


class JsonArray(ConvertedLines):
    """The array in a `.json` file; rows are its elements."""

    _kind = "a JSON array"

    def _blocks(self) -> Iterator[tuple[Block, float]]:
        first = 0
        with open_text(Path(self.name), self.limits, self._kind) as (text, opened):
            for lines in _batch_lines(self._read_values(text)):
                yield Block("".join(lines).encode("utf-8", "replace"), first), opened.share
                first += len(lines)

    def _read_values(self, text: JsonText) -> Iterator[str]:
        for _ in text.walk_elements():
            yield text.take()
        if text.peek():
            raise text.make_error("more behind the end of the array")


class JsonObjects(JsonArray):
    """Objects one after another, each on several lines; rows are the objects."""

    _kind = "JSON"

    def _read_values(self, text: JsonText) -> Iterator[str]:
        while text.peek():
            yield text.take()


class WrappedRecords(JsonArray):
    """The records in a list inside one JSON object."""

    _kind = "JSON"

    def __init__(self, path: Path, key: str, others: list[str]) -> None:
        super().__init__(path)
        self._key = key
        left = f"; left out: {', '.join(others)}" if others else ""
        self.notice = f"{path}: one JSON object, the records are its list {key!r}{left}"

    def _read_values(self, text: JsonText) -> Iterator[str]:
        for _ in text.enter_list((self._key,), {}):
            yield text.take()


def stream_list(
    path: Path, keys: tuple[str, ...], beside: dict[str, Any], *, large: bool = False
) -> Iterator[tuple[Any, float]]:
    """Yield the elements of a list in a file of JSON, and the share of the file behind each.

    Args:
        path: The file, plain or compressed.
        keys: Where the list is inside the object; none for a file that is a list itself.
        beside: Is given what stands beside the list, as far as it stands before it.
        large: Whether an element may be as large as a document, since it holds many records.

    Raises:
        DataError: The text is not JSON, or an element of it is too large.
    """
    with open_text(path) as (text, opened):
        for _ in text.enter_list(keys, beside):
            yield text.take_value(large=large), opened.share


def stream_objects(path: Path) -> Iterator[tuple[Any, float]]:
    """Yield JSON values one after another, on a line each or on several; as `stream_list` does."""
    with open_text(path) as (text, opened):
        while text.peek():
            yield text.take_value(large=True), opened.share


def _batch_lines(values: Iterator[str]) -> Iterator[list[str]]:
    """Yield some lines at a time: not too many, and not too large."""
    lines: list[str] = []
    size = 0
    for value in values:
        lines.append(f"{value}\n")
        size += len(value)
        if len(lines) == _BATCH or size > BLOCK_BYTES:
            yield lines
            lines, size = [], 0
    if lines:
        yield lines


class JsonText:
    """What is left of a JSON text, of which more is read when it is needed."""

    def __init__(self, stream: IO[bytes], name: str, limits: Limits, kind: str) -> None:
        self._stream, self._name, self._limits = stream, name, limits
        self._kind = kind
        self._most = limits.record_bytes  # of one value
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._text, self._place = "", 0
        self._line = 1
        self._is_whole = False

    def peek(self) -> str:
        """Return the next character that is not a space, without consuming it; empty at the end."""
        while True:
            match = _SPACE.match(self._text, self._place)
            assert match is not None
            self._place = match.end()
            if self._place < len(self._text) or not self._read():
                return self._text[self._place : self._place + 1]

    def skip(self) -> None:
        """Take the next character that is not a space."""
        self.peek()
        self._place += 1

    def take(self) -> str:
        """Consume the next value and return it as written, on one line."""
        _, start, end = self._consume(_DECODE_EXTENT)
        return self._text[start:end].translate(_LINE_ENDS)

    def take_value(self, *, large: bool = False) -> Any:
        """Consume the next value and return what it is; a large one may be like a document."""
        self._most = self._limits.document_bytes if large else self._limits.record_bytes
        return self._consume(_DECODE_VALUE)[0]

    def _consume(self, decode: Callable[[str, int], tuple[Any, int]]) -> tuple[Any, int, int]:
        """Consume the next value; return it, and where in the text it starts and ends."""
        self.peek()
        while True:
            try:
                value, end = decode(self._text, self._place)
            except (ValueError, RecursionError) as error:
                if not (self._is_cut(error) and self._read()):
                    raise self.make_error(_describe(error)) from error
                continue
            if end < len(self._text) or not self._read():  # a number may go on
                start, self._place = self._place, end
                return value, start, end

    def walk_elements(self) -> Iterator[None]:
        """Walk through a list: whoever iterates takes each element when it is handed over."""
        yield from self._walk("[", "]", "elements")

    def walk_members(self) -> Iterator[str]:
        """Walk through an object: yields each key, and whoever iterates takes its value."""
        for _ in self._walk("{", "}", "members"):
            name = self.take_value()
            if self.peek() != ":":
                raise self.make_error("no colon behind a key")
            self.skip()
            yield str(name)

    def enter_list(self, keys: tuple[str, ...], beside: dict[str, Any]) -> Iterator[None]:
        """Walk through the list at a path of keys; `beside` gets what stands before it."""
        if not keys:
            yield from self.walk_elements()
            return
        for name in self.walk_members():
            if name == keys[0] and self.peek() == ("{" if keys[1:] else "["):
                yield from self.enter_list(keys[1:], beside)
                return
            beside[name] = self.take_value(large=True)

    def _walk(self, start: str, end: str, what: str) -> Iterator[None]:
        if self.peek() != start:
            raise self.make_error(f"no {start} where one is expected")
        self.skip()
        more = self.peek() != end
        while more:
            yield
            more = self.peek() == ","
            if more:
                self.skip()
            elif self.peek() != end:
                raise self.make_error(f"no comma between two {what}, or no end")
        self.skip()

    def make_error(self, problem: str) -> DataError:
        """Return the error for a text that is not JSON."""
        line = self._line + self._text.count("\n", 0, self._place)
        return DataError(
            f"{self._name}:{line}: not {self._kind}: {problem}",
            fix="check that the file is whole; or write a line per record",
        )

    def _is_cut(self, error: Exception) -> bool:
        if not isinstance(error, json.JSONDecodeError):
            return False
        return error.msg.startswith("Unterminated") or error.pos > len(self._text) - _NEAR_END

    def _read(self) -> bool:
        """Read as much again as is held; return False at the end of the text."""
        if self._is_whole:
            return False
        self._line += self._text.count("\n", 0, self._place)
        self._text, self._place = self._text[self._place :], 0
        if len(self._text) > self._most:
            raise self._limits.record_too_large(f"{self._name}:{self._line}")
        self._limits.check_values(self._text, f"{self._name}:{self._line}")
        try:
            data = self._stream.read(max(_PIECE, len(self._text)))
            self._is_whole = not data
            self._text += self._decoder.decode(data, final=self._is_whole)
        except UNREADABLE as error:
            raise make_damage_error(self._name, error) from error
        except UnicodeDecodeError as error:
            raise DataError(f"{self._name}: invalid UTF-8", fix="write it in UTF-8") from error
        return True


@contextmanager
def open_text(
    path: Path, limits: Limits | None = None, kind: str = "JSON"
) -> Iterator[tuple[JsonText, OpenFile]]:
    """Open a file of JSON, which messages call a `kind`, to read value by value."""
    limits = limits or get_limits()
    with open_bytes(path, limits) as opened:
        yield JsonText(opened.stream, str(path), limits, kind), opened


def _describe(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "nested too deep"
    return error.msg if isinstance(error, json.JSONDecodeError) else str(error)


ELEMENT = "[]"
_DEEPEST = 4  # objects and lists within others that an outline enters

Place = tuple[str, ...]


def parse_places(*written: str) -> tuple[Place, ...]:
    """Return places as `stream_places` takes them.

    >>> parse_places("a.[]", "b.c")
    (('a', '[]'), ('b', 'c'))
    """
    return tuple(tuple(place.split(".")) for place in written)


def stream_places(
    path: Path, places: Collection[Place], *, large: bool = False
) -> Iterator[tuple[Place, Any, float]]:
    """Yield the values at the places, and all that stands beside them, in the order of the file.

    Each comes with where it is and the share of the file behind it. Documents may follow others.

    Args:
        path: The file, plain or compressed.
        places: Where the values are; those above them are not held.
        large: Whether a value at one of the places may be as large as a document.

    Raises:
        DataError: The text is not JSON, or a value is too large.
    """
    here = {*places}
    above = {place[:length] for place in places for length in range(len(place))} - here
    with open_text(path) as (text, opened):
        while True:
            for at, value in _walk_places(text, (), here, above, large=large):
                yield at, value, opened.share
            if not text.peek():
                return


def read_outline(path: Path) -> Any:
    """Return a JSON document with only the first element of each list.

    Raises:
        DataError: The text is not JSON, or longer than a document may be.
    """
    limits = get_limits()

    def take(text: JsonText, opened: OpenFile) -> Any:
        if opened.file.tell() > limits.document_bytes:
            raise limits.make_document_error(str(path))
        return text.take_value(large=True)

    with open_text(path) as (text, opened):
        return _outline(text, _DEEPEST, lambda: take(text, opened))


def _walk_places(
    text: JsonText, at: Place, here: set[Place], above: set[Place], *, large: bool
) -> Iterator[tuple[Place, Any]]:
    start = text.peek() if at in above else ""
    if start == "{":
        for name in text.walk_members():
            yield from _walk_places(text, (*at, name), here, above, large=large)
    elif start == "[":
        for _ in text.walk_elements():
            yield from _walk_places(text, (*at, ELEMENT), here, above, large=large)
    else:
        is_beside = at not in here and at not in above
        yield at, text.take_value(large=large or is_beside)


def _outline(text: JsonText, depth: int, take: Callable[[], Any]) -> Any:
    start = text.peek()
    if start == "{" and depth:
        return {name: _outline(text, depth - 1, take) for name in text.walk_members()}
    if start != "[" or not depth:
        return take()
    first: list[Any] = []
    for _ in text.walk_elements():
        if first:
            take()
        else:
            first.append(_outline(text, depth - 1, take))
    return first

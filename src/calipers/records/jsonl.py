"""Files and streams of JSON lines, read block by block."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from io import BytesIO
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any

from calipers.records.batch import Chunk, Wanted
from calipers.records.bytestream import Block, decompress, read_blocks, stream_blocks
from calipers.records.fields import BadValue, Kind, find_field
from calipers.records.json_chunk import LONG_TEXTS, JsonLinesChunk
from calipers.records.limits import Limits, get_limits
from calipers.records.rows import (
    BOM,
    find_scalar_types,
    load_row,
    read_objects,
    read_rows,
    select_telling,
)
from calipers.support.errors import DataError

_SNIFF_ROWS = 200
_QUICKLY_READ = 1 << 18  # bytes of a file
_UNIQUE = "id"  # as many categories as rows would cost more than a look at each
# The start of an array of objects; a line such as `[INFO] started` is just a bad row.
_ARRAY = re.compile(rb"\s*\[\s*(?:\{|$)")
_DEEPEST = 8  # objects within objects whose fields are known before all is read


def _is_all_strings(rows: Sequence[Mapping[str, Any]], key: str) -> bool:
    values = [row[key] for row in rows if row.get(key) is not None]
    return bool(values) and all(type(value) is str for value in values)


class JsonLines:
    """A file of JSON lines, plain or compressed."""

    def __init__(self, path: Path, name: str | None = None) -> None:
        self.path: str | None = str(path)
        self.name = name or str(path)
        self.limits: Limits = get_limits()

    def columns(self) -> list[str]:
        """Return the keys in the first rows."""
        return [*self._columns]

    @cached_property
    def shows_all_columns(self) -> bool:
        """Whether `columns` names the keys of all rows, as far as a quick look can tell."""
        if self.path is None or Path(self.path).stat().st_size > _QUICKLY_READ:
            return False
        keys = {*self._columns}
        if self._has_bad_head:
            return False
        lines = chain.from_iterable(BytesIO(block.data) for block, _ in self._blocks())
        unseen = islice(lines, self._head_lines, None)
        further = (load_row(line)[1] for line in unseen if line.strip())
        return all(not isinstance(row, BadValue) and row.keys() <= keys for row in further)

    def read_first_rows(self) -> list[Mapping[str, Any]]:
        """Return the first rows, without what is inside their lists."""
        return self._head

    def look_through(self) -> None:
        """Read it all once for the fields and types that only later rows have."""
        rows = (row for block, _ in self._blocks() for row in read_objects(block.data))
        self._head = [*self._head, *select_telling(rows)]
        self.__dict__.pop("_columns", None)

    def chunks(self, wanted: Wanted) -> Iterator[Chunk]:
        """Yield the file in blocks of whole lines."""
        scalars = find_scalar_types(self._head, wanted)
        strings = frozenset(
            name
            for name in wanted.fields
            if find_field(name).kind is Kind.TEXT
            and name not in (*LONG_TEXTS, _UNIQUE)
            and _is_all_strings(self._head, wanted.get_name(name))
        )
        for block, done in self._blocks():
            yield JsonLinesChunk(block, self.name, wanted, scalars, strings, done)

    def blocks(self) -> Iterator[tuple[Block, float]]:
        """Yield blocks of whole lines, and the share of the file behind each."""
        return self._blocks()

    def _blocks(self) -> Iterator[tuple[Block, float]]:
        assert self.path is not None
        return read_blocks(Path(self.path), self.limits)

    @cached_property
    def _head(self) -> list[Mapping[str, Any]]:
        """The first rows, parsed once for all that are told by them."""
        block, _ = next(iter(self._blocks()), (Block(b"", 0), 1.0))
        data = block.data
        if _ARRAY.match(data.removeprefix(BOM)):
            raise DataError(
                f"{self.name}: a JSON array, not JSON lines (one object per line)",
                fix="write a line per record: jq -c '.[]' FILE > records.jsonl",
            )
        first = list(islice(BytesIO(data), _SNIFF_ROWS))  # fewer, where the block ends before
        self._head_lines = len(first)
        rows = [row for _, _, row in read_rows(b"".join(first), 1)]
        good = [_outline(row) for row in rows if not isinstance(row, BadValue)]
        self._has_bad_head = len(good) < len(rows)
        return good

    @cached_property
    def _columns(self) -> dict[str, None]:
        return dict.fromkeys(chain.from_iterable(self._head))


def _outline(row: Mapping[str, Any], depth: int = _DEEPEST) -> Mapping[str, Any]:
    """Return the row without what is inside its lists, or very deep in objects, to be kept."""
    return {
        name: _outline(each, depth - 1)
        if isinstance(each, dict) and depth
        else ([] if isinstance(each, list | dict) else each)
        for name, each in row.items()
    }


class MadeLines(JsonLines):
    """JSON lines that are made of a file which holds the records in another shape."""

    @cached_property
    def shows_all_columns(self) -> bool:
        """Say no: all lines would have to be made for it."""
        return False

    def as_lines(self, wanted: Wanted) -> Iterator[str]:
        """Yield the lines themselves, for workers elsewhere."""
        del wanted
        for block, _ in self._blocks():
            yield from block.data.decode().removesuffix("\n").split("\n")


class PipedJsonLines(JsonLines):
    """JSON lines that arrive on standard input or a pipe; read once, never kept."""

    def __init__(self, stream: IO[bytes], name: str, *, is_ours: bool = False) -> None:
        self.path = None
        self.name = name
        self.limits = get_limits()
        self._ours = stream if is_ours else None  # to be closed
        self._stream = stream_blocks(decompress(stream, name), name)
        self._first = next(self._stream, None)

    def look_through(self) -> None:
        """Do nothing: a pipe can be read only once."""

    def _blocks(self) -> Iterator[tuple[Block, float]]:
        if self._first is not None:
            yield self._first, 0.0
        for block in self._stream:
            yield block, 0.0
        if self._ours is not None:
            self._ours.close()

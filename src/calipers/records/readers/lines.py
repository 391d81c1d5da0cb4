"""Files and streams of JSON lines, read block by block."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property
from io import BytesIO
from itertools import chain, islice
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import IO, Any
from weakref import finalize

from calipers.records.batch import Chunk, Wanted
from calipers.records.fields import BadValue, Kind, find_field
from calipers.records.limits import Limits, get_limits
from calipers.records.readers.bytestream import Block, decompress, read_blocks, stream_blocks
from calipers.records.readers.line_chunk import (
    LONG_TEXTS,
    JsonLinesChunk,
    read_unfamiliar_objects,
)
from calipers.records.rows import (
    BOM,
    Kinds,
    Seen,
    choose_types,
    find_kinds,
    load_row,
    read_numbered_lines,
    read_objects,
    select_informative_rows,
)
from calipers.support.errors import DataError
from calipers.support.field_paths import split_root

_SNIFF_ROWS = 200
_QUICKLY_READ = 1 << 18  # bytes of a file
_UNIQUE = "id"  # as many categories as rows would cost more than a look at each
# The start of an array of objects; a line such as `[INFO] started` is just a bad row.
_ARRAY = re.compile(rb"\s*\[\s*(?:\{|$)")
_BEGINS = {bool: b"tf", float: rb"\-0-9I", str: rb'"\[{'}  # of a value of each kind, in JSON
_KEPT_IN_MEMORY = 64 << 20
_DEEPEST = 8  # objects within objects whose fields are known before all is read


def _is_all_strings(rows: Sequence[Mapping[str, Any]], key: str) -> bool:
    values = [row[key] for row in rows if row.get(key) is not None]
    return bool(values) and all(type(value) is str for value in values)


class JsonLines:
    """A file of JSON lines, plain or compressed."""

    _shows_all_kinds = False  # whether the first rows, and some beside them, do

    def __init__(self, path: Path, name: str | None = None) -> None:
        self.path: str | None = str(path)
        self.name = name or str(path)
        self.limits: Limits = get_limits()

    def columns(self) -> list[str]:
        """Return the keys in the first rows."""
        return [*self._columns]

    @cached_property
    def shows_all_columns(self) -> bool:
        """Return True if `columns` names the keys of all rows, as far as a quick look can tell."""
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
        """Return the first rows; of lists inside them only the first element."""
        return self._head

    def look_through(self) -> None:
        """Read it all once for the fields and types that only later rows have."""
        seen = Seen()
        rows = [*self._head]
        deque(select_informative_rows(rows, seen), maxlen=0)
        for block, _ in self._blocks():
            rows += select_informative_rows(read_unfamiliar_objects(block.data, seen), seen)
        self._head, self._shows_all_kinds = rows, True
        self.__dict__.pop("_columns", None)

    def find_kinds(self, wanted: Wanted) -> Kinds:
        """Return the kinds of values in each wanted field of any scalar, in all rows."""
        kinds = find_kinds(self._head, wanted)
        if self._shows_all_kinds:  # but of what is inside objects
            inside = (name for name, theirs in wanted.scalars.items() if split_root(theirs)[1])
            wanted = replace(wanted, fields=tuple(inside))
            if not wanted.fields:
                return kinds
        for block in self._read_ahead(wanted):
            for name in _list_late(block.data, kinds, wanted):
                of_block = find_kinds(read_objects(block.data), replace(wanted, fields=(name,)))
                kinds[name] |= of_block[name]
        return kinds

    def _read_ahead(self, wanted: Wanted) -> Iterator[Block]:
        """Yield all blocks, which are then read again."""
        del wanted
        return (block for block, _ in self._blocks())

    def _read_again(self, wanted: Wanted) -> Iterator[tuple[Block, float]]:
        """Yield all blocks, and the share of the file behind each."""
        del wanted
        return self._blocks()

    def chunks(self, wanted: Wanted) -> Iterator[Chunk]:
        """Yield the file in blocks of whole lines."""
        scalars = wanted.types
        if scalars is None:
            scalars = choose_types(self.find_kinds(wanted), wanted)
        strings = frozenset(
            name
            for name in wanted.fields
            if find_field(name).kind is Kind.TEXT
            and name not in (*LONG_TEXTS, _UNIQUE)
            and _is_all_strings(self._head, wanted.get_name(name))
        )
        for block, done in self._read_again(wanted):
            yield JsonLinesChunk(block, self.name, wanted, scalars, strings, done)

    def blocks(self) -> Iterator[tuple[Block, float]]:
        """Yield blocks of whole lines, and the share of the file behind each."""
        return self._blocks()

    def _blocks(self) -> Iterator[tuple[Block, float]]:
        assert self.path is not None
        return read_blocks(Path(self.path), self.limits)

    @cached_property
    def _head(self) -> list[Mapping[str, Any]]:
        """The first rows, parsed once."""
        block, _ = next(iter(self._blocks()), (Block(b"", 0), 1.0))
        data = block.data
        if _ARRAY.match(data.removeprefix(BOM)):
            raise DataError(
                f"{self.name}: a JSON array, not JSON lines (one object per line)",
                fix="write a line per record: jq -c '.[]' FILE > records.jsonl",
            )
        first = list(islice(BytesIO(data), _SNIFF_ROWS))  # fewer, where the block ends before
        self._head_lines = len(first)
        rows = [row for _, _, row in read_numbered_lines(b"".join(first), 1)]
        good = [_shorten_lists(row) for row in rows if not isinstance(row, BadValue)]
        self._has_bad_head = len(good) < len(rows)
        return good

    @cached_property
    def _columns(self) -> dict[str, None]:
        return dict.fromkeys(chain.from_iterable(self._head))


def _shorten_lists(value: Any, depth: int = _DEEPEST + 1) -> Any:
    """Return a row, of whose lists only the first elements are kept, and nothing very deep."""
    if isinstance(value, dict) and depth:
        return {name: _shorten_lists(part, depth - 1) for name, part in value.items()}
    if isinstance(value, list | dict):
        return [_shorten_lists(part, depth - 1) for part in value[:1]] if depth and value else []
    return value


def _list_late(data: bytes, kinds: Kinds, wanted: Wanted) -> Iterator[str]:
    """Yield the fields that may hold a value of another kind in these lines than known so far.

    A look at the bytes behind each key is enough, and a tenth of the work of reading them.
    """
    for name, theirs in wanted.scalars.items():
        held = kinds[name]
        is_settled = str in held or len(held) > 1 or (float in held and name in wanted.numbers)
        if is_settled or not any(key in data for key in _list_keys(theirs)):
            continue
        if _match_others(theirs, frozenset(held)).search(data):
            yield name


def _list_keys(theirs: str) -> list[bytes]:
    """Return how the name, or the end of its path, may be written as a key."""
    names = dict.fromkeys((theirs, theirs.rpartition(".")[2]))
    texts = (json.dumps(name, ensure_ascii=plain) for name in names for plain in (True, False))
    return list(dict.fromkeys(text.encode(errors="surrogatepass") for text in texts))


@cache
def _match_others(theirs: str, held: frozenset[type]) -> re.Pattern[bytes]:
    """Return the pattern of a key with a value that is neither null nor of these kinds."""
    begins = b"nN" + b"".join(_BEGINS[kind] for kind in held)
    wide = rb"|-?\d{16}" if float in held else b""
    keys = b"|".join(map(re.escape, _list_keys(theirs)))
    return re.compile(rb"(?:%b)\s*:\s*(?:[^\s%b]%b)" % (keys, begins, wide))


class _KeptBlocks:
    """Blocks that were read once, kept in memory, or in a file where they are many."""

    def __init__(self, blocks: Iterable[tuple[Block, float]]) -> None:
        self._coming = blocks
        self._file = SpooledTemporaryFile(_KEPT_IN_MEMORY)  # noqa: SIM115
        finalize(self, self._file.close)
        self._blocks: list[tuple[int, int, float]] = []

    def read_ahead(self) -> Iterator[Block]:
        """Yield and keep each block."""
        for block, done in self._coming:
            self._file.write(block.data)
            self._blocks.append((len(block.data), block.first, done))
            yield block

    def read_again(self) -> Iterator[tuple[Block, float]]:
        """Yield the blocks that were kept."""
        place = 0
        for size, first, done in self._blocks:
            self._file.seek(place)
            yield Block(self._file.read(size), first), done
            place += size


class ConvertedLines(JsonLines):
    """JSON lines that are made of a file which holds the records in another shape."""

    _kept: tuple[Wanted, _KeptBlocks] | None = None  # made once, read twice

    def _read_ahead(self, wanted: Wanted) -> Iterator[Block]:
        kept = _KeptBlocks(self._blocks())
        self._kept = wanted, kept
        return kept.read_ahead()

    def _read_again(self, wanted: Wanted) -> Iterator[tuple[Block, float]]:
        kept, self._kept = self._kept, None
        if kept is None or replace(kept[0], types=wanted.types) != wanted:
            return self._blocks()
        return kept[1].read_again()

    @cached_property
    def shows_all_columns(self) -> bool:
        """Return False: it would take all lines to be made."""
        return False

    def as_lines(self, wanted: Wanted) -> Iterator[str]:
        """Yield the lines themselves, for workers elsewhere."""
        del wanted
        for block, _ in self._blocks():
            yield from block.data.decode().removesuffix("\n").split("\n")


class PipedLines(ConvertedLines):
    """JSON lines that arrive on standard input or a pipe; kept until all types are known."""

    def __init__(self, stream: IO[bytes], name: str, *, is_ours: bool = False) -> None:
        self.path = None
        self.name = name
        self.limits = get_limits()
        self._ours = stream if is_ours else None  # to be closed
        self._stream = stream_blocks(decompress(stream, name), name)
        self._first = next(self._stream, None)

    def look_through(self) -> None:
        """Do nothing: a pipe can be read only once."""

    def _read_ahead(self, wanted: Wanted) -> Iterator[Block]:
        if self._kept is None:
            return super()._read_ahead(wanted)
        return (block for block, _ in self._kept[1].read_again())

    def _read_again(self, wanted: Wanted) -> Iterator[tuple[Block, float]]:
        del wanted  # the lines hold all fields
        return self._blocks() if self._kept is None else self._kept[1].read_again()

    def _blocks(self) -> Iterator[tuple[Block, float]]:
        if self._first is not None:
            yield self._first, 0.0
        for block in self._stream:
            yield block, 0.0
        if self._ours is not None:
            self._ours.close()

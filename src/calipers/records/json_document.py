"""A file that is one JSON object: a record, or a wrapper around the list of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from calipers.records.bytestream import Block, decompress, read_document
from calipers.records.fields import FIELDS, BadValue, dump_json
from calipers.records.jsonl import MadeLines, load_row
from calipers.records.limits import BLOCK_BYTES
from calipers.support.errors import DataError

# What a wrapper may have of a record's fields: it says whose records it holds.
_ABOUT_ALL = frozenset(("id", "model", "tier", "run", "category", "tags", "error", "usage"))
_USUAL = ("records", "results", "samples", "examples", "rows", "data", "items", "test_cases")


def find_list(document: Any) -> str | None:
    """Return the key of the list of records in a wrapper; None for a record, or if unclear."""
    if not isinstance(document, Mapping) or (FIELDS.keys() - _ABOUT_ALL) & document.keys():
        return None
    lists = [name for name, each in document.items() if _is_list_of_objects(each)]
    usual = [name for name in _USUAL if name in lists]
    return lists[0] if len(lists) == 1 else usual[0] if len(usual) == 1 else None


def _is_list_of_objects(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], Mapping)


class WrappedRecords(MadeLines):
    """The records in a list inside one JSON object, which is held in memory."""

    def __init__(self, path: Path, key: str, others: list[str]) -> None:
        super().__init__(path)
        self._key = key
        left = f"; left out: {', '.join(others)}" if others else ""
        self.notice = f"{path}: one JSON object, the records are its list {key!r}{left}"

    def _blocks(self) -> Iterator[tuple[Block, float]]:
        records = self._read_records()
        lines: list[bytes] = []
        first = size = 0
        for place, record in enumerate(records, start=1):
            lines.append(f"{dump_json(record)}\n".encode("utf-8", "replace"))
            size += len(lines[-1])
            if size > BLOCK_BYTES or place == len(records):
                yield Block(b"".join(lines), first), place / len(records)
                first, size, lines = place, 0, []

    def _read_records(self) -> list[Any]:
        assert self.path is not None
        with Path(self.path).open("rb") as file:
            data = read_document(decompress(file, self.name, self.limits), self.name, self.limits)
        _, document = load_row(data.removeprefix(b"\xef\xbb\xbf").strip())
        if isinstance(document, BadValue) or not isinstance(document.get(self._key), list):
            problem = document if isinstance(document, BadValue) else f"no list {self._key!r}"
            raise DataError(f"{self.name}: {problem}", fix="check that the file is whole")
        return list(document[self._key])

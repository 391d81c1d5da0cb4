"""A JSON array of records: each as a line of its own, in the very spelling that it has."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from calipers.errors import DataError
from calipers.sources.bytestream import UNREADABLE, Block, HeldBlock, cut_short, decompressed
from calipers.sources.jsonl import MadeLines

_BATCH = 10_000
_START = re.compile(rb"(?:\xef\xbb\xbf)?\s*\[\s*(?:\{|\]|$)")
_HEAD = 4096
_SPACE = re.compile(r"[ \t\r\n]*")
_LINE_ENDS = str.maketrans("\r\n", "  ")  # inside a JSON text they stand between its parts only


def is_array(path: Path) -> bool:
    """Say whether a file begins as an array of objects does."""
    try:
        with path.open("rb") as file:
            return _START.match(decompressed(file).read(_HEAD)) is not None
    except UNREADABLE:
        return False  # whoever reads it as JSON lines says what is wrong


class JsonArray(MadeLines):
    """The array in a `.json` file, which is held in memory; rows are its elements."""

    def _blocks(self) -> Iterator[tuple[Block, float]]:
        assert self.path is not None
        try:
            with Path(self.path).open("rb") as file:
                data = decompressed(file).read()
        except UNREADABLE as error:
            raise cut_short(self.name, error) from error
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise DataError(
                f"{self.name}: invalid UTF-8 at byte {error.start + 1}", fix="write it in UTF-8"
            ) from error
        elements = self._elements(text)
        first = 0
        while some := list(islice(elements, _BATCH)):
            lines = "".join(f"{line}\n" for line, _ in some)
            yield HeldBlock(lines.encode(), first), some[-1][1] / len(text)
            first += len(some)

    def _elements(self, text: str) -> Iterator[tuple[str, int]]:
        """Each element as it is written, and where it ends."""
        decode = json.JSONDecoder().raw_decode
        place = _after_space(text, _after_space(text, 0) + 1)
        more = text[place : place + 1] != "]"
        while more:
            try:
                _, end = decode(text, place)
            except (ValueError, RecursionError) as error:
                raise self._broken(text, place, str(error)) from error
            yield text[place:end].translate(_LINE_ENDS), end
            place = _after_space(text, end)
            more = text[place : place + 1] == ","
            if more:
                place = _after_space(text, place + 1)
            elif text[place : place + 1] != "]":
                raise self._broken(text, place, "no comma between two elements, or no end")
        if text[_after_space(text, place + 1) :]:
            raise self._broken(text, place + 1, "more behind the end of the array")

    def _broken(self, text: str, place: int, problem: str) -> DataError:
        line = text.count("\n", 0, place) + 1
        return DataError(
            f"{self.name}:{line}: not a JSON array: {problem}",
            fix="check that the file is whole; or write a line per record",
        )


def _after_space(text: str, place: int) -> int:
    found = _SPACE.match(text, place)
    return place if found is None else found.end()

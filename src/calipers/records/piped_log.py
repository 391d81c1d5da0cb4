"""A log of another tool on standard input or a pipe: kept in a file while it is read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from shutil import copyfileobj, rmtree
from tempfile import mkdtemp
from typing import IO
from weakref import finalize

from calipers.records.bytestream import UNREADABLE, Block, cut_short, decompress
from calipers.records.logs import Log, LogReader
from calipers.support.errors import DataError

_LOOKED_AT = 1 << 10
_PIECE = 1 << 20
_BOM = b"\xef\xbb\xbf"
_BINARY = {b"PAR1": ".parquet", b"PK": ".eval"}


class PipedLog(Log):
    """Reads a stream to its end, then its records as those of a file."""

    def __init__(self, stream: IO[bytes], name: str, of: LogReader) -> None:
        folder = mkdtemp(prefix="calipers-")
        finalize(self, rmtree, folder, ignore_errors=True)
        try:
            path = _keep(decompress(stream, name), Path(folder))
        except UNREADABLE as error:
            raise cut_short(name, error) from error
        super().__init__(path, of)
        self.name = name

    def _blocks(self) -> Iterator[tuple[Block, float]]:
        try:
            yield from super()._blocks()
        except DataError as error:
            known = error.message.replace(str(self.path), self.name)
            raise DataError(known, fix=error.fix) from error


def _keep(stream: IO[bytes], folder: Path) -> Path:
    """Write a stream to a file, and return its path; the suffix says what is in it."""
    head = stream.read(_LOOKED_AT)
    path = folder / f"stdin{_find_suffix(head)}"
    with path.open("wb") as file:
        file.write(head)
        copyfileobj(stream, file, _PIECE)
    return path


def _find_suffix(head: bytes) -> str:
    binary = next((suffix for magic, suffix in _BINARY.items() if head.startswith(magic)), None)
    is_json = head.removeprefix(_BOM).lstrip().startswith((b"{", b"["))
    return binary or (".json" if is_json else ".csv")

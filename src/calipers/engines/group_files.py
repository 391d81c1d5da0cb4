"""Rows of many groups in temporary files: all rows of a group are in the files of one share.

Rows come in any order. Each share of the groups is read at once, so that all that is to be known of
a group is known from one visit; while more rows are read, the last ones are written.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import polars as pl

from calipers.engines import spilling
from calipers.engines.group_order import combine_rows
from calipers.metrics.declare.declaration import GROUP
from calipers.support.late import np

_SHARES = 32
_LARGEST = 4  # times the size of a part: rows of a larger share are not read at once


class GroupFiles:
    """Rows that are written as they come, a file per share of the groups, and read once."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="calipers-")
        self._files: list[list[Path]] = [[] for _ in range(_SHARES)]
        self._writer = ThreadPoolExecutor(1)
        self._writing: Future[None] | None = None

    def add(self, tables: Sequence[pl.DataFrame]) -> None:
        """Write rows in the background, once those before are written."""
        self._wait()
        self._writing = self._writer.submit(self._write, list(tables))

    def _wait(self) -> None:
        if self._writing is not None:
            self._writing.result()
            self._writing = None

    def _write(self, tables: list[pl.DataFrame]) -> None:
        rows = combine_rows(tables)
        tables.clear()
        shares = (rows[GROUP].to_numpy() % _SHARES).astype(np.uint8)
        rows = rows[pl.Series(np.argsort(shares, kind="stable"), dtype=pl.UInt32)]
        counts = np.bincount(shares, minlength=_SHARES)
        start = 0
        for share, count in enumerate(counts.tolist()):
            if count:
                file = Path(self._folder.name, f"{share:02}-{len(self._files[share]):06}.arrow")
                rows[start : start + count].write_ipc(file, record_batch_size=count)
                self._files[share].append(file)
            start += count

    @property
    def are_groups_small(self) -> bool:
        """Whether the rows of each share fit in memory."""
        self._wait()
        return max(map(_sum_bytes, self._files)) <= _LARGEST * spilling.SPILL_BYTES

    def parts(self) -> Iterator[pl.DataFrame]:
        """Yield rows in one piece and in no order, all of a group together."""
        self._wait()
        return _read_files(self._files)

    def cut_parts(self) -> Iterator[pl.DataFrame]:
        """Yield rows in one piece and in no order, wherever those of a group are."""
        self._wait()
        return _read_files([file] for files in self._files for file in files)

    def remove(self) -> None:
        """Remove the files."""
        self._writer.shutdown()
        self._folder.cleanup()


def _read_files(together: Iterable[list[Path]]) -> Iterator[pl.DataFrame]:
    """Yield the rows of as many files as make a part; some belong together."""
    files: list[Path] = []
    for more in together:
        if files and _sum_bytes([*files, *more]) > spilling.SPILL_BYTES:
            yield combine_rows(map(pl.read_ipc, files))
            files = []
        files += more
    if files:
        yield combine_rows(map(pl.read_ipc, files))


def _sum_bytes(files: Iterable[Path]) -> int:
    return sum(file.stat().st_size for file in files)

"""A folder of Parquet parts: the parts may differ in columns and types, bad rows name the part."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property, partial
from itertools import accumulate
from pathlib import Path

import polars as pl

from calipers.records.batch import BadRow, Batch, Chunk, Decoded, Wanted
from calipers.records.tables import Parquet, SourceTable


def list_parts(folder: Path) -> list[Path]:
    """Return the Parquet files in a folder, but not hidden ones: `_delta_log`, `.staging`."""
    return sorted(
        path
        for path in folder.rglob("*.parquet")
        if path.is_file()
        and not any(
            name.startswith((".", "_")) and "=" not in name
            for name in path.relative_to(folder).parts
        )
    )


class ParquetFolder:
    """Parts of one schema are read as one table; `key=value` folders become columns."""

    path: str | None = None
    knows_columns = True  # no row has others than `columns` says

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        alike: dict[tuple[object, ...], list[Path]] = {}
        for part in list_parts(path):
            alike.setdefault(tuple(Parquet(part).schema().items()), []).append(part)
        self._tables = [_AlikeParts(parts, self.name) for parts in alike.values()]

    @property
    def is_uniform(self) -> bool:
        """Whether all parts have the same columns and types."""
        return len(self._tables) == 1

    def columns(self) -> list[str]:
        """Return the columns of all parts."""
        return list(dict.fromkeys(name for table in self._tables for name in table.columns()))

    def schema(self) -> pl.Schema:
        """Return the columns of all parts with their types, by the first part that has each."""
        types = (each for table in reversed(self._tables) for each in table.schema().items())
        return pl.Schema(dict(types))

    def chunks(self, wanted: Wanted) -> Iterator[Chunk]:
        """Yield all parts in slices of rows."""
        for number, table in enumerate(self._tables):
            for chunk in table.chunks(wanted):
                decode = partial(table.locate, chunk)
                yield Decoded(decode, (number + chunk.done) / len(self._tables))


class _AlikeParts(SourceTable):
    """Parts of the same columns and types, one behind the other."""

    def __init__(self, parts: list[Path], name: str) -> None:
        self._parts = parts
        super().__init__(pl.scan_parquet(parts, glob=False, hive_partitioning=True), name)

    def _list_files(self) -> list[Path]:
        return self._parts

    def locate(self, chunk: Decoded, *, thorough: bool = False) -> Batch:
        """Return the batch, its bad rows with the part they are in and their row there."""
        batch = chunk.decode(thorough=thorough)
        return replace(batch, bad=tuple(map(self._find_part, batch.bad)))

    def _find_part(self, bad: BadRow) -> BadRow:
        number = bisect_left(self._ends, bad.row)
        before = self._ends[number - 1] if number else 0
        return replace(bad, source=str(self._parts[number]), row=bad.row - before)

    @cached_property
    def _ends(self) -> list[int]:
        """The row with which each part ends."""
        return list(accumulate(Parquet(part).height() for part in self._parts))

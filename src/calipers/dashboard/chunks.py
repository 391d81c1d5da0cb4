"""Chunks of a source, not read as `score` reads them: row by row, or only their beginning."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from calipers.records.json_chunk import JsonLinesChunk
from calipers.records.sources import Batch, Chunk, UnusualRows
from calipers.support.quick_dataclasses import dataclass

FEW = 200  # rows: more than a page shows
_MOST_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class _OfChunk:
    chunk: Chunk

    @property
    def done(self) -> float:
        """The share of the source behind the chunk."""
        return self.chunk.done


@dataclass(frozen=True, slots=True)
class Exact(_OfChunk):
    """A chunk read row by row; the fast reader would keep only what metrics read of a trace."""

    def lazy(self) -> pl.LazyFrame:
        """Raise an error: these rows are only read one by one."""
        raise UnusualRows

    def is_trusted(self, checks: pl.DataFrame) -> bool:
        """Return False: nothing was read by the fast reader."""
        del checks
        return False

    def exact(self) -> Batch:
        """Return the rows."""
        return self.chunk.exact()


@dataclass(frozen=True, slots=True)
class Beginning(_OfChunk):
    """The first rows of a chunk."""

    def lazy(self) -> pl.LazyFrame:
        """Return the rows as the chunk reads them at once."""
        return self.chunk.lazy().head(FEW)

    def is_trusted(self, checks: pl.DataFrame) -> bool:
        """Say whether they are what was written."""
        return self.chunk.is_trusted(checks)

    def exact(self) -> Batch:
        """Return the rows, read one by one."""
        found = self.chunk.exact()
        return replace(found, frame=found.frame.head(FEW))


def cut_chunk(chunk: Chunk) -> Chunk:
    """Return the chunk's first rows; of JSON lines without reading the rest."""
    if isinstance(chunk, Exact):
        return Exact(cut_chunk(chunk.chunk))
    if not isinstance(chunk, JsonLinesChunk):
        return Beginning(chunk)
    lines = chunk.block.data[:_MOST_BYTES].split(b"\n")[:-1][:FEW]
    if not lines:  # a line longer than that
        return Beginning(chunk)
    return replace(chunk, block=replace(chunk.block, data=b"\n".join(lines) + b"\n"))

"""Full-text search without waiting: it resumes where it stopped.

Parts are searched in order, as many as fit into some time, or until there are enough hits. What
was found stays; the next request goes on from there.
"""

from __future__ import annotations

from threading import Lock
from time import monotonic

import polars as pl

from calipers.dashboard.index import SEARCHED, Index


class Search:
    """The rows whose texts contain some text, as far as they are known."""

    def __init__(self, index: Index, text: str, among: pl.Series | None) -> None:
        self._index = index
        self._text = text
        self._pattern = f"(?i){pl.escape_regex(text)}"
        self._among = among
        self._found: list[pl.Series] = []
        self._lock = Lock()
        self.hits = 0
        self.parts_done = 0

    @property
    def done(self) -> bool:
        """Say whether every part was searched."""
        return self.parts_done == len(self._index.summary.parts)

    @property
    def rows_done(self) -> int:
        """How many rows were searched."""
        return sum(self._index.summary.parts[: self.parts_done])

    def go_on(self, *, seconds: float, hits: int | None = None) -> None:
        """Search on until the time is up or `hits` rows are found."""
        until = monotonic() + seconds
        with self._lock:
            while not self.done and (hits is None or self.hits < hits):
                self._search_part(self.parts_done)
                self.parts_done += 1
                if monotonic() > until:
                    break

    def list_rows(self) -> pl.Series:
        """Return the numbers of the rows found, in their order."""
        with self._lock:
            return pl.concat([pl.Series([], dtype=pl.UInt32), *self._found])

    def _search_part(self, part: int) -> None:
        start = self._index.list_part_starts()[part]
        count = self._index.summary.parts[part]
        among = None if self._among is None else self._among.slice(start, count)
        if among is not None and not among.any():
            return
        names = [name for name in SEARCHED if name in self._index.summary.fields]
        texts = pl.scan_ipc(self._index.record_files[part]).select(pl.col(names).cast(pl.String))
        contains = pl.any_horizontal(pl.all().str.contains(self._pattern).fill_null(value=False))
        found = texts.select(contains.alias("hit")).collect().to_series()
        if among is not None:
            found &= among
        rows = found.arg_true()
        self.hits += len(rows)
        self._found.append((rows + start).cast(pl.UInt32))

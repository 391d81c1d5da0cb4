"""Rows that were read once, grouped by other fields afterwards.

A group's text and a task's number are those that reading by these fields would have given, so that
totals are the same to the last bit.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

import polars as pl

from calipers.engines.codes import hash_in_group, name_key
from calipers.engines.plan import CLUSTER_TEXT
from calipers.engines.store import GroupedRows, Store
from calipers.metrics.declare.declaration import CLUSTER, GROUP, TASK

_ID = "id"
_KEPT_GROUP = "_kept_group"  # of the store, in whose place the new groups stand


class Regrouped(GroupedRows):
    """The rows of a store by some of the keys that it has, or all of them in one group."""

    def __init__(
        self, store: Store, by: Sequence[str], *, kept_by: tuple[str, ...], cluster: str | None
    ) -> None:
        super().__init__()
        self.rows = store.rows
        self._store = store
        self._by = tuple(by)
        self._keys = [_KEPT_GROUP if (name,) == kept_by else name_key(name) for name in by]
        self._hashed = {TASK: _ID} | ({} if cluster is None else {CLUSTER: CLUSTER_TEXT})
        self._numbers = self._number_groups()

    def _number_groups(self) -> pl.DataFrame:
        """Number the combinations of keys in the order in which they first come."""
        if not self._keys:
            return pl.DataFrame([self.codes.encode(pl.Series(GROUP, ["{}"]))])
        parts = (part.unique(maintain_order=True) for part in self._read(self._keys))
        found = pl.concat(parts).unique(maintain_order=True)
        fields = (
            (self._store.codes if key == _KEPT_GROUP else self._store.texts[key])
            .decode(found[key])
            .fill_null(json.dumps({name: None}, ensure_ascii=False, separators=(",", ":")))
            .str.strip_prefix("{")
            .str.strip_suffix("}")
            for name, key in zip(self._by, self._keys, strict=True)
        )
        joined = pl.concat_str(pl.all(), separator=",")
        text = pl.concat_str(pl.lit("{"), joined, pl.lit("}")).alias(GROUP)
        texts = pl.DataFrame(fields).select(text).to_series()
        return found.with_columns(self.codes.encode(texts))

    @property
    def is_held(self) -> bool:
        """Whether all rows are in memory, as one part."""
        return self._store.is_held

    def parts(self, columns: Sequence[str] | None = None) -> Iterator[pl.DataFrame]:
        """Yield each part of the store, in the order of its groups by these keys."""
        wanted = list(columns or self._store.columns)
        for part in self._regroup([*wanted, *({GROUP} - {*wanted})]):
            yield part.sort(GROUP, maintain_order=True).select(wanted)

    def list_groups(self) -> Iterator[pl.Series]:
        """Yield the groups of each part, by their numbers, in the order of the store's own rows."""
        return (part[GROUP] for part in self._regroup([GROUP]))

    def _regroup(self, wanted: list[str]) -> Iterator[pl.DataFrame]:
        """Yield each part of the store with its groups, tasks and clusters by these keys."""
        own = {name for name in wanted if name == GROUP or name in self._hashed}
        others = [name for name in wanted if name not in own]
        if self._store.is_held:
            [part] = self._store.parts(others or [GROUP])
            yield part.with_columns(self._held.select(own)).select(wanted)
            return
        needed = dict.fromkeys((*self._keys, *self._hashed.values(), *others))
        for part in self._read(needed):
            yield part.with_columns(self._group(part).select(own)).select(wanted)

    @cached_property
    def _held(self) -> pl.DataFrame:
        [part] = self._read([*self._keys, *self._hashed.values()])
        return self._group(part)

    def _read(self, columns: Iterable[str]) -> Iterator[pl.DataFrame]:
        """Yield these columns of each part, among them the store's own groups."""
        names = [GROUP if name == _KEPT_GROUP else name for name in columns]
        for part in self._store.parts(names):
            yield part.rename({GROUP: _KEPT_GROUP}, strict=False)

    def _group(self, part: pl.DataFrame) -> pl.DataFrame:
        """Return the group, the task and the cluster of each row."""
        numbers = self._list_numbers(part)
        named = part.with_columns(self.codes.decode(numbers))
        hashes = (hash_in_group(text).alias(name) for name, text in self._hashed.items())
        return named.select(*hashes).with_columns(numbers)

    def _list_numbers(self, part: pl.DataFrame) -> pl.Series:
        """Return the group of each row, by its number."""
        if not self._keys:
            return pl.zeros(part.height, pl.Int32, eager=True).alias(GROUP)
        numbered = part.select(self._keys).join(
            self._numbers, on=self._keys, how="left", nulls_equal=True, maintain_order="left"
        )
        return numbered[GROUP]

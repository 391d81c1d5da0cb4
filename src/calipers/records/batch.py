"""The output of every reader: columns of checked records, and the rows that could not be read."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import polars as pl

from calipers.records.fields import Field, Kind, find_field
from calipers.records.paths import find_column
from calipers.support.errors import DataError
from calipers.support.quick_dataclasses import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class Wanted:
    """The fields to read, and what the data calls those that it names differently."""

    fields: tuple[str, ...]
    map: Mapping[str, str] = field(default_factory=dict)
    as_is: tuple[str, ...] = ()  # nested fields that the caller parses itself
    keys: tuple[str, ...] = ()  # fields that rows are grouped by
    numbers: frozenset[str] = frozenset()  # fields of the user's own that are measured

    def get_name(self, name: str) -> str:
        """Return the data's name of a field, or of a path that begins in one."""
        root, dot, inside = name.partition(".")
        return self.map.get(name, f"{self.map.get(root, root)}{dot}{inside}")

    def columns(self, there: Collection[str], beside: Iterable[str] = ()) -> list[str]:
        """Return which of the data's columns hold the wanted fields, or names beside them."""
        theirs = (*map(self.get_name, self.fields), *beside)
        found = (find_column(name, there) for name in theirs)
        return list(dict.fromkeys(name for name in found if name is not None))


@dataclass(frozen=True, slots=True, kw_only=True)
class BadRow:
    """A row that was left out, its place, and the reason."""

    source: str
    row: int
    problem: str
    content: str

    def make_error(self) -> DataError:
        """Return it as an error, to stop at the first."""
        return DataError(
            f"{self.source}:{self.row}: {self.problem}",
            fix="fix the row, read another field (--map FIELD=NAME), "
            "or leave bad rows out (--on-bad skip)",
        )


def note_bad_rows(count: int) -> str:
    """Return the notice that so many bad rows were left out."""
    return f"{count:,} bad row was left out" if count == 1 else f"{count:,} bad rows were left out"


@dataclass(frozen=True, slots=True)
class Batch:
    """Some rows of a source: a column per wanted field, in the record's types."""

    frame: pl.DataFrame
    bad: tuple[BadRow, ...] = ()
    numbers: Sequence[int] = ()  # where each row of the frame stands in its source


class Chunk(Protocol):
    """A piece of a source, cheap to pass on; the thread that reads it does the work.

    `lazy` is the fast reader and may be wrong about unusual rows: `is_trusted` is asked with the
    check columns that `lazy` gave. If it says no, or if the fast reader or a computation on its
    result fails, `exact` is used.
    """

    @property
    def done(self) -> float:
        """The share of the source that has been read after this chunk."""
        ...

    def lazy(self) -> pl.LazyFrame:
        """Return the wanted fields, and columns named `_check_…`."""
        ...

    def is_trusted(self, checks: pl.DataFrame) -> bool:
        """Say whether `lazy` has read the rows correctly."""
        ...

    def exact(self) -> Batch:
        """Return the rows read one by one, and those that cannot be read."""
        ...


CHECK = "_check_"


@dataclass(frozen=True, slots=True)
class Decoded:
    """A chunk whose rows are already read; a `thorough` decoding looks into nested fields."""

    decode: Callable[..., Batch]
    done: float

    def lazy(self) -> pl.LazyFrame:
        """Return the rows, unless some are bad."""
        batch = self.decode()
        if batch.bad:
            raise UnusualRows
        return batch.frame.lazy()

    def is_trusted(self, checks: pl.DataFrame) -> bool:
        """Say whether all rows are good; nested fields are checked by what reads them."""
        del checks
        return True

    def exact(self) -> Batch:
        """Return the rows and the bad ones among them."""
        return self.decode(thorough=True)


class UnusualRows(Exception):  # noqa: N818 (not an error: the exact way is taken instead)
    """The fast reader cannot read these rows."""


@runtime_checkable
class Source(Protocol):
    """Anything that records come from."""

    name: str
    path: str | None  # the local file to hash, if it is one

    def columns(self) -> list[str]:
        """Return the names the data has, as far as known before reading it all."""
        ...

    def chunks(self, wanted: Wanted) -> Iterator[Chunk]:
        """Yield the source in pieces, in order."""
        ...


def find_type(name: str, scalars: Mapping[str, pl.DataType]) -> pl.DataType:
    """Return the type of a column: fixed by the record, or observed for fields of any scalar."""
    declared: Field = find_field(name)
    if declared.kind is Kind.SCALAR:
        return scalars.get(name, pl.String())
    return declared.dtype

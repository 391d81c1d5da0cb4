"""What is asked of a reader, and the chunks and batches of checked rows that it returns.

A `Source` yields a `Chunk` for each piece of its data; a chunk becomes a `Batch`, columns of
checked records beside the rows that could not be read. Columns are found by name or by a path into
a nested column, such as `choices[0].message.content`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import polars as pl
from polars.selectors import by_name

from calipers.records.fields import Field, Kind, find_field
from calipers.support.errors import DataError
from calipers.support.field_paths import follow, split_path, split_root

if TYPE_CHECKING:
    from collections.abc import Callable


def select_column(name: str) -> pl.Expr:
    """Return the column of this very name: Polars reads `*` and `^…$` as patterns of names.

    >>> pl.DataFrame({"*": [1], "^.$": [2]}).select(select_column("*"), select_column("^.$")).row(0)
    (1, 2)
    """
    is_pattern = name == "*" or (name.startswith("^") and name.endswith("$"))
    return by_name(name).as_expr() if is_pattern else pl.col(name)


def find_column(name: str, columns: Collection[str]) -> str | None:
    """Return the column that holds a name, or the beginning of its path; None without one."""
    if name in columns:
        return name
    root, inside = split_root(name)
    return root if inside and root in columns else None


def read_struct(name: str, dtype: Any) -> tuple[str, Any, pl.Expr]:
    """Return the column that a path of names begins in, the type to read, and the value in it."""
    root, *parts = name.split(".")
    nested = reduce(lambda inner, part: pl.Struct({part: inner}), reversed(parts), dtype)
    value = reduce(lambda outer, part: outer.struct.field(part), parts, pl.col(root))
    return root, nested, value


def merge_structs(one: Any, other: Any) -> Any:
    """Return the type that holds the fields of two, where both are wanted of one object."""
    if not (isinstance(one, pl.Struct) and isinstance(other, pl.Struct)):
        return other
    merged = {part.name: part.dtype for part in one.fields}
    for part in other.fields:
        merged[part.name] = merge_structs(merged.get(part.name, part.dtype), part.dtype)
    return pl.Struct(merged)


def select_path(frame: pl.DataFrame, name: str) -> pl.Series | None:
    """Return the values at a path in a table; None if no column begins it."""
    root, *steps = split_path(name)
    if not steps or root not in frame.columns:
        return None
    column = frame[str(root)]
    while steps and column.dtype != pl.String:
        inner = _select_inside(column, steps.pop(0))
        if inner is None:
            return make_nulls(name, frame.height)
        column = inner
    if steps:
        return pl.Series(name, _unify([follow(e, tuple(steps)) for e in column]), strict=False)
    return column.alias(name)


def _select_inside(column: pl.Series, step: str | int) -> pl.Series | None:
    """Return the part of objects, or the element of lists, in a column; None if it has none."""
    dtype = column.dtype
    if isinstance(step, str):
        has_it = isinstance(dtype, pl.Struct) and step in {field.name for field in dtype.fields}
        return column.struct.field(step) if has_it else None
    if isinstance(dtype, pl.Array):
        column = column.arr.to_list()
    is_list = isinstance(dtype, pl.Array | pl.List)
    return column.list.get(step, null_on_oob=True) if is_list else None


def _unify(values: list[Any]) -> list[Any]:
    """Return values of one type: numbers and booleans unchanged, anything mixed as text."""
    kinds = {_classify_value(value) for value in values if value is not None}
    if len(kinds) <= 1 and str not in kinds:
        return values
    return [
        value if value is None or isinstance(value, str) else json.dumps(value) for value in values
    ]


def _classify_value(value: Any) -> type:
    if isinstance(value, bool):
        return bool
    return float if isinstance(value, int | float) else str


def make_nulls(name: str, height: int, dtype: pl.DataType | None = None) -> pl.Series:
    """Return a column of nulls."""
    return pl.Series(name, [None], dtype=dtype).new_from_index(0, height)


@dataclass(frozen=True, slots=True)
class Wanted:
    """The fields to read, and what the data calls those that it names differently."""

    fields: tuple[str, ...]
    map: Mapping[str, str] = field(default_factory=dict)
    as_is: tuple[str, ...] = ()  # nested fields that the caller parses itself
    keys: tuple[str, ...] = ()  # fields that rows are grouped by
    numbers: frozenset[str] = frozenset()  # fields of the user's own that are measured
    types: Mapping[str, pl.DataType] | None = None  # of fields of any scalar, once settled
    nulls_outside: bool = False  # a number outside its range is a null, and the row stays

    def get_name(self, name: str) -> str:
        """Return the data's name of a field, or of a path that begins in one."""
        root, inside = split_root(name)
        return self.map.get(name, f"{self.map.get(root, root)}{inside}")

    @property
    def scalars(self) -> dict[str, str]:
        """The fields that are typed as the data has them, and the data's names of these."""
        kinds = ((name, find_field(name).kind) for name in self.fields)
        return {name: self.get_name(name) for name, kind in kinds if kind is Kind.SCALAR}

    def columns(self, there: Collection[str], beside: Iterable[str] = ()) -> list[str]:
        """Return which of the data's columns hold the wanted fields, or names beside them."""
        theirs = (*map(self.get_name, self.fields), *beside)
        names = (find_column(name, there) for name in theirs)
        return list(dict.fromkeys(name for name in names if name is not None))


@dataclass(frozen=True, slots=True, kw_only=True)
class BadRow:
    """A row that was left out, or a value of it that was made null; its place, and the reason."""

    source: str
    row: int
    problem: str
    content: str
    stays: bool = False  # the row does: only a value outside its range became null

    def to_dict(self) -> dict[str, Any]:
        """Return what is written of the row."""
        found = {"source": self.source, "row": self.row}
        found |= {"problem": self.problem, "content": self.content}
        return found | ({"stays": True} if self.stays else {})

    def make_error(self) -> DataError:
        """Return it as an error, to stop at the first."""
        return DataError(
            f"{self.source}:{self.row}: {self.problem}",
            fix="fix the row, read another field (--map FIELD=NAME), "
            "or leave bad rows out (--on-bad skip)",
        )


def count_bad(rows: Iterable[BadRow]) -> tuple[int, int]:
    """Return how many rows were left out, and how many values made null in rows that stay."""
    stay = [row.stays for row in rows]
    return len(stay) - sum(stay), sum(stay)


def refuse_bad(rows: Iterable[BadRow]) -> None:
    """Raise DataError for the first row that was left out."""
    for row in rows:
        if not row.stays:
            raise row.make_error()


def format_nulled(count: int) -> str:
    """Return the notice that so many values were made null."""
    values = "value outside its range was" if count == 1 else "values outside their range were"
    return f"{count:,} {values} made null (--on-bad null); the rows stay"


def format_bad_rows(count: int) -> str:
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
        """Return True if `lazy` has read the rows correctly."""
        ...

    def exact(self) -> Batch:
        """Return the rows read one by one, and those that cannot be read."""
        ...


CHECK = "_check_"


@dataclass(frozen=True, slots=True)
class DecodedChunk:
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
        """Return True if all rows are good; nested fields are checked by what reads them."""
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

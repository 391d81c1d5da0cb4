"""How rows are told apart: small numbers for groups, hashes of tasks, and rows in group order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from calipers.metrics.declare.declaration import GROUP, TASK
from calipers.records.batch import select_column
from calipers.support.lazy_numpy import WORTH_LOADING, np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_FEW_VALUES = 16  # values: as quickly compared with each one by one as looked up

OTHERS = "others"  # stands for all texts beyond the most that are told apart


class Codes:
    """Numbers texts in the order in which they first come; of too many the last ones as one.

    >>> codes = Codes()
    >>> codes.encode(pl.Series("model", ["b", "a", None, "b"])).to_list()
    [0, 1, None, 0]
    >>> codes.decode(pl.Series("model", [1, 0])).to_list()
    ['a', 'b']
    """

    def __init__(self, most: int | None = None, texts: Iterable[str] = ()) -> None:
        self._numbers = {text: number for number, text in enumerate(texts)}
        self._most = most

    @property
    def texts(self) -> list[str]:
        """The texts by their numbers."""
        return list(self._numbers)

    def __len__(self) -> int:
        """Return how many different texts there are."""
        return len(self._numbers)

    def number(self, text: str) -> int:
        """Return the number of a text that is known."""
        return self._numbers[text]

    def encode(self, column: pl.Series) -> pl.Series:
        """Return the texts' numbers; those that are new get the next ones."""
        if column.null_count() == len(column):
            return pl.Series(column.name, [None], dtype=pl.Int32).new_from_index(0, len(column))
        numbers, first = number_values(column)
        take = self._take if self._most is not None else self._take_any
        own = [None if text is None else take(text) for text in column.gather(first).to_list()]
        return pl.Series(column.name, own, dtype=pl.Int32).gather(numbers)

    def _take_any(self, text: str) -> int:
        return self._numbers.setdefault(text, len(self._numbers))

    def _take(self, text: str) -> int:
        """Return a text's number, the next one if it is new; beyond the most that of all others."""
        is_full = self._most is not None and len(self._numbers) >= self._most
        if is_full and text not in self._numbers:
            text = OTHERS
        return self._numbers.setdefault(text, len(self._numbers))

    def decode(self, numbers: pl.Series) -> pl.Series:
        """Return the texts of these numbers."""
        return pl.Series(self.texts, dtype=pl.String).gather(numbers).alias(numbers.name)

    def encode_groups(self, table: pl.DataFrame) -> pl.DataFrame:
        """Return the table with numbers in the place of groups."""
        return table.with_columns(self.encode(table[GROUP]))

    def decode_groups(self, table: pl.DataFrame) -> pl.DataFrame:
        """Return the table with groups in the place of their numbers."""
        return table.with_columns(self.decode(table[GROUP]))


def number_values(values: pl.Series) -> tuple[pl.Series, pl.Series]:
    """Return a number per row for its value, in the order in which they come, and the first rows.

    Values are told apart by 64 bits of them, as tasks are.

    >>> numbers, first = number_values(pl.Series(["b", "a", "b", None]))
    >>> numbers.to_list(), first.to_list()
    ([0, 1, 0, 2], [0, 1, 3])
    """
    hashes = values.alias("value").hash()  # Polars would read a name such as ^x$ as a pattern
    known = hashes.unique(maintain_order=True)
    if len(known) > _FEW_VALUES or len(values) < WORTH_LOADING:
        order = known.arg_sort()
        numbered = order.gather(known.gather(order).search_sorted(hashes))
        return numbered, hashes.is_first_distinct().arg_true()
    all_bits = hashes.to_numpy()
    are = [all_bits == bits for bits in known]
    numbers = np.zeros(len(hashes), dtype=np.uint8)
    for at, is_value in enumerate(are):
        numbers += is_value * np.uint8(at)
    return pl.Series(numbers), pl.Series([is_value.argmax() for is_value in are], dtype=pl.Int64)


def hash_texts(*columns: str) -> pl.Expr:
    """Return 64 bits of the columns' texts; signed, because Spark has no unsigned integers."""
    return (
        pl.struct(select_column(name).cast(pl.String) for name in columns)
        .hash()
        .reinterpret(signed=True)
    )


def group_text(by: Sequence[str]) -> pl.Expr:
    """Return the text that stands for a row's group: its fields as JSON."""
    return pl.struct(map(select_column, by)).struct.json_encode() if by else pl.lit("{}")


def write_groups(records: pl.DataFrame, by: Sequence[str]) -> pl.Expr:
    """Return the text of each row's group, written once for each group."""
    if not by:
        return group_text(by)
    keys = records.select(map(select_column, by))
    numbers, first = number_values(keys.to_series() if len(by) == 1 else keys.to_struct())
    texts = keys.select(pl.all().gather(first)).select(group_text(by)).to_series().alias(GROUP)
    return pl.lit(texts.gather(numbers))


def write_key(name: str, records: pl.DataFrame) -> pl.Expr:
    """Return the text of a group by one field, null where there is none."""
    if records[name].null_count() == records.height:
        return pl.lit(None, pl.String)
    return pl.when(select_column(name).is_not_null()).then(write_groups(records, [name]))


def name_key_column(name: str) -> str:
    """Return the column with a field's text, where rows are grouped by it after reading."""
    return f"_calipers_key_{name}"


def hash_in_group(field: str) -> pl.Expr:
    """Return a number for the field's value within the row's group, null where there is none."""
    return pl.when(select_column(field).is_not_null()).then(hash_texts(GROUP, field))


def hash_in_all(field: str) -> pl.Expr:
    """Return a number for the field's value whatever the row's group, null where there is none."""
    whole = pl.struct(group_text(()).alias(GROUP), select_column(field).cast(pl.String))
    return pl.when(select_column(field).is_not_null()).then(whole.hash().reinterpret(signed=True))


def write_cluster(fields: Sequence[str], *, crossed: bool) -> pl.Expr:
    """Return the text of each row's cluster, null where there is none.

    Of nested fields, the outermost that the row has: rows of one repository depend on each other
    whatever their files, so that a file is told only where no repository is. Of crossed ones, the
    combination of all.
    """
    first, *others = fields
    text = select_column(first).cast(pl.String)
    if crossed:
        every = [select_column(name).cast(pl.String) for name in fields]
        known = pl.all_horizontal(each.is_not_null() for each in every)
        return text if not others else pl.when(known).then(pl.struct(every).struct.json_encode())
    inner = (pl.lit(f"\0{name}\0") + select_column(name).cast(pl.String) for name in others)
    return pl.coalesce(text, *inner)


FEW_GROUPS = 64  # so many pieces of each table are put together one by one
FEW_ROWS = 50_000  # that are sorted at once, and not by task


def order_codes(codes: NDArray[np.integer[Any]]) -> NDArray[np.int64] | None:
    """Return the order of a part's groups; None if they are in order."""
    if _are_in_order(codes):
        return None
    few = codes.max() < 2**16  # so few are sorted by counting
    return np.argsort(codes.astype(np.uint16) if few else codes, kind="stable")


def order_tasks(rows: pl.DataFrame) -> NDArray[np.int64] | None:
    """Return the order of groups and, within each, of tasks; None if they are in order."""
    groups = rows[GROUP].to_numpy()
    if rows[TASK].null_count():
        return order_codes(groups)
    tasks = rows.select(pl.arg_sort_by(TASK, maintain_order=True)).to_series().to_numpy()
    order = order_codes(groups[tasks])
    return tasks if order is None else tasks[order]


def _are_in_order(codes: NDArray[np.integer[Any]]) -> bool:
    return bool((codes[1:] >= codes[:-1]).all())


def mark_changes(numbers: NDArray[Any]) -> NDArray[np.bool_]:
    """Return where another number begins than stood before."""
    return np.concatenate((np.ones(min(1, len(numbers)), bool), numbers[1:] != numbers[:-1]))


def sort_groups(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the rows in the order of their groups."""
    if rows.height < FEW_ROWS:
        return rows.sort(GROUP, maintain_order=True)
    return _take_in_order(rows, order_codes(rows[GROUP].to_numpy()))


def merge_groups(tables: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Return the rows of all tables in the order of groups, in one piece."""
    if sum(table.height for table in tables) <= FEW_ROWS:
        return combine_rows(tables).sort(GROUP, maintain_order=True)
    codes = [table[GROUP].to_numpy() for table in tables]
    last = max((int(of_part.max()) for of_part in codes if len(of_part)), default=0)
    if last >= FEW_GROUPS or not all(map(_are_in_order, codes)):
        return _take_in_order(combine_rows(tables), order_codes(np.concatenate(codes)))
    if len(tables) == 1:
        return _take_in_order(tables[0], None)
    bounds = [
        np.searchsorted(of_part, np.arange(last + 2, dtype=of_part.dtype)) for of_part in codes
    ]
    pieces = [
        table[start:end]
        for code in range(last + 1)
        for table, bound in zip(tables, bounds, strict=True)
        for start, end in [bound[code : code + 2].tolist()]
        if start < end
    ]
    return _take_in_order(combine_rows(pieces or tables), None)


def _take_in_order(rows: pl.DataFrame, order: NDArray[np.int64] | None) -> pl.DataFrame:
    rows = rows if order is None else rows[pl.Series(order, dtype=pl.UInt32)]
    return rows.with_columns(pl.col(GROUP).set_sorted())


def combine_rows(tables: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """Return all rows in one piece, from which some are taken several times as fast.

    Columns may be missing in some tables, and in some of a narrower type.
    """
    return pl.concat(tables, how="diagonal_relaxed").rechunk()

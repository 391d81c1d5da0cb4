"""What rows are told apart by: the texts of their groups, and numbers of tasks and clusters."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from calipers.engines.codes import number_values
from calipers.metrics.declare.declaration import GROUP


def hash_texts(*columns: str) -> pl.Expr:
    """Return 64 bits of the columns' texts; signed, because Spark has no unsigned integers."""
    return pl.struct(pl.col(columns).cast(pl.String)).hash().reinterpret(signed=True)


def group_text(by: Sequence[str]) -> pl.Expr:
    """Return the text that stands for a row's group: its fields as JSON."""
    return pl.struct(by).struct.json_encode() if by else pl.lit("{}")


def write_groups(records: pl.DataFrame, by: Sequence[str]) -> pl.Expr:
    """Return the text of each row's group, written once for each group."""
    if not by:
        return group_text(by)
    keys = records.select(by)
    numbers, first = number_values(keys.to_series() if len(by) == 1 else keys.to_struct())
    texts = keys[first].select(group_text(by)).to_series()
    return pl.lit(texts.gather(numbers))


def write_key(name: str, records: pl.DataFrame) -> pl.Expr:
    """Return the text of a group by one field, null where there is none."""
    if records[name].null_count() == records.height:
        return pl.lit(None, pl.String)
    return pl.when(pl.col(name).is_not_null()).then(write_groups(records, [name]))


def name_key(name: str) -> str:
    """Return the column with a field's text, where rows are grouped by it after reading."""
    return f"_key_{name}"


def hash_in_group(field: str) -> pl.Expr:
    """Return a number for the field's value within the row's group, null where there is none."""
    return pl.when(pl.col(field).is_not_null()).then(hash_texts(GROUP, field))


def hash_in_all(field: str) -> pl.Expr:
    """Return a number for the field's value whatever the row's group, null where there is none."""
    whole = pl.struct(group_text(()).alias(GROUP), pl.col(field).cast(pl.String))
    return pl.when(pl.col(field).is_not_null()).then(whole.hash().reinterpret(signed=True))

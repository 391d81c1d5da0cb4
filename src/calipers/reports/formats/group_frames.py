"""The data of a score with many groups, as a frame or CSV, from the columns that hold them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from calipers.reports.formats.spreadsheets import write_cell
from calipers.reports.tables.score_tables import RESERVED
from calipers.reports.tables.shown_metrics import choose_rows
from calipers.scores.score_json import write_floats
from calipers.statistics.elementwise import choose, is_single
from calipers.support.lazy_numpy import np

if TYPE_CHECKING:
    from calipers.scores.group_columns import GroupColumns, MeasuredColumn
    from calipers.scores.result import Score

_NUMBERS = ("value", "low", "high", "stderr")
_COUNTS = ("n", "missing")
_TEXTS = ("interval", "reason")


def make_group_frame(score: Score) -> pl.DataFrame:
    """Return a row per group and metric: what `make_frame` makes of the score's document."""
    groups: Any = score.groups
    shown = choose_rows(score).rows
    names = [*shown, *(name for name in groups.metrics if name not in shown)]
    keys = _make_keys(groups)
    tables = [
        keys.with_columns(metric=pl.lit(name), **_make_columns(groups, groups.metrics[name]))
        for name in names
    ]
    rows = np.arange(len(groups) * len(names), dtype=np.uint32)
    in_order = rows.reshape(len(names), len(groups)).T.ravel()
    frame = pl.concat(tables)[pl.Series(in_order)]
    parts = ("metric", *_NUMBERS, "interval", *_COUNTS, "reason")
    return frame.select(*keys.columns, *parts)


def _make_keys(groups: GroupColumns) -> pl.DataFrame:
    fields = {name: [key[name] for key in groups.by] for name in groups.by[0]}
    columns = [
        pl.Series(f"by_{name}" if name in RESERVED else name, values, strict=False)
        for name, values in fields.items()
    ]
    return pl.DataFrame(columns) if columns else pl.DataFrame({"_": [None]}).select()


def _make_columns(groups: GroupColumns, column: MeasuredColumn) -> dict[str, pl.Series]:
    parts = {name: getattr(column, name) for name in (*_NUMBERS, *_COUNTS, "reason")}
    parts["interval"] = choose(column.has_interval, column.method, None)
    types = dict.fromkeys(_NUMBERS, pl.Float64) | dict.fromkeys(_COUNTS, pl.Int64)
    made = {}
    for name, part in parts.items():
        dtype = types.get(name, pl.String)
        if is_single(part):
            made[name] = pl.Series([part], dtype=dtype).new_from_index(0, len(groups))
        else:
            own = part[groups.places]
            values = own.tolist() if own.dtype == object else own
            made[name] = pl.Series(values, dtype=dtype, nan_to_null=True)
    return made


def render_group_csv(score: Score) -> str:
    """Return the same as `render_csv` of the score's document."""
    frame = make_group_frame(score)
    cells = [_write_column(column) for column in frame]
    rows = pl.DataFrame(cells).select(pl.concat_str(pl.all(), separator=",").str.join("\n"))
    return f"{','.join(frame.columns)}\n{rows.item()}\n"


def _write_column(column: pl.Series) -> pl.Series:
    """Return the cells of a column as texts; an empty one is a null."""
    if column.dtype == pl.Float64:
        texts = write_floats(column.to_numpy(), {np.inf: "inf", -np.inf: "-inf"}, null="")
        return texts.alias(column.name)
    values = column.unique(maintain_order=True)
    shown = (str(each).lower() if isinstance(each, bool) else each for each in values)
    cells = pl.Series(list(map(write_cell, shown)), dtype=pl.String)
    return column.replace_strict(values, cells, return_dtype=pl.String).alias(column.name)

"""The file of `--per-task`: a row per group and task, gathered part by part while an engine runs.

It is written beside its place and moved there when whole, as the file of `--per-sample` is, or
becomes a table of Spark's.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl

from calipers.engines.item_counts import Items
from calipers.engines.items import add_items, count_items
from calipers.engines.per_task import ID, finish_columns
from calipers.engines.totals import ERRORS
from calipers.metrics.declare.declaration import GROUP, RUNS
from calipers.records.sinks import check_table_place, find_table
from calipers.support.json_lines import write_lines
from calipers.support.whole_files import stage_file

_PLACE = "_place"  # of a task's group among the groups
_BY = "_by_"  # before the name of a group field: the totals may have a column of that name


class TaskFile:
    """Totals of tasks go in, in any order; the file comes out sorted by group and id."""

    def __init__(self, path: Path, folder: Path) -> None:
        self.path = path
        self._folder = folder
        self._parts = 0

    def add(self, totals: pl.DataFrame) -> None:
        """Keep the totals of some tasks."""
        if totals.height:
            totals.write_parquet(self._folder / f"{self._parts:08}.parquet", compression="lz4")
            self._parts += 1

    def write(self, groups: Mapping[str, Mapping[str, Any]]) -> Items:
        """Write the file; `groups` are the fields of each group, in the order to show them.

        Return what the tasks are worth as items of a test.
        """
        rows = self._rows(_list_groups(groups))
        if (name := find_table(self.path)) is not None:
            from calipers.records.spark.saving import save_parquet  # noqa: PLC0415 (an extra)

            table = self._folder / "sorted.parquet"
            rows.sink_parquet(table)
            save_parquet(table, name, option="--per-task")
            return count_items(pl.scan_parquet(table), len(groups))
        with stage_file(self.path) as beside:
            is_text = self.path.suffix == ".jsonl"
            table = self._folder / "sorted.parquet" if is_text else beside
            rows.sink_parquet(table)
            if is_text:
                write_lines(pl.scan_parquet(table), beside)
            return count_items(pl.scan_parquet(table), len(groups))

    def _rows(self, groups: pl.DataFrame) -> pl.LazyFrame:
        if not self._parts:
            empty = {ID: pl.String(), RUNS: pl.Int64(), ERRORS: pl.Int64()}
            return pl.LazyFrame(schema=empty)
        totals = pl.scan_parquet(self._folder / "*.parquet")
        totals, items = add_items(totals)
        values = {each.meta.output_name(): each for each in finish_columns(totals)}
        values |= {name: pl.col(name) for name in items}
        fields = (name.removeprefix(_BY) for name in groups.columns if name.startswith(_BY))
        named = {
            f"by_{name}" if name in values else name: pl.col(f"{_BY}{name}")
            for name in fields
            if name != ID
        }
        ordered = totals.join(groups.lazy(), on=GROUP).sort(_PLACE, ID)
        rows = ordered.select(values.pop(ID), **named, **values)
        if "cost_of_pass" not in values or groups.height == 1:
            return rows
        cost = pl.col("cost_of_pass")
        solved = pl.col("pass_rate") > 0 if "pass_rate" in values else pl.lit(value=False)
        unknown = (cost.is_null() & solved).fill_null(value=False).any().over(ID)
        best = cost.min().over(ID)
        best = pl.when(~(best.is_infinite() & unknown)).then(best)
        on = pl.when(cost.is_not_null()).then(cost.is_finite() & (cost == best))
        return rows.with_columns(frontier_cost_of_pass=best, on_frontier=on)


def _list_groups(groups: Mapping[str, Mapping[str, Any]]) -> pl.DataFrame:
    """Return a row per group: its text, its place, its fields."""
    rows = [
        {GROUP: text, _PLACE: place} | {f"{_BY}{name}": value for name, value in by.items()}
        for place, (text, by) in enumerate(groups.items())
    ]
    return pl.DataFrame(rows, infer_schema_length=None, strict=False)


@contextmanager
def open_task_file(path: Path | None) -> Iterator[TaskFile | None]:
    """Open a folder for the parts of the file, if one is asked for."""
    if path is None:
        yield None
        return
    if find_table(path) is None:
        check_table_place(path, "--per-task")
    with tempfile.TemporaryDirectory(prefix="calipers-") as folder:
        yield TaskFile(path, Path(folder))

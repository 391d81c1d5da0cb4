"""Tables whose log says which Parquet files still count: Delta is read, Iceberg and Hudi are not.

Such a folder keeps the files of earlier versions. To read them all would count records twice, or
records that were deleted.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import polars as pl

from calipers.records.tables import SourceTable
from calipers.support.errors import DataError, require_extra

_DELTA = "Delta"
_EXPORT = (
    "name the table as a Spark session that has the format knows it: table:CATALOG.SCHEMA.NAME; "
    "or write it as plain Parquet: spark.table(NAME).write.parquet(FOLDER)"
)


class DeltaTable(SourceTable):
    """The newest version of a Delta table."""

    def __init__(self, folder: Path) -> None:
        super().__init__(_scan(folder), str(folder))


def find_lakehouse_table(folder: Path, parts: Iterable[Path]) -> DeltaTable | None:
    """Return the Delta table at a folder, or None for a plain folder of Parquet files.

    Raises:
        DataError: The folder is an Iceberg or Hudi table, or has a table further down.
        MissingExtraError: Reading Delta needs a package that is not installed.
    """
    if (kind := _name_format(folder)) == _DELTA:
        return DeltaTable(folder)
    if kind is not None:
        raise DataError(f"{folder}: {kind} tables are not read directly", fix=_EXPORT)
    below = {each for part in parts for each in part.parents if each.is_relative_to(folder)}
    for each in sorted(below):
        if (kind := _name_format(each)) is not None:
            raise DataError(
                f"{folder}: holds a {kind} table in {each.relative_to(folder)}",
                fix=f"name the table itself: {each}" if kind == _DELTA else _EXPORT,
            )
    return None


def refuse_part(file: Path) -> None:
    """Raise DataError for a Parquet file of a Delta table: the log may have removed it."""
    folder = file.parent
    while "=" in folder.name:  # a partition
        folder = folder.parent
    if (folder / "_delta_log").is_dir():
        raise DataError(
            f"{file}: a part of a Delta table, whose log says which parts still count",
            fix=f"name the table itself: {folder}",
        )


def _name_format(folder: Path) -> str | None:
    if (folder / "_delta_log").is_dir():
        return _DELTA
    if (folder / ".hoodie").is_dir():
        return "Hudi"
    metadata = folder / "metadata"
    return "Iceberg" if any(metadata.glob("*.metadata.json")) else None


def _scan(folder: Path) -> pl.LazyFrame:
    require_extra(f"{folder}: to read a Delta table", extra="delta", modules=("deltalake",))
    from deltalake.exceptions import DeltaError  # noqa: PLC0415 (only where there is a table)

    try:
        table = pl.scan_delta(str(folder))
        table.collect_schema()  # reads the log: Polars itself would only when the rows are read
    except (DeltaError, OSError, pl.exceptions.PolarsError) as error:
        raise DataError(
            f"{folder}: the Delta table cannot be read: {str(error).splitlines()[0][:200]}",
            fix="check that its _delta_log is complete, or write the table as plain Parquet",
        ) from error
    return table

"""Tables with a log of their own: Delta and Iceberg are read and written, Hudi is refused.

Such a table keeps the files of earlier versions beside those that count: to read all its Parquet
would count records twice, or records that were deleted. What is read is the version that is the
newest when the table is opened. An address names a table where a folder does not: `delta:FOLDER`,
`iceberg:FOLDER`, and `iceberg:CATALOG.NAMESPACE.TABLE` by a catalog that PyIceberg's own
configuration describes (`.pyiceberg.yaml`, or PYICEBERG_CATALOG__… in the environment).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import polars as pl

from calipers.records.readers.bytestream import shorten_error
from calipers.records.readers.parquet_check import check_decoding
from calipers.records.readers.tables import SourceTable, list_parts
from calipers.support.errors import DataError, UsageError, require_extra

DELTA, ICEBERG = "delta:", "iceberg:"
_NAMES = {DELTA: "Delta", ICEBERG: "Iceberg"}
_PACKAGES = {DELTA: "deltalake", ICEBERG: "pyiceberg"}
_METADATA = "metadata"
_EXPORT = (
    "name the table as a Spark session that has the format knows it: table:CATALOG.SCHEMA.NAME; "
    "or write it as plain Parquet: spark.table(NAME).write.parquet(FOLDER)"
)


class LakehouseTable(SourceTable):
    """A version of a table, which workers of a cluster can read as well."""

    def __init__(self, frame: pl.LazyFrame, name: str, folder: Path | None = None) -> None:
        super().__init__(frame, name)
        self._folder = folder

    def count_bytes(self) -> int:
        """Return the size of the files in its folder, also of those of earlier versions."""
        parts = [] if self._folder is None else list_parts(self._folder)
        return sum(path.stat().st_size for path in parts)


def open_table(address: str) -> LakehouseTable:
    """Return the table at an address: `delta:FOLDER`, `iceberg:FOLDER` or `iceberg:NAME`.

    Raises:
        DataError: There is no such table, or it cannot be read.
        MissingExtraError: Reading it needs a package that is not installed.
    """
    kind, place = _split(address)
    if kind == DELTA:
        return _open_delta(Path(place))
    if Path(place).is_dir():
        return _open_iceberg(place, str(_find_metadata(Path(place))), Path(place))
    return _open_iceberg(address, _load_from_catalog(address))


def find_lakehouse_table(folder: Path, parts: Iterable[Path]) -> LakehouseTable | None:
    """Return the table at a folder, or None for a plain folder of Parquet files.

    Raises:
        DataError: The folder is a Hudi table, or has a table further down.
        MissingExtraError: Reading it needs a package that is not installed.
    """
    kind = _name_format(folder)
    if kind in _NAMES:
        return open_table(f"{kind}{folder}")
    if kind is not None:
        raise DataError(f"{folder}: {kind} tables are not read directly", fix=_EXPORT)
    below = {parent for part in parts for parent in part.parents if parent.is_relative_to(folder)}
    for parent in sorted(below):
        if (kind := _name_format(parent)) is not None:
            name = _NAMES.get(kind, kind)
            raise DataError(
                f"{folder}: holds a {name} table in {parent.relative_to(folder)}",
                fix=f"name the table itself: {parent}" if kind in _NAMES else _EXPORT,
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
        return DELTA
    if (folder / ".hoodie").is_dir():
        return "Hudi"
    return ICEBERG if any((folder / _METADATA).glob("*.metadata.json")) else None


def _split(address: str) -> tuple[str, str]:
    kind, _, place = address.partition(":")
    return f"{kind}:", place


@contextmanager
def _explain(place: str, kind: str, what: str) -> Iterator[None]:
    """Raise what the libraries raise inside the block as DataError."""
    require_extra(
        f"{place}: {_NAMES[kind]} tables",
        extra=kind.rstrip(":"),
        modules=(_PACKAGES[kind],),
    )
    try:
        yield
    except (UsageError, DataError):
        raise
    except Exception as error:  # each library has errors of its own, and its storage has more
        raise DataError(
            f"{place}: the {_NAMES[kind]} table cannot be {what}: {shorten_error(error)}",
            fix="check that the folder with its log is complete"
            if kind == DELTA
            else "check its metadata, and the catalog in PyIceberg's configuration",
        ) from error


def _open_delta(folder: Path) -> LakehouseTable:
    with _explain(str(folder), DELTA, "read"):
        check_decoding(list_parts(folder))
        frame = pl.scan_delta(str(folder))
        frame.collect_schema()  # reads the log: Polars itself would only when the rows are read
    return LakehouseTable(frame, str(folder), folder)


def _open_iceberg(name: str, table: Any, folder: Path | None = None) -> LakehouseTable:
    """Return the newest version of a table, given by its metadata or by PyIceberg."""
    # Else Polars warns, at every read, that a package of its own would plan it faster.
    os.environ.setdefault("POLARS_ICEBERG_PLANNER", "pyiceberg")
    with _explain(name, ICEBERG, "read"):
        from pyiceberg.table import StaticTable  # noqa: PLC0415 (only where there is a table)

        opened = StaticTable.from_metadata(table) if isinstance(table, str) else table
        newest = opened.current_snapshot()
        frame = pl.scan_iceberg(table, snapshot_id=None if newest is None else newest.snapshot_id)
        frame.collect_schema()
    if folder is not None:
        check_decoding(list_parts(folder))
    return LakehouseTable(frame, name, folder)


def _find_metadata(folder: Path) -> Path:
    """Return the newest metadata of a table: as the folder says, or the one of the highest number.

    Raises:
        DataError: There is none.
    """
    metadata = folder / _METADATA
    found = {path.name: path for path in metadata.glob("*.metadata.json")}
    hint = metadata / "version-hint.text"
    if hint.is_file() and (name := f"v{hint.read_text('utf-8').strip()}.metadata.json") in found:
        return found[name]
    numbered = {
        int(match[1]): path
        for name, path in found.items()
        if (match := re.match(r"v?(\d+)[.-]", name)) is not None
    }
    if not numbered:
        raise DataError(
            f"{folder}: no Iceberg table: metadata/ holds no metadata.json",
            fix="name the table's folder, or iceberg:CATALOG.NAMESPACE.TABLE",
        )
    return numbered[max(numbered)]


def _load_catalog(address: str) -> tuple[Any, str]:
    """Return the catalog that an address names, and the table's name in it."""
    from pyiceberg.catalog import load_catalog  # noqa: PLC0415 (only where there is a table)

    catalog, _, name = address.removeprefix(ICEBERG).partition(".")
    if "." not in name:
        raise UsageError(
            f"{address}: not the name of a table, nor a folder",
            fix="name it as iceberg:CATALOG.NAMESPACE.TABLE",
        )
    return load_catalog(catalog), name


def _load_from_catalog(address: str) -> Any:
    with _explain(address, ICEBERG, "read"):
        catalog, name = _load_catalog(address)
        return catalog.load_table(name)


def is_lakehouse(place: str | Path) -> bool:
    """Return True if this is a table's address.

    >>> is_lakehouse(Path("delta:lake/answers")), is_lakehouse(Path("answers.parquet"))
    (True, False)
    """
    return str(place).startswith((DELTA, ICEBERG))


def refuse_place(place: Path, option: str) -> None:
    """Check that a table can be created, before any work is done.

    Raises:
        UsageError: There is a table, or something else, at the address already.
        DataError: The catalog does not answer, or does not have the namespace.
        MissingExtraError: Writing it needs a package that is not installed.
    """
    kind, target = _split(str(place))
    with _explain(str(place), kind, "created"):
        if kind == DELTA:
            folder = Path(target)
            is_taken = folder.exists() and (not folder.is_dir() or any(folder.iterdir()))
        else:
            catalog, name = _load_catalog(str(place))
            catalog.load_namespace_properties(name.rpartition(".")[0])
            is_taken = catalog.table_exists(name)
    if is_taken:
        raise UsageError(
            f"{option} {place}: it exists already, and is not overwritten",
            fix="name another one, or remove it first",
        )


def write_table(parts: Iterable[pl.DataFrame], place: Path) -> None:
    """Create a table of these rows; it is there with all of them, or not at all.

    Raises:
        DataError: It cannot be written.
    """
    kind, target = _split(str(place))
    with _explain(str(place), kind, "written"):
        if kind == DELTA:
            _write_delta(target, iter(parts))
        else:
            _write_iceberg(str(place), iter(parts))


def _write_delta(folder: str, parts: Iterator[pl.DataFrame]) -> None:
    from arro3.core import RecordBatchReader, Table  # noqa: PLC0415 (comes with deltalake)
    from deltalake import write_deltalake  # noqa: PLC0415

    first = Table.from_arrow(next(parts))
    tables = chain([first], map(Table.from_arrow, parts))
    batches = (batch for table in tables for batch in table.to_batches())
    write_deltalake(folder, RecordBatchReader.from_batches(first.schema, batches))


def _write_iceberg(address: str, parts: Iterator[pl.DataFrame]) -> None:
    catalog, name = _load_catalog(address)
    tables = (part.to_arrow(compat_level=pl.CompatLevel.oldest()) for part in parts)
    first = next(tables)
    with catalog.create_table_transaction(name, schema=first.schema) as transaction:
        for table in chain([first], tables):
            transaction.append(table)

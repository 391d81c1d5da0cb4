"""New tables in the session's catalog, to which results are written."""

from __future__ import annotations

from pathlib import Path

import polars as pl
from pyspark.sql import DataFrame

from calipers.records.spark.failures import SPARK_ERRORS, find_last_line
from calipers.records.spark.session import start_session
from calipers.support.errors import DataError, UsageError


def refuse_table(name: str, option: str) -> None:
    """Check that a table can be created, before any work is done.

    Raises:
        UsageError: There is such a table already, or its schema does not exist.
    """
    catalog = start_session().catalog
    schema, _, _ = name.rpartition(".")
    try:
        has_schema = not schema or "`" in schema or catalog.databaseExists(schema)
        taken = has_schema and catalog.tableExists(name)
    except SPARK_ERRORS as error:
        raise UsageError(
            f"{option} table:{name}: {find_last_line(error)}",
            fix="name it as the session knows it: table:CATALOG.SCHEMA.NAME",
        ) from error
    if not has_schema:
        raise UsageError(
            f"{option} table:{name}: there is no schema {schema}",
            fix=f"create it first: CREATE SCHEMA {schema}",
        )
    if taken:
        raise UsageError(
            f"{option} table:{name}: the table exists, and is not overwritten",
            fix=f"name another one, or drop it first: DROP TABLE {name}",
        )


def save_rows(rows: DataFrame, name: str, *, expected: int, option: str) -> None:
    """Create a table of rows, in the format that is the session's default.

    Raises:
        DataError: Spark cannot write it, or it does not hold as many rows as expected.
    """
    try:
        rows.write.saveAsTable(name)
        saved = rows.sparkSession.table(name).count()
    except SPARK_ERRORS as error:
        raise DataError(
            f"{option} table:{name}: Spark cannot write it: {find_last_line(error)}",
            fix="check that the session may create tables there",
        ) from error
    if saved != expected:
        raise DataError(
            f"{option} table:{name}: it holds {saved:,} rows, expected {expected:,}",
            fix=f"drop it and run again: DROP TABLE {name}; "
            "if it stays so, the records change while they are read",
        )


def save_parquet(path: Path, name: str, *, option: str) -> None:
    """Create a table of the rows of a Parquet file on this machine."""
    rows = pl.read_parquet(path)
    save_rows(make_frame(rows), name, expected=rows.height, option=option)


def make_frame(rows: pl.DataFrame) -> DataFrame:
    """Return rows as a data frame of the session's, in types that Spark has."""
    conformed = rows.cast(conform_schema(rows.schema))
    table = conformed.to_arrow(compat_level=pl.CompatLevel.oldest())
    return start_session().createDataFrame(table)


def conform_schema(schema: pl.Schema) -> pl.Schema:
    """Return the schema in types that Spark has: no unsigned numbers, no column without a type."""
    return pl.Schema({name: _conform(dtype) for name, dtype in schema.items()})


def _conform(dtype: pl.DataType) -> pl.DataType:
    if isinstance(dtype, pl.List):
        return pl.List(_conform(dtype.inner))  # type: ignore[arg-type]
    if isinstance(dtype, pl.Struct):
        return pl.Struct({each.name: _conform(each.dtype) for each in dtype.fields})  # type: ignore[arg-type]
    if dtype.is_unsigned_integer():
        return pl.Int64()
    return pl.String() if dtype in (pl.Null, pl.Categorical, pl.Enum) else dtype

"""Tables in memory, of any library, as frames of Polars."""

from __future__ import annotations

from typing import Any

import polars as pl

from calipers.records.bytestream import shorten_error
from calipers.support.errors import DataError


def as_polars(data: Any) -> pl.LazyFrame | None:
    """Return a table of Polars, Arrow or another library as a lazy frame, or None."""
    if isinstance(data, pl.LazyFrame):
        return data
    if isinstance(data, pl.DataFrame):
        return data.lazy()
    if _is_dataset(data):
        data = data.with_format("arrow")[:]
    if hasattr(data, "__arrow_c_stream__"):  # Arrow tables, pandas ≥ 2.2, DuckDB, …
        try:
            return pl.DataFrame(data).lazy()
        except ImportError:  # pandas hands over Arrow data through pyarrow
            return None
        except (TypeError, ValueError, NotImplementedError, pl.exceptions.PolarsError) as error:
            raise DataError(
                f"<table>: cannot be read: {shorten_error(error)}",
                fix="give every column one type and a name of its own, "
                "or hand over a list of dicts: df.to_dict('records')",
            ) from error
    return None


def is_table(data: Any) -> bool:
    """Say whether this is a table in memory, of a library that Polars knows or of Hugging Face."""
    return hasattr(data, "__arrow_c_stream__") or _is_dataset(data)


def _is_dataset(data: Any) -> bool:
    """Say whether this is a dataset of Hugging Face, not its splits, and not a stream of it."""
    is_theirs = type(data).__module__.partition(".")[0] == "datasets"
    return is_theirs and hasattr(data, "column_names") and hasattr(data, "select")


def is_pandas(data: Any) -> bool:
    """Say whether this is a data frame of pandas."""
    return type(data).__module__.partition(".")[0] == "pandas" and hasattr(data, "notna")


def is_of_spark(data: Any) -> bool:
    """Say whether this is a data frame of Spark."""
    return type(data).__module__.startswith("pyspark.") and hasattr(data, "columns")


def list_pandas_rows(data: Any) -> list[dict[str, Any]]:
    """Return the rows of a pandas frame without pyarrow; missing values as None."""
    if not hasattr(data, "columns") or not data.columns.is_unique:
        raise DataError(
            "<table>: two columns of the pandas frame have the same name, or it has none",
            fix="give every column a name of its own: df.columns = [...]",
        )
    found = data.astype(object).where(data.notna(), None).to_dict("records")
    return [{str(name): value for name, value in row.items()} for row in found]

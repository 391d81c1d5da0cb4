"""The Spark session, and small tables on their way between driver and cluster."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import narwhals as nw
import polars as pl
from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from calipers.metrics.declare.declaration import Frame
from calipers.support.errors import UsageError
from calipers.support.plugins import list_loaded

_QUIET = Path(__file__).with_name("log4j2.properties")

_SPARK_TYPES = {
    pl.String: "string",
    pl.Int64: "bigint",
    pl.Float64: "double",
    pl.Boolean: "boolean",
}


def start_session() -> SparkSession:
    """Return the current session, or a quiet one on this machine."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # To note where in our code each column was made costs half of the driver's time.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        "spark.sql.dataFrameQueryContext.enabled": "false",
        "spark.sql.shuffle.partitions": str(2 * (os.cpu_count() or 1)),
        "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_QUIET.as_uri()}",
    }
    builder = SparkSession.builder.appName("calipers")
    if "SPARK_REMOTE" not in os.environ and "PYSPARK_GATEWAY_PORT" not in os.environ:
        for name, value in settings.items():
            builder = builder.config(name, value)
    try:
        session = builder.getOrCreate()
    except (PySparkException, RuntimeError, OSError) as error:
        raise UsageError(
            f"Spark does not start: {find_last_line(error)}",
            fix="install Java 17 and let JAVA_HOME point to it, or use --engine polars",
        ) from error
    session.sparkContext.setLogLevel("ERROR")
    return session


def send_loaded_files() -> None:
    """Make functions of plug-in files available to workers, which cannot import the files."""
    for module in list_loaded():
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]


def find_last_line(error: Exception) -> str:
    """Return the essence of a long message of Java's, within which our own errors are."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    named = [line for line in lines if line.startswith("calipers.")]
    return (named or lines or [type(error).__name__])[-1][:300]


def declare_columns(schema: Mapping[str, pl.DataType]) -> str:
    """Return columns as Spark declares them."""
    return ", ".join(f"`{name}` {_SPARK_TYPES[type(dtype)]}" for name, dtype in schema.items())


def send_table(table: pl.DataFrame, spark: SparkSession) -> Frame:
    """Return a small table of the driver's, on the cluster."""
    return nw.from_native(spark.createDataFrame(table.rows(), declare_columns(table.schema)))


def collect_table(frame: Frame) -> pl.DataFrame:
    """Return a small table of the cluster's, on the driver."""
    native: DataFrame = frame.to_native()
    return pl.DataFrame([row.asDict() for row in native.collect()], infer_schema_length=None)


def collect_parts(rows: DataFrame) -> Iterator[pl.DataFrame]:
    """Yield a large table on the driver, through a folder shared with the workers.

    Driver and workers need not share a disk, and the driver holds one partition at a time.
    """
    pieces = rows.mapInArrow(_pack, "piece binary").toLocalIterator(prefetchPartitions=True)
    for row in pieces:
        yield pl.read_ipc(bytes(row["piece"]))


def _pack(batches: Iterable[Any]) -> Iterator[Any]:
    """Turn, in a worker, every batch of rows into one compressed cell."""
    for batch in batches:
        packed = BytesIO()
        pl.DataFrame(batch).write_ipc(packed, compression="lz4")
        cell = pl.DataFrame({"piece": [packed.getvalue()]})
        yield from cell.to_arrow(compat_level=pl.CompatLevel.oldest()).to_batches()

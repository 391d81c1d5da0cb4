"""The Spark session in use: the one that is active, a cluster's that was named, or a local one.

Also the form in which tables travel between driver and workers, and Spark's long errors in one
line.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa  # type: ignore[import-untyped]
from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from calipers.records.reading_options import get_master, is_remote
from calipers.support.errors import UsageError, require_extra
from calipers.support.plugins import list_loaded

try:
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
except ImportError:  # a client of Spark Connect alone, which starts no JVM
    SPARK_ERRORS: tuple[type[Exception], ...] = (PySparkException,)
else:
    SPARK_ERRORS = (PySparkException, Py4JJavaError)

_INSTALL = (
    "install there what the driver has: pip install 'calipers[spark]'; "
    "or send an environment along with --archives: docs/how-to/spark.md"
)
_PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
_LACKING = {  # text of the error: what is wrong, and what to do
    r"No module named '([\w.]+)'": ("cannot import {}", _INSTALL),
    r"PACKAGE_NOT_INSTALLED\W+(\w+)": ("has no {}, or an old one", _INSTALL),
    r"Can't get attribute '(\w+)' on <module 'calipers": (
        "has another version of calipers, without {}",
        "install the driver's version there",
    ),
    r"PYTHON_VERSION_MISMATCH\W+(?:[^:]*: )?([\d.]+)?": (
        "has another minor version",
        f"name a Python {_PYTHON}, as the driver's, with PYSPARK_PYTHON or spark.pyspark.python",
    ),
    r'Cannot run program "([^"]+)"': (
        "does not exist at {}",
        "name one that does with PYSPARK_PYTHON or spark.pyspark.python",
    ),
}


def explain_executors(error: Exception) -> UsageError | None:
    """Return what the Python of the executors lacks, where that is why Spark failed."""
    text = str(error)
    for pattern, (problem, fix) in _LACKING.items():
        if (match := re.search(pattern, text)) is not None:
            return UsageError(
                f"the Python of Spark's executors {problem.format(*match.groups())}", fix=fix
            )
    return None


_SHOWN = 300  # characters
_STACK = ("at ", "... ", "Driver stacktrace:")  # of Java


def find_last_line(error: Exception) -> str:
    """Return the line of a long Java message that matters; our own errors are inside it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    named = [line for line in lines if line.startswith("calipers.")]
    told = [line for line in lines if not line.startswith(_STACK)]
    if not named and told:
        return told[-1][-_SHOWN:]  # what failed stands behind which task it was
    return (named or [type(error).__name__])[-1][:_SHOWN]


_QUIET = Path(__file__).with_name("log4j2.properties")
_DEFAULTS = {  # unless the user has set them
    "spark.sql.shuffle.partitions": str(2 * (os.cpu_count() or 1)),
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
}
_QUICK = "-XX:TieredStopAtLevel=1"  # a driver plans little: compiling that well takes longer
_EXECUTORS_PYTHON = "spark.pyspark.python"
PIECE = "piece"


def start_session() -> SparkSession:
    """Return the active session, or a new one: where --spark-master or SPARK_REMOTE say, or here.

    Raises:
        UsageError: Spark does not start, or another session is active than was asked for.
        MissingExtraError: Spark Connect needs packages that are not installed.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    master = get_master()
    if is_remote(master):
        require_extra(
            "Spark Connect (an address sc://…) needs gRPC",
            extra="spark-connect",
            modules=("grpc", "grpc_status"),
        )
    active = SparkSession.getActiveSession()
    if active is not None:
        _refuse_another(active, master)
        return active
    try:
        return _open(master)
    except (PySparkException, RuntimeError, OSError) as error:
        raise UsageError(
            f"Spark does not start: {find_last_line(error)}",
            fix="check the address of the cluster"
            if master
            else "install Java 17 and let JAVA_HOME point to it, or use --engine polars",
        ) from error


def _open(master: str | None) -> SparkSession:
    builder = SparkSession.builder.appName("calipers")
    if is_remote(master):
        return (builder.remote(master) if master else builder).getOrCreate()
    if "PYSPARK_GATEWAY_PORT" not in os.environ:  # not inside spark-submit, which has set all up
        if master is not None:
            builder = builder.master(master)
        else:
            builder = builder.config("spark.ui.enabled", "false")
        quiet = f"-Dlog4j2.configurationFile={_QUIET.as_uri()}"
        builder = builder.config("spark.driver.defaultJavaOptions", f"{quiet} {_QUICK}")
        builder = builder.config("spark.ui.showConsoleProgress", "false")
    session = builder.getOrCreate()
    chosen = session.sparkContext.getConf()
    for name, value in _DEFAULTS.items():
        if not chosen.contains(name):
            session.conf.set(name, value)
    if (python := chosen.get(_EXECUTORS_PYTHON)) is not None:  # which only spark-submit has read
        session.sparkContext.pythonExec = python
    session.sparkContext.setLogLevel("ERROR")
    return session


def _refuse_another(active: SparkSession, master: str | None) -> None:
    """Raise UsageError where a session is active on another cluster than was asked for."""
    if master is None:
        return
    if is_remote(master) or not hasattr(active, "_sc"):
        same = is_remote(master) and not hasattr(active, "_sc")
    else:
        same = active.sparkContext.master == master
    if not same:
        raise UsageError(
            f"--spark-master {master}: another Spark session is active already",
            fix="leave --spark-master out to use it, or end it first: spark.stop()",
        )


def send_loaded_files() -> None:
    """Make functions of plug-in files available to workers, which cannot import the files."""
    for module in list_loaded():
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]


def pack(table: pl.DataFrame) -> bytes:
    """Return a table as compressed bytes, of whatever types its columns are."""
    packed = BytesIO()
    table.write_ipc(packed, compression="lz4")
    return packed.getvalue()


def unpack(piece: Any, columns: list[str] | None = None) -> pl.DataFrame:
    """Return the table in these bytes, or those of the columns that it has."""
    data = BytesIO(piece)
    if columns is None:
        return pl.read_ipc(data)
    has = pl.read_ipc_schema(data)
    data.seek(0)
    return pl.read_ipc(data, columns=[name for name in columns if name in has])


def make_cell(types: Mapping[str, Any], *values: Any) -> Any:
    """Return one row as the Arrow batch that a worker gives back to Spark, its bytes copied once.

    >>> make_cell({"number": pa.int32(), "piece": pa.binary()}, 1, b"packed").num_rows
    1
    """
    columns = [
        pa.array([value], type_) for value, type_ in zip(values, types.values(), strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, names=list(types))


def to_batches(cells: pl.DataFrame) -> Iterator[Any]:
    """Yield rows as the Arrow batches that a worker gives back to Spark."""
    yield from cells.to_arrow(compat_level=pl.CompatLevel.oldest()).to_batches()


def collect_parts(rows: DataFrame) -> Iterator[pl.DataFrame]:
    """Yield a large table on the driver, in order, packed by the workers.

    Driver and workers need not share a disk, and the driver holds one partition at a time.
    """
    pieces = rows.mapInArrow(_pack, f"{PIECE} binary").toLocalIterator(prefetchPartitions=True)
    for row in pieces:
        yield unpack(row[PIECE])


def _pack(batches: Iterable[Any]) -> Iterator[Any]:
    """Turn, in a worker, every batch of rows into one compressed cell."""
    for batch in batches:
        yield make_cell({PIECE: pa.binary()}, pack(pl.DataFrame(batch)))

"""Spark's long errors in one line, and what to do about executors that lack a package."""

from __future__ import annotations

import re
import sys

from pyspark.errors import PySparkException

from calipers.support.errors import UsageError

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
        if (found := re.search(pattern, text)) is not None:
            return UsageError(
                f"the Python of Spark's executors {problem.format(*found.groups())}", fix=fix
            )
    return None


def find_last_line(error: Exception) -> str:
    """Return the line of a long Java message that matters; our own errors are inside it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    named = [line for line in lines if line.startswith("calipers.")]
    return (named or lines or [type(error).__name__])[-1][:300]

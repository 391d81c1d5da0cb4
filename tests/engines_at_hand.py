"""Which engines can run here; the others are skipped with the reason.

A call of Spark takes seconds whatever it counts. `make test` shows that the engine works; that it
gives the same figures on more data and settings is for `make test-long` (the mark `long`).
"""

from __future__ import annotations

import os
import shutil
from importlib.util import find_spec

import pytest

needs_spark = pytest.mark.spark

ENGINES = [
    pytest.param("polars", id="polars"),
    pytest.param("spark", id="spark", marks=needs_spark),
]
ENGINES_AT_LENGTH = [
    pytest.param("polars", id="polars"),
    pytest.param("spark", id="spark", marks=[needs_spark, pytest.mark.long]),
]


def why_spark_is_missing() -> str | None:
    """Return why Spark cannot run here, or None where it can."""
    if find_spec("pyspark") is None:
        return "PySpark is not installed (extra `spark`)"
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        return "there is no Java"
    return None

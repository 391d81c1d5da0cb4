"""Which engines can run here; the others are skipped with the reason."""

from __future__ import annotations

import os
import shutil
from importlib.util import find_spec

import pytest


def _spark_is_missing() -> str | None:
    if find_spec("pyspark") is None:
        return "PySpark is not installed (extra `spark`)"
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        return "there is no Java"
    return None


needs_spark = pytest.mark.skipif(
    _spark_is_missing() is not None, reason=_spark_is_missing() or "Spark is there"
)

ENGINES = [
    pytest.param("polars", id="polars"),
    pytest.param("spark", id="spark", marks=needs_spark),
]

"""What a user is told where the executors of a cluster lack something."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.engines_at_hand import needs_spark
from tests.files import write_lines

pytest.importorskip("pyspark")
from calipers.engines.spark.session import explain_executors, find_last_line


@pytest.mark.parametrize(
    ("said", "told", "fix"),
    [
        ("ModuleNotFoundError: No module named 'calipers'", "cannot import calipers", "--archives"),
        ("[PACKAGE_NOT_INSTALLED] PyArrow >= 18.0.0 must", "has no PyArrow", "pip install"),
        (
            "Can't get attribute 'CellWork' on <module 'calipers.engines.spark.cluster_rows' from '/x'>",
            "another version of calipers, without CellWork",
            "the driver's version",
        ),
        (
            "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.12 than",
            "has another minor version",
            "PYSPARK_PYTHON",
        ),
        (
            'java.io.IOException: Cannot run program "/no/python": error=2',
            "at /no/python",
            "PYSPARK",
        ),
    ],
)
def test_what_the_executors_of_spark_lack_is_said(said: str, told: str, fix: str) -> None:
    found = explain_executors(RuntimeError(f"Job aborted\n{said}\n\tat org.apache.spark.X"))
    assert found is not None
    assert told in found.message
    assert fix in found.fix


def test_other_errors_of_spark_are_not_taken_for_lacking_executors() -> None:
    error = RuntimeError("Job aborted\ncalipers.support.errors.DataError: rows.jsonl:3: bad\nat x")
    assert explain_executors(error) is None
    assert find_last_line(error) == "calipers.support.errors.DataError: rows.jsonl:3: bad"


@needs_spark
@pytest.mark.long
def test_spark_runs_the_python_that_its_configuration_names(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "rows.jsonl", [{"answer": "1", "target": "1"}] * 3)
    arguments = "--master local[1] --conf spark.pyspark.python=/no/such/python pyspark-shell"
    command = [sys.executable, "-m", "calipers", "score", str(path), "--engine", "spark"]
    environment = {**os.environ, "PYSPARK_SUBMIT_ARGS": arguments}
    environment.pop("PYSPARK_PYTHON", None)
    done = subprocess.run(command, check=False, env=environment, capture_output=True, text=True)
    assert done.returncode == 2
    assert "the Python of Spark's executors does not exist at /no/such/python" in done.stderr


def test_what_java_says_is_told_without_its_stack() -> None:
    text = """An error occurred while calling o88.toPythonIterator.
: org.apache.spark.SparkException: results are bigger than spark.driver.maxResultSize (1024 MiB)

Driver stacktrace:
\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:2844)
\tat org.apache.spark.util.EventLoop$$anon$1.run(EventLoop.scala:50)
"""
    assert "spark.driver.maxResultSize" in find_last_line(RuntimeError(text))
    lost = f"Job aborted: {'Task 0 was lost. ' * 30}java.lang.OutOfMemoryError: Java heap space"
    assert find_last_line(RuntimeError(lost)).endswith("OutOfMemoryError: Java heap space")
    named = f"{text}calipers.support.errors.DataError: rows.parquet: cannot be read\n\tat java.lang"
    assert find_last_line(RuntimeError(named)).endswith("rows.parquet: cannot be read")

"""Results as tables of a Spark catalog: per-sample, per-task, and the score itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import calipers as cal
from calipers.records.sinks import find_table
from tests.engines_at_hand import needs_spark

pytest.importorskip("pyspark")
from calipers.engines.spark import spark_output
from calipers.engines.spark.session import start_session

ROWS = [
    {"id": f"t{n % 30}", "run": n // 30, "model": f"m{n % 2}", "answer": str(n % 3), "target": "1"}
    for n in range(120)
]


@pytest.fixture
def schema(tmp_path: Path) -> Iterator[str]:
    """Create a schema of the session's catalog in a folder of this test."""
    session = start_session()
    session.sql(f"CREATE SCHEMA made_here LOCATION '{tmp_path / 'warehouse'}'")
    yield "made_here"
    session.sql("DROP SCHEMA made_here CASCADE")


def read(name: str) -> pl.DataFrame:
    return pl.DataFrame(start_session().table(name).toArrow())


@needs_spark
def test_spark_writes_samples_and_tasks_to_tables(schema: str, tmp_path: Path) -> None:
    asked: dict[str, Any] = {"by": "model", "metrics": ["accuracy", "stability"]}
    files: dict[str, Any] = {
        "per_sample": tmp_path / "samples.parquet",
        "per_task": tmp_path / "tasks.parquet",
    }
    tables: dict[str, Any] = {name: f"table:spark_catalog.{schema}.{name}" for name in files}
    cal.score(ROWS, **asked, **files)
    there = cal.score(ROWS, engine="spark", **asked, **tables)
    assert there.per_task is not None
    assert there.per_task.path == tables["per_task"]
    for name, file in files.items():
        here, found = pl.read_parquet(file), read(f"{schema}.{name}")
        assert found.columns == here.columns
        assert sorted(found.rows(), key=str) == sorted(here.rows(), key=str)


@needs_spark
def test_rows_without_an_id_are_numbered_over_all_sources_in_a_spark_table(
    schema: str, tmp_path: Path
) -> None:
    for number in range(3):
        rows = [{"answer": str(n), "target": "1"} for n in range(number + 1)]
        pl.DataFrame(rows).write_parquet(tmp_path / f"{number}.parquet")
    measured = cal.score(
        tmp_path.glob("*.parquet"),
        metrics="accuracy",
        engine="spark",
        per_sample=f"table:{schema}.numbered",
    )
    assert measured.records == 6
    assert sorted(read(f"{schema}.numbered")["id"]) == list("123456")


@needs_spark
def test_a_spark_table_is_never_overwritten(schema: str) -> None:
    start_session().sql(f"CREATE TABLE {schema}.taken AS SELECT 1 AS one")
    with pytest.raises(cal.UsageError, match="the table exists, and is not overwritten") as caught:
        cal.score(ROWS, engine="spark", per_sample=f"table:{schema}.taken")
    assert f"DROP TABLE {schema}.taken" in caught.value.fix
    with pytest.raises(cal.UsageError, match="there is no schema nowhere"):
        cal.score(ROWS, engine="spark", per_task="table:nowhere.tasks")


@needs_spark
def test_a_spark_table_that_lacks_rows_is_an_error(schema: str) -> None:
    rows = start_session().range(3)
    with pytest.raises(cal.DataError, match="it holds 3 rows, expected 1,000"):
        spark_output.save_rows(rows, f"{schema}.few", expected=1000, option="--per-sample")
    with pytest.raises(cal.DataError, match="Spark cannot write it"):
        spark_output.save_rows(rows, f"{schema}.few", expected=3, option="--per-sample")


@needs_spark
def test_a_score_as_a_spark_frame(schema: str) -> None:
    measured = cal.score(ROWS, by="model", metrics=["accuracy"])
    measured.to_spark(start_session()).write.saveAsTable(f"{schema}.scores")
    found = read(f"{schema}.scores").sort("model")
    assert found["value"].to_list() == [group["accuracy"].value for group in measured.groups]
    assert found.columns == measured.to_polars().columns


def test_only_spark_writes_tables(tmp_path: Path) -> None:
    with pytest.raises(cal.UsageError, match=r"--per-sample .*: only Spark writes tables"):
        cal.score(ROWS, per_sample="table:evals.samples")
    with pytest.raises(cal.UsageError, match=r"--per-task .*: only Spark writes tables"):
        cal.score(ROWS, per_task="table:evals.tasks")
    assert find_table(tmp_path / "samples.parquet") is None


def test_types_that_spark_lacks_are_replaced() -> None:
    nested = pl.Struct({"n": pl.List(pl.UInt32()), "text": pl.Null()})
    conformed = spark_output.conform_schema(
        pl.Schema({"a": pl.UInt64(), "b": nested, "c": pl.Float64()})
    )
    assert conformed == {
        "a": pl.Int64(),
        "b": pl.Struct({"n": pl.List(pl.Int64()), "text": pl.String()}),
        "c": pl.Float64(),
    }

"""Tables that Spark reads: data frames, names in its catalog, addresses; and where it runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

import calipers as cal
from calipers.records.sources import open_sources
from tests.alike import assert_alike
from tests.engines_at_hand import needs_spark

pytest.importorskip("pyspark")
from calipers.engines.spark import spark_sources as spark_table
from calipers.engines.spark.session import start_session
from calipers.records.reading_options import _MASTER, get_master, is_remote

ROWS = [
    {
        "id": f"t{n % 30}",
        "run": n // 60,
        "model": f"m{n // 30 % 2}",
        "answer": str(n % 3),
        "target": "1",
        "latency_ms": 100.0 + n * n % 37,
    }
    for n in range(120)
]
METRICS = ["accuracy", "latency_p95_ms"]


@pytest.fixture
def frame() -> Any:
    return start_session().createDataFrame(pl.DataFrame(ROWS).to_arrow())


@pytest.fixture(autouse=True)
def _no_master() -> Iterator[None]:
    before = _MASTER.set(None)
    yield
    _MASTER.reset(before)


@contextmanager
def kept_where_they_are(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fail where the records of a Spark source are brought here."""

    def refuse(*_: Any, **__: Any) -> Any:
        pytest.fail("records were brought to the driver")

    with monkeypatch.context() as patched:
        patched.setattr(spark_table.SparkSource, "chunks", refuse)
        patched.setattr(spark_table, "collect_parts", refuse)
        for name in ("toPandas", "toLocalIterator", "__arrow_c_stream__"):
            patched.setattr(
                f"pyspark.sql.classic.dataframe.DataFrame.{name}", refuse, raising=False
            )
        yield


@needs_spark
def test_the_records_of_a_spark_frame_stay_in_the_cluster(
    frame: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrived = []
    original = type(frame).toArrow

    def bring(self: Any) -> Any:
        arrived.append(original(self))
        return arrived[-1]

    monkeypatch.setattr(type(frame), "toArrow", bring)
    with kept_where_they_are(monkeypatch):
        there = cal.score(frame, by="model", metrics=METRICS)
    here = cal.score(ROWS, by="model", metrics=METRICS)
    assert_alike(there.to_dict()["groups"], here.to_dict()["groups"])
    assert arrived
    assert not any({"answer", "target", "id"} & {*table.column_names} for table in arrived)


@needs_spark
def test_names_in_the_catalog_of_spark(frame: Any) -> None:
    frame.createOrReplaceTempView("some_records")
    there = cal.score("table:some_records", by="model", metrics=METRICS)
    assert there.inputs[0].path == "table:some_records"
    here = cal.score(ROWS, by="model", metrics=METRICS)
    assert_alike(there.to_dict()["groups"], here.to_dict()["groups"])
    streamed = cal.score("table:some_records", by="model", metrics=METRICS, engine="polars")
    assert_alike(streamed.to_dict()["groups"], here.to_dict()["groups"])
    assert cal.read("table:some_records").height == len(ROWS)
    with pytest.raises(cal.DataError, match="table:no_such_table: Spark cannot read it"):
        cal.score("table:no_such_table", metrics=METRICS)


class Asked:
    """Stands for a session, and notes what it is asked to read."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []
        self.read = SimpleNamespace(
            parquet=self._note("parquet"), text=self._note("text"), csv=self._note("csv")
        )
        self.table = self._note("table")

    def _note(self, how: str) -> Callable[..., Any]:
        def read(name: str, **_: Any) -> Any:
            self.calls.append((how, name))
            return SimpleNamespace(columns=["answer"], limit=lambda _: self, collect=list)

        return read

    def collect(self) -> list[Any]:
        return [('{"answer": "1"}',)]


@pytest.mark.parametrize(
    ("address", "how"),
    [
        ("hdfs://host/logs", "parquet"),
        ("hdfs:/logs/day=1", "parquet"),
        ("s3a://bucket/rows.jsonl", "text"),
        ("abfss://box@store/rows.csv", "csv"),
        ("table:a.b.c", "table"),
        ("table:delta.`s3a://bucket/t`", "table"),
    ],
)
def test_addresses_are_handed_to_spark(
    address: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = Asked()
    monkeypatch.setattr(spark_table, "start_session", lambda: session)
    [source] = open_sources(address)
    assert source.columns() == ["answer"]
    assert session.calls == [(how, address.removeprefix("table:"))]


@needs_spark
def test_every_command_says_the_same_on_spark(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    pl.DataFrame(ROWS).write_parquet(path)
    for asked in (
        lambda engine: cal.compare(path, path, metrics=["accuracy"], engine=engine),
        lambda engine: cal.rank(path, by="model", metrics="accuracy", engine=engine),
        lambda engine: cal.explain("accuracy", path, by="model", engine=engine),
    ):
        assert_alike(asked("spark").to_dict(), asked("polars").to_dict())
    for engine in ("polars", "spark"):
        cal.convert(path, tmp_path / f"{engine}.jsonl", engine=engine)
        cal.report(path, output=tmp_path / f"{engine}.html", engine=engine)
    here, there = ((tmp_path / f"{name}.jsonl").read_text() for name in ("polars", "spark"))
    assert here == there


@needs_spark
def test_bad_rows_are_named_in_every_command_on_spark(tmp_path: Path) -> None:
    lines = [json.dumps(row) for row in ROWS]
    lines[70] = '{"id": "x", "latency_ms": "?"}'
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(cal.DataError, match=r"rows\.jsonl:71: latency_ms"):
        cal.explain("latency_p95_ms", path, engine="spark")


@needs_spark
def test_spark_names_bad_rows_of_a_folder_by_part_and_row(tmp_path: Path) -> None:
    folder = tmp_path / "answers"
    folder.mkdir()
    rows = pl.DataFrame(ROWS).with_columns(prob_correct=0.5)
    stated = [0.5] * rows.height
    stated[7] = stated[90] = 1.7
    rows.write_parquet(folder / "part-0.parquet")
    rows.with_columns(prob_correct=pl.Series(stated)).write_parquet(folder / "part-1.parquet")
    rows.clear().write_parquet(folder / "part-2.parquet")
    found = {}
    for engine in ("polars", "spark"):
        bad = tmp_path / f"{engine}.jsonl"
        options: dict[str, Any] = {"metrics": ["brier"], "on_bad": "skip", "bad_rows": bad}
        score = cal.score(folder, by="model", engine=engine, **options)
        found[engine] = score.to_dict()["groups"], bad.read_text(encoding="utf-8")
    assert_alike(found["spark"][0], found["polars"][0])
    assert found["spark"][1] == found["polars"][1]
    assert [json.loads(line)["row"] for line in found["spark"][1].splitlines()] == [8, 91]


@needs_spark
def test_spark_measures_nothing_of_an_empty_parquet_file(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    pl.DataFrame(ROWS).clear().write_parquet(path)
    here, there = (cal.score(path, metrics=METRICS, engine=e) for e in ("polars", "spark"))
    assert there.records == here.records == 0
    assert_alike(there.to_dict()["groups"], here.to_dict()["groups"])


def test_where_spark_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    assert not is_remote(get_master())
    assert is_remote("sc://host:15002")
    monkeypatch.setenv("SPARK_REMOTE", "sc://host")
    assert is_remote(None)
    assert not is_remote("spark://host:7077")


@needs_spark
def test_another_master_than_that_of_the_active_spark_session_is_refused() -> None:
    start_session()
    with pytest.raises(cal.UsageError, match="another Spark session is active"):
        cal.score(ROWS, metrics=METRICS, engine="spark", spark_master="spark://elsewhere:7077")


def test_spark_connect_without_its_packages_names_the_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("calipers.support.errors.find_spec", lambda _: None)
    with pytest.raises(cal.CalipersError, match="Spark Connect") as caught:
        cal.score(ROWS, metrics=METRICS, engine="spark", spark_master="sc://localhost")
    assert "calipers[spark-connect]" in caught.value.fix


@needs_spark
@pytest.mark.long
@pytest.mark.skipif(
    find_spec("grpc") is None or find_spec("grpc_status") is None, reason="gRPC is not installed"
)
def test_spark_connect_gives_the_same_numbers(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    pl.DataFrame(ROWS).write_parquet(path)
    command = [sys.executable, "-m", "calipers", "score", str(path), "--by", "model"]
    command += [each for name in METRICS for each in ("--metric", name)]
    environment = {**os.environ, "SPARK_REMOTE": "local[1]"}  # starts a server of its own
    environment.pop("PYSPARK_SUBMIT_ARGS", None)
    found = {}
    for engine in ("polars", "spark"):
        output = tmp_path / f"{engine}.json"
        done = subprocess.run(
            [*command, "--engine", engine, "--format", "json", "-o", str(output)],
            check=False,
            env=environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        found[engine] = json.loads(output.read_text(encoding="utf-8"))["groups"]
    assert_alike(found["spark"], found["polars"])

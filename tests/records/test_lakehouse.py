"""Tables with a log: only the files that count are read, or the table is refused."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import calipers as cal
from calipers.records import lakehouse
from calipers.records.sources import open_sources
from tests.alike import assert_alike
from tests.engines_at_hand import needs_spark

WRONG = pl.DataFrame({"id": ["a", "b"], "answer": ["1", "2"], "target": ["1", "3"]})
OLDEST = pl.CompatLevel.oldest()
RIGHT = WRONG.with_columns(answer=pl.col("target"))


@pytest.fixture
def table(tmp_path: Path) -> Path:
    pytest.importorskip("deltalake")
    WRONG.write_delta(tmp_path / "table")
    RIGHT.write_delta(tmp_path / "table", mode="overwrite")
    return tmp_path / "table"


def test_a_delta_table_is_read_in_its_newest_version(table: Path) -> None:
    score = cal.score(str(table), metrics=["accuracy"])
    assert (score.records, score["accuracy"].value) == (2, 1.0)


def test_a_folder_above_a_delta_table_names_the_table(table: Path) -> None:
    with pytest.raises(cal.CalipersError, match="holds a Delta table in table") as caught:
        open_sources(str(table.parent))
    assert str(table) in caught.value.fix


def test_parts_of_a_delta_table_are_refused(table: Path) -> None:
    with pytest.raises(cal.CalipersError, match="a part of a Delta table") as caught:
        open_sources(str(table / "*.parquet"))
    assert str(table) in caught.value.fix


def test_a_delta_table_with_a_broken_log_is_an_error_with_words(table: Path) -> None:
    for commit in (table / "_delta_log").glob("*.json"):
        commit.write_text("{broken")
    with pytest.raises(cal.CalipersError, match="Delta table cannot be read"):
        open_sources(str(table))


def test_without_its_package_the_message_names_the_extra(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("calipers.support.errors.find_spec", lambda _: None)
    with pytest.raises(cal.CalipersError, match="Delta") as caught:
        open_sources(str(table))
    assert "calipers[delta]" in caught.value.fix


@pytest.mark.parametrize("below", [False, True])
def test_hudi_tables_are_refused(*, below: bool, tmp_path: Path) -> None:
    table = tmp_path / "table"
    (table / ".hoodie").mkdir(parents=True)
    WRONG.write_parquet(table / "part.parquet")
    with pytest.raises(cal.CalipersError, match="Hudi") as caught:
        open_sources(str(tmp_path if below else table))
    assert "plain Parquet" in caught.value.fix


@pytest.fixture
def catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Describe a catalog as users do, for PyIceberg to find; the table has a deleted row."""
    pyiceberg = pytest.importorskip("pyiceberg.catalog")
    pytest.importorskip("sqlalchemy")
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__TYPE", "sql")
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__URI", f"sqlite:///{tmp_path}/catalog.db")
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__WAREHOUSE", tmp_path.as_uri())
    monkeypatch.setattr(pyiceberg, "_ENV_CONFIG", type(pyiceberg._ENV_CONFIG)())
    lake = pyiceberg.load_catalog("lake")
    lake.create_namespace("evals")
    table = lake.create_table("evals.answers", schema=WRONG.to_arrow(compat_level=OLDEST).schema)
    for rows in (WRONG, RIGHT.with_columns(id=pl.lit("c-") + pl.col("id"))):
        table.append(rows.to_arrow(compat_level=OLDEST))
    table.delete("id = 'b'")
    return lake


@pytest.mark.usefixtures("catalog")
def test_an_iceberg_table_is_read_in_its_newest_version(tmp_path: Path) -> None:
    folder = next(tmp_path.rglob("metadata")).parent
    for address in ("iceberg:lake.evals.answers", f"iceberg:{folder}", str(folder)):
        score = cal.score(address, metrics=["accuracy"])
        assert (score.records, score["accuracy"].value) == (3, 1.0)
    with pytest.raises(cal.DataError, match="Iceberg table cannot be read") as caught:
        open_sources("iceberg:lake.evals.no_such_table")
    assert "catalog" in caught.value.fix
    with pytest.raises(cal.UsageError, match="not the name of a table"):
        open_sources("iceberg:answers")


def test_an_iceberg_folder_is_read_by_its_newest_metadata(tmp_path: Path) -> None:
    metadata = tmp_path / "metadata"
    metadata.mkdir()
    for name in ("v2.metadata.json", "v10.metadata.json", "00009-ab.metadata.json"):
        (metadata / name).write_text("{}")
    assert lakehouse._find_metadata(tmp_path).name == "v10.metadata.json"
    (metadata / "version-hint.text").write_text("2\n")  # which is written last
    assert lakehouse._find_metadata(tmp_path).name == "v2.metadata.json"
    with pytest.raises(cal.DataError, match="no Iceberg table"):
        open_sources(f"iceberg:{metadata}")


def test_a_broken_iceberg_table_is_an_error_with_words(tmp_path: Path) -> None:
    pytest.importorskip("pyiceberg")
    (tmp_path / "metadata").mkdir()
    (tmp_path / "metadata" / "v1.metadata.json").write_text("{}")
    with pytest.raises(cal.CalipersError, match="Iceberg table cannot be read"):
        open_sources(str(tmp_path))


def test_records_are_written_as_a_delta_table(tmp_path: Path) -> None:
    pytest.importorskip("deltalake")
    place = Path(f"delta:{tmp_path / 'lake' / 'answers'}")
    mixed = [{"id": "a", "answer": 1.5}, {"id": "b", "answer": "two", "tags": ["x"]}]
    written = cal.convert(mixed, place)
    assert written.to_polars().sort("id")["answer"].to_list() == ["1.5", "two"]
    assert open_sources(str(tmp_path / "lake" / "answers"))[0].columns() == [*written.columns]
    with pytest.raises(cal.UsageError, match="exists already, and is not overwritten"):
        cal.convert(mixed, place)


def test_samples_are_written_as_a_delta_table(tmp_path: Path) -> None:
    pytest.importorskip("deltalake")
    cal.score(WRONG, metrics=["accuracy"], per_sample=f"delta:{tmp_path / 'samples'}")
    samples = pl.read_delta(str(tmp_path / "samples"))
    assert samples.sort("id")["correct"].to_list() == [True, False]


def test_a_delta_table_that_fails_leaves_none_behind(tmp_path: Path) -> None:
    pytest.importorskip("deltalake")
    with pytest.raises(cal.DataError):
        cal.convert([{"id": "a", "answer": "1"}, "no record"], f"delta:{tmp_path / 'answers'}")
    assert not (tmp_path / "answers").exists()


def test_records_are_written_as_an_iceberg_table(catalog: Any) -> None:
    written = cal.convert(WRONG, Path("iceberg:lake.evals.copies"))
    assert written.to_polars().sort("id").rows() == WRONG.select(written.columns).rows()
    assert catalog.load_table("evals.copies").scan().to_arrow().num_rows == WRONG.height
    with pytest.raises(cal.UsageError, match="exists already"):
        cal.convert(WRONG, Path("iceberg:lake.evals.copies"))
    with pytest.raises(cal.DataError, match="cannot be created"):
        cal.convert(WRONG, Path("iceberg:lake.no_such_schema.copies"))


@needs_spark
def test_spark_reads_a_delta_table_without_its_package(table: Path, tmp_path: Path) -> None:
    parted = tmp_path / "parted"
    rows = pl.concat([WRONG, RIGHT]).with_columns(model=pl.Series(["o1", "o3", "o3", "o10"]))
    rows.write_delta(parted, delta_write_options={"partition_by": ["model"]})
    rows[:1].write_delta(parted, mode="append")
    samples = {engine: tmp_path / f"samples-{engine}" for engine in ("polars", "spark")}
    for place, by in ((table, []), (parted, ["model"])):
        options: dict[str, Any] = {"metrics": ["accuracy"], "by": by}
        here, there = (cal.score(str(place), **options, engine=e) for e in ("polars", "spark"))
        assert_alike(there.to_dict()["groups"], here.to_dict()["groups"])
    for engine, place in samples.items():
        cal.score(parted, metrics=["accuracy"], per_sample=f"delta:{place}", engine=engine)
    local, spark = (pl.read_delta(str(place)).sort(pl.all()) for place in samples.values())
    assert local.equals(spark)
    assert local.height == 5


@needs_spark
@pytest.mark.usefixtures("catalog")
def test_spark_reads_an_iceberg_table_without_its_package() -> None:
    score = cal.score("iceberg:lake.evals.answers", metrics=["accuracy"], engine="spark")
    assert (score.records, score["accuracy"].value) == (3, 1.0)


@needs_spark
def test_spark_without_the_format_says_so(table: Path) -> None:
    with pytest.raises(cal.CalipersError, match=r"no reader for such tables|cannot read it"):
        cal.score(f"table:delta.`{table}`", metrics=["accuracy"], engine="spark")

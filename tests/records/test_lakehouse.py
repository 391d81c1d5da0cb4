"""Tables with a log: only the files that count are read, or the table is refused."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import calipers as cal
from calipers.records.sources import open_sources
from tests.engines_at_hand import needs_spark

WRONG = pl.DataFrame({"id": ["a", "b"], "answer": ["1", "2"], "target": ["1", "3"]})
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


@pytest.mark.parametrize(
    ("log", "kind"),
    [(".hoodie/hoodie.properties", "Hudi"), ("metadata/v1.metadata.json", "Iceberg")],
)
@pytest.mark.parametrize("below", [False, True])
def test_other_tables_are_refused(log: str, kind: str, *, below: bool, tmp_path: Path) -> None:
    table = tmp_path / "table"
    (table / log).parent.mkdir(parents=True)
    (table / log).write_text("{}")
    WRONG.write_parquet(table / "part.parquet")
    with pytest.raises(cal.CalipersError, match=kind) as caught:
        open_sources(str(tmp_path if below else table))
    assert "plain Parquet" in caught.value.fix


@needs_spark
def test_spark_without_delta_says_so(table: Path) -> None:
    options: dict[str, Any] = {"metrics": ["accuracy"], "engine": "spark"}
    with pytest.raises(cal.CalipersError, match="no reader for such tables"):
        cal.score(str(table), **options)

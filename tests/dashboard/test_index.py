"""Indexes: built once, whole, in the cache, and as far as they are while they are built."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from time import sleep
from typing import Any

import polars as pl
import pytest

import calipers
from calipers.dashboard import caches
from calipers.dashboard.catalog import Catalog
from calipers.dashboard.index import Index
from calipers.dashboard.index_builder import BEGINNING_ROWS, Exact, build_index, cut_chunk
from calipers.dashboard.index_cache import Indexes, NotYet
from calipers.dashboard.measurements import Measurements
from calipers.dashboard.selection import Query, Selector
from calipers.metrics.checks.checks import read_checks
from calipers.records.batch import Wanted
from calipers.records.readers.line_chunk import JsonLinesChunk
from calipers.records.sources import open_sources
from calipers.support.errors import DataError
from tests.dashboard.dashboards import records, two_models
from tests.dashboard.indexed import ids, opened
from tests.files import write_lines


@pytest.mark.usefixtures("cache")
def test_records_are_kept_as_they_are(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = records(30)
    rows[3] |= {"trace": {"tool_calls": [{"tool_name": "x", "duration": 1.5, "own": [1]}]}}
    rows[4] |= {
        "judgments": [{"judge": "j", "passed": True, "reason": "fine"}],
        "own": {"a": [1, 2]},
    }
    rows[5] |= {"error": "timeout: slow", "tags": ["x", "y"]}
    found = opened(write_lines(tmp_path / "r.jsonl", rows))
    for at, row in enumerate(rows):
        record = found.index.read_records([at]).row(0, named=True)
        for name, value in row.items():
            kept = record[name]
            assert kept == value or json.loads(kept) == value, name


@pytest.mark.usefixtures("cache")
def test_a_score_of_the_index_is_the_score_of_the_file(tmp_path: Path) -> None:
    path = two_models(tmp_path)
    found = opened(path)
    ours = Measurements().score(found, Query(by=("model",)), "x")
    theirs = calipers.score(path, by="model")
    assert [group.to_dict()["metrics"] for group in ours.groups] == [
        group.to_dict()["metrics"] for group in theirs.groups
    ]


@pytest.mark.usefixtures("cache")
def test_bad_rows_are_left_out_and_told(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "r.jsonl", records(5))
    with path.open("a") as file:
        file.write('{"id": "bad", "prob_correct": 7}\nnot json\n')
    summary = opened(path).index.summary
    assert summary.skipped == 2
    assert "row 6: prob_correct: 7 is outside [0, 1]" in summary.problems[0]


@pytest.mark.usefixtures("cache")
def test_a_field_of_several_types_costs_no_record(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [row | {"own": n} for n, row in enumerate(records(300))]
    rows[-1]["own"] = "text"
    index = opened(write_lines(tmp_path / "r.jsonl", rows)).index
    assert index.rows == 300
    assert index.read_column("own").to_list() == [*map(str, range(299)), "text"]


@pytest.mark.usefixtures("cache")
def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    path = tmp_path / "r.parquet"
    path.write_bytes(b"no parquet at all")
    with pytest.raises(DataError, match="cannot be read"):
        opened(path)


def test_the_index_is_built_once_and_never_beside_the_data(tmp_path: Path, cache: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    path = two_models(data)
    opened(path)
    assert list(data.iterdir()) == [path]
    built = list(cache.rglob("records-*.arrow"))
    assert built
    stamps = {file: file.stat().st_mtime_ns for file in built}
    opened(path)
    assert {file: file.stat().st_mtime_ns for file in cache.rglob("records-*.arrow")} == stamps
    write_lines(path, records(7))
    assert opened(path).index.rows == 7


def test_old_indexes_go(tmp_path: Path, cache: Path) -> None:
    for name in ("one", "two", "three"):
        opened(write_lines(tmp_path / f"{name}.jsonl", records(50)))
    [first, *others] = cache.rglob(caches.META)
    assert len(others) == 2
    (first.parent / "replaced.arrow").symlink_to("gone")  # as while somebody writes an index
    caches.prune(most_bytes=1)
    assert list(cache.rglob(caches.META)) == []


def test_a_field_that_only_some_parts_have(tmp_path: Path, cache: Path) -> None:
    del cache
    parts = tmp_path / "table"
    parts.mkdir()
    rows = records(20)
    late = [
        row | {"error": "timeout: slow", "tier": "T1", "own": 7.5} for row in records(3, "late")
    ]
    pl.DataFrame(rows).write_parquet(parts / "part-0.parquet")
    pl.DataFrame(late).write_parquet(parts / "part-1.parquet")
    found = Indexes().open(Catalog(tmp_path).list_entries()[0], wait=30)
    assert ids(found, "failed=true") == ["t0", "t1", "t2"]
    assert len(ids(found, "tier=(none)")) == 20
    assert len(ids(found, "own=7.5&q=timeout")) == 3
    score = Measurements().score(found, Query(by=("tier",)), "x")
    assert [(group.by["tier"], group.errors) for group in score.groups] == [("T1", 3), (None, 0)]


def test_what_is_there_is_shown_while_the_rest_is_indexed(tmp_path: Path, cache: Path) -> None:
    del cache
    write_lines(tmp_path / "r.jsonl", records(30_000))
    entry = Catalog(tmp_path).list_entries()[0]
    indexes = Indexes()
    with pytest.raises(NotYet, match="is being indexed"):
        indexes.open(entry, wait=0)
    whole = indexes.open(entry, wait=300)
    assert whole.complete
    assert whole.index.rows == 30_000


def test_a_journal_that_grows_is_indexed_again_after_a_while(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del cache
    now = 100.0
    monkeypatch.setattr("calipers.dashboard.index_cache.monotonic", lambda: now)
    path = write_lines(tmp_path / "r.jsonl", records(3))
    entry = Catalog(tmp_path).list_entries()[0]
    indexes = Indexes()

    def count_rows() -> int:
        for _ in range(600):
            with suppress(NotYet):
                return indexes.open_growing(entry).index.rows
            sleep(0.1)
        raise AssertionError("nothing was indexed")

    assert count_rows() == 3
    write_lines(path, records(9))
    assert count_rows() == 3, "a moment ago"
    now += 1000
    for _ in range(600):  # until then the last whole index is shown
        if (rows := count_rows()) != 3:
            break
        sleep(0.1)
    assert rows == 9


def test_the_first_rows_of_a_large_source_come_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "calipers.records.readers.tables.CHUNK_ROWS", 500
    )  # of short rows twice as many
    path = tmp_path / "r.parquet"
    pl.DataFrame(records(2500)).write_parquet(path)
    seen = []
    build_index(path, tmp_path / "index", lambda share, index: seen.append((share, index.rows)))
    assert seen == [(0.0, BEGINNING_ROWS), (0.4, 1000), (0.8, 2000), (1.0, 2500)]


def test_the_beginning_of_json_lines_is_cut_before_it_is_read(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "r.jsonl", records(BEGINNING_ROWS + 50))
    [chunk] = open_sources(path)[0].chunks(Wanted(("id", "answer"), {}))
    for whole in (chunk, Exact(chunk)):
        cut = cut_chunk(whole)
        assert cut.exact().frame.equals(chunk.exact().frame.head(BEGINNING_ROWS))
    assert isinstance(cut_chunk(chunk), JsonLinesChunk)
    long = write_lines(tmp_path / "long.jsonl", [{"id": "a", "answer": "x" * (2 << 20)}] * 2)
    [chunk] = open_sources(long)[0].chunks(Wanted(("id", "answer"), {}))
    assert cut_chunk(chunk).exact().frame.height == 2


def test_an_empty_file_is_an_empty_table(tmp_path: Path, cache: Path) -> None:
    del cache
    path = tmp_path / "r.jsonl"
    path.write_text("")
    index: Index = opened(path).index
    assert index.rows == 0
    assert len(Selector(index).select(Query()).rows) == 0


@pytest.mark.usefixtures("cache")
def test_fields_may_have_other_names(tmp_path: Path) -> None:
    row = {"name": "x", "said": "1", "target": "1", "steps": {"tool_calls": []}}
    write_lines(tmp_path / "a.jsonl", [row])
    (entry,) = Catalog(tmp_path).list_entries()
    names = {"id": "name", "answer": "said", "trace": "steps", "cot": "nowhere"}
    record, values = Indexes(names).open(entry, wait=30).index.read_one(0)
    assert record == {"id": "x", "answer": "1", "target": "1", "trace": '{"tool_calls": []}'}
    assert values["correct"] is True
    plain = Indexes().open(entry, wait=30).index  # another way to read is another index
    assert "answer" not in plain.columns


@pytest.mark.usefixtures("cache")
def test_checks_are_applied_to_what_is_looked_at(tmp_path: Path) -> None:
    rows = [{"id": "a", "order": 17, "answer": "17 it is"}, {"id": "b", "order": 18, "answer": "?"}]
    write_lines(tmp_path / "a.jsonl", rows)
    (tmp_path / "own.py").write_text("def is_long(record): return len(record['answer']) > 2\n")
    (entry,) = Catalog(tmp_path).list_entries()
    written = [{"expect": "names it", "contains": "{order}"}]
    checks = read_checks(
        [*written, {"expect": "is long", "python": "own.py:is_long"}], base=tmp_path
    )
    index = Indexes(checks=checks).open(entry, wait=30).index
    assert [index.read_one(at)[1]["passed"] for at in (0, 1)] == [True, False]
    held = [each["held"] for each in json.loads(index.read_one(0)[0]["checks"])]
    assert held == [True, True]
    plain = Indexes().open(entry, wait=30).index
    assert "checks" not in plain.columns
    place = Indexes(checks=checks).locate(entry)  # its function may be another by then
    assert place != Indexes(checks=checks).locate(entry)
    portable = read_checks(written)
    assert Indexes(checks=portable).locate(entry) == Indexes(checks=portable).locate(entry)


@pytest.mark.usefixtures("cache")
def test_metrics_of_a_plug_in_are_shown_under_their_fields(tmp_path: Path) -> None:
    calipers.register(
        calipers.metrics.mean("score_tone", name="tone", better="higher", range=(0, 1))
    )
    write_lines(tmp_path / "a.jsonl", [{"id": "a", "score_tone": 0.5}])
    (entry,) = Catalog(tmp_path).list_entries()
    index = Indexes().open(entry, wait=30).index
    assert index.read_one(0)[1]["score_tone"] == 0.5
    assert not [name for name in index.read_one(0)[1] if name.startswith("own_")]


def test_rows_that_lie_far_apart_are_read_in_the_order_asked_for(tmp_path: Path) -> None:
    write_lines(tmp_path / "a.jsonl", [{"id": f"t{n}", "answer": str(n)} for n in range(400)])
    index = opened(tmp_path / "a.jsonl").index
    rows = [(7 * n) % 400 for n in range(120)]
    assert index.read_records(rows, ["answer"])["answer"].to_list() == [str(n) for n in rows]

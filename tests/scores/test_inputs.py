"""Several inputs, and the same bytes whatever they are read from."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import calipers as cal
from calipers.engines.group_totals import GroupTotals
from calipers.records.batch import Source
from calipers.records.readers.bytestream import Block, read_blocks
from calipers.records.readers.lines import JsonLines
from calipers.records.readers.tables import RowList
from calipers.scores.options import Options
from calipers.scores.score import run_engine
from tests.examples import first_of
from tests.files import write_lines
from tests.scores.scored_records import RECORDS


def test_what_is_no_local_file_has_no_hash(tmp_path: Path) -> None:
    folder = tmp_path / "lake"
    folder.mkdir()
    pl.DataFrame({"answer": ["a"]}).write_parquet(folder / "p.parquet")
    for data, name in [
        (folder, str(folder)),
        ([{"answer": "a"}], "<records>"),
        (pl.DataFrame({"answer": ["a"]}), "<table>"),
    ]:
        assert cal.score(data, hash_inputs=True).to_dict()["inputs"] == [
            {"path": name, "rows": 1, "sha256": None}
        ]


@pytest.mark.long
def test_a_file_beyond_64_mib_is_hashed_when_asked(tmp_path: Path) -> None:
    path = tmp_path / "large.jsonl"
    line = json.dumps({"answer": "a", "input": "x" * (1 << 20)}) + "\n"
    path.write_text(line * 64)
    assert path.stat().st_size > 64 << 20
    assert cal.score(path).inputs[0].sha256 is None
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert cal.score(path, hash_inputs=True).inputs[0].sha256 == digest
    path.write_text(line * 63)
    assert cal.score(path).inputs[0].sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


def test_several_files_and_patterns_are_one_data_set(tmp_path: Path) -> None:
    write_lines(tmp_path / "a.jsonl", RECORDS[:3])
    write_lines(tmp_path / "b.jsonl", RECORDS[3:5])
    pl.DataFrame(RECORDS[5:], infer_schema_length=None).write_parquet(tmp_path / "c.parquet")
    together = cal.score([tmp_path / "*.jsonl", str(tmp_path / "c.parquet")], by="model")
    assert [each.path for each in together.inputs] == [
        str(tmp_path / name) for name in ("a.jsonl", "b.jsonl", "c.parquet")
    ]
    assert [each.rows for each in together.inputs] == [3, 2, 2]
    assert together.groups == cal.score(RECORDS, by="model").groups


def test_the_same_file_twice_is_read_twice(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", RECORDS)
    score = cal.score([path, path])
    assert score.records == 14
    assert [each.rows for each in score.inputs] == [7, 7]


def many_records(count: int) -> list[dict[str, Any]]:
    chance = random.Random(11)
    answers = ["1", "1.0", "2", "x y", None]
    return [
        {
            "id": f"q{chance.randrange(count // 3)}",
            "model": chance.choice(["a", "b", None]),
            "run": number,
            "answer": chance.choice([*answers, str(chance.random())]),
            "target": "1",
            "cot": "w " * chance.randrange(9),
            "prob_correct": chance.random(),
            "latency_ms": chance.expovariate(0.01),
        }
        for number in range(count)
    ]


class InBlocks(JsonLines):
    """A file in blocks of a size of our choice."""

    def __init__(self, path: Path, size: int) -> None:
        super().__init__(path)
        self._size = size

    def _blocks(self) -> Iterator[tuple[Block, float]]:
        assert self.path is not None
        return read_blocks(Path(self.path), size=self._size)


def totals(*sources: Source) -> GroupTotals:
    options = Options(by=("model",))
    return run_engine(sources, options.plan(), options, lambda _: None).groups


@pytest.mark.parametrize(
    ("count", "times"),
    [
        (300, 4),
        pytest.param(4_000, 6, marks=pytest.mark.long),
        pytest.param(40_000, 2, marks=pytest.mark.long),
    ],
)
def test_the_same_input_gives_the_same_bytes(count: int, times: int, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", many_records(count))
    assert len({cal.score(path, by="model").to_json() for _ in range(times)}) == 1


@pytest.mark.parametrize("size", first_of([10**5, 10_000, 10**6]))
def test_the_size_of_a_block_does_not_show(size: int, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", many_records(4_000))
    assert totals(InBlocks(path, size)) == totals(JsonLines(path))


def test_the_format_and_its_slices_do_not_show(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("calipers.records.readers.tables.CHUNK_ROWS", 2_000)
    monkeypatch.setattr("calipers.records.readers.csv_file._CHUNK_ROWS", 2_000)
    rows = many_records(5_000)  # more than a slice of a table or a list
    lines = totals(JsonLines(write_lines(tmp_path / "a.jsonl", rows)))
    assert totals(RowList(rows, "rows")) == lines
    frame = pl.DataFrame(rows, infer_schema_length=None)
    frame.write_parquet(tmp_path / "a.parquet", row_group_size=999)
    frame.write_csv(tmp_path / "a.csv")
    scores = [
        cal.score(data, by="model").to_dict()["groups"]
        for data in (tmp_path / "a.jsonl", tmp_path / "a.parquet", tmp_path / "a.csv", frame)
    ]
    assert all(score == scores[0] for score in scores)

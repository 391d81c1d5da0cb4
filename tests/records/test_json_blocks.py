"""JSON lines in blocks and archives: nothing is lost or numbered wrongly, however it is cut."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
import zstandard

import calipers as cal
from calipers.records.batch import Wanted
from calipers.records.readers.bytestream import read_blocks
from calipers.records.readers.line_chunk import JsonLinesChunk
from calipers.records.readers.lines import JsonLines
from calipers.records.rows import read_numbered_lines


@pytest.fixture
def varied() -> bytes:
    """Lines of very different lengths, the last without an end."""
    rows = [{"id": str(n), "answer": "é" * (n * 37 % 400)} for n in range(60)]
    return "\n".join(json.dumps(row, ensure_ascii=False) for row in rows).encode()


def packed(data: bytes, suffix: str) -> bytes:
    if suffix == ".gz":
        return gzip.compress(data)
    return zstandard.compress(data) if suffix == ".zst" else data


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
@pytest.mark.parametrize("size", [1, 2, 7, 100, 399, 1000, 5000, 10**6])
def test_blocks_are_whole_lines_and_lose_nothing(
    suffix: str, size: int, varied: bytes, tmp_path: Path
) -> None:
    path = tmp_path / f"a.jsonl{suffix}"
    path.write_bytes(packed(varied, suffix))
    seen = b""
    for block, done in read_blocks(path, size=size):
        data = block.data
        assert data
        assert block.first == seen.count(b"\n")
        seen += data
        assert data.endswith(b"\n") or seen == varied
        assert 0 < done <= 1
    assert seen == varied


@pytest.mark.parametrize("size", [1, 50, 700])
def test_a_bad_line_has_its_number_in_the_file_however_it_is_cut(
    size: int, varied: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(varied.replace(b'"id": "41"', b'"id": ["41"]'))
    bad = [
        row
        for block, _ in read_blocks(path, size=size)
        for row in JsonLinesChunk(block, "a", Wanted(("id",)), {}).exact().bad
    ]
    assert [(row.row, row.problem) for row in bad] == [(42, 'id: ["41"] is a list, not a text')]


def test_lines_longer_than_what_is_looked_at_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    long = [{"id": str(n), "answer": str(n) * 200_000} for n in range(3)]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in long))
    blocks = [block for block, _ in read_blocks(path, size=1000)]
    assert [json.loads(block.data) for block in blocks] == long


def test_a_carriage_return_within_a_row_ends_no_line() -> None:
    data = b'{"id": "1",\r "answer": "4"}\r\n{"id": "2"}\n'
    assert [(n, row) for n, _, row in read_numbered_lines(data, 1)] == [
        (1, {"id": "1", "answer": "4"}),
        (2, {"id": "2"}),
    ]


def test_rows_are_numbered_from_the_line_given() -> None:
    found = list(read_numbered_lines(b'{"a": 1}\n\n{"b": 2}\n', 10))
    assert [number for number, _, _ in found] == [10, 12]


LINES = b"".join(b'{"id": "%d", "answer": "4", "target": "4"}\n' % n for n in range(3000))


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.jsonl.gz", gzip.compress(LINES)),
        ("a.jsonl.gz", gzip.compress(LINES[:1000]) + gzip.compress(LINES[1000:])),
        ("a.jsonl.zst", zstandard.compress(LINES)),
        ("a.ndjson.zstd", zstandard.compress(LINES[:1000]) + zstandard.compress(LINES[1000:])),
        ("a.jsonl", gzip.compress(LINES)),
        ("a.jsonl.gz", LINES),
    ],
    ids=["gz", "gz in members", "zst", "zst in frames", "gz by another name", "not packed"],
)
def test_compressed_files_are_read_whole(name: str, data: bytes, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    score = cal.score(path)
    assert score.records == 3000
    assert score.groups[0].metrics["accuracy"].value == 1.0


def _flipped(data: bytes) -> bytes:
    """Wrong bits behind the header: a block of no known kind."""
    return data[:10] + bytes(byte ^ 0xFF for byte in data[10:14]) + data[14:]


@pytest.mark.parametrize("cut", [1, 4, 100])
@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_an_archive_that_was_cut_short_is_an_error(suffix: str, cut: int, tmp_path: Path) -> None:
    path = tmp_path / f"a.jsonl{suffix}"
    path.write_bytes(packed(LINES, suffix)[:-cut])
    with pytest.raises(cal.DataError, match="damaged or cut short") as refused:
        cal.score(path)
    assert refused.value.message.startswith(f"{path}: ")


def test_an_archive_cut_at_a_lines_end_is_an_error_too(tmp_path: Path) -> None:
    # Two frames' worth of whole lines, the second without its end: nothing in it looks wrong.
    compressor = zstandard.ZstdCompressor().compressobj()
    data = compressor.compress(LINES) + compressor.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
    path = tmp_path / "a.jsonl.zst"
    path.write_bytes(data)
    with pytest.raises(cal.DataError, match="it ends inside a frame"):
        cal.score(path, on_bad="skip")


@pytest.mark.parametrize("damage", [_flipped, lambda data: data + b"garbage"])
@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_a_damaged_archive_is_an_error(suffix: str, damage: Any, tmp_path: Path) -> None:
    path = tmp_path / f"a.jsonl{suffix}"
    path.write_bytes(damage(packed(LINES, suffix)))
    with pytest.raises(cal.DataError, match="damaged or cut short"):
        cal.score(path)


@pytest.mark.parametrize(
    "data",
    [b"", b"\n \n", gzip.compress(b""), zstandard.compress(b"")],
    ids=["empty", "blank", "gz", "zst"],
)
def test_a_file_without_records_has_none(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(data)
    score = cal.score(path)
    assert (score.records, score.exit_code, score.inputs[0].rows) == (0, 3, 0)
    assert JsonLines(path).columns() == []

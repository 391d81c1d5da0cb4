"""Hostile files: small on disk, or quick to write, and made to fill the memory of who reads them."""

from __future__ import annotations

import base64
import gzip
import io
import json
import struct
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path

import polars as pl
import zstandard

MB = 1 << 20
_HEADER = json.dumps({"version": 2, "status": "success", "eval": {"task": "t", "model": "m"}})


def _write_gzip(path: Path, pieces: Iterable[bytes]) -> None:
    with gzip.open(path, "wb", compresslevel=3) as file:
        for piece in pieces:
            file.write(piece)


def _write_zstd(path: Path, pieces: Iterable[bytes]) -> None:
    with path.open("wb") as file, zstandard.ZstdCompressor().stream_writer(file) as packed:
        for piece in pieces:
            packed.write(piece)


def _write_eval(path: Path, samples: Iterable[tuple[str, Iterable[bytes]]]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as log:
        log.writestr("header.json", _HEADER)
        for name, pieces in samples:
            with log.open(f"samples/{name}.json", "w", force_zip64=True) as member:
                for piece in pieces:
                    member.write(piece)


def _write_overlapping(path: Path) -> None:
    """Write many entries of the directory that all name the same bytes."""
    _write_eval(path, [("0", [b'{"id":1,"x":"', *[b"x" * MB] * 20, b'"}'])])
    data = path.read_bytes()
    end = data.rfind(b"PK\5\6")
    count, size, start = struct.unpack("<HII", data[end + 10 : end + 20])
    directory = data[start : start + size]
    entry = directory[directory.rfind(b"PK\1\2") :]
    more = b"".join(entry.replace(b"samples/0", b"samples/%c" % (65 + n)) for n in range(26))
    counts = struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, count + 26, count + 26, 0, start, 0)
    counts = counts[:12] + struct.pack("<I", size + len(more)) + counts[16:]
    path.write_bytes(data[:start] + directory + more + counts)


def _write_wide_csv(path: Path) -> None:
    names = ",".join(f"c{number}" for number in range(5000))
    path.write_text(f"{names}\n" + (",".join("1" * 5000) + "\n") * 20)


def _write_differing_keys(path: Path) -> None:
    with path.open("w") as file:
        for row in range(100):
            fields = {f"k{row * 5000 + number}": 1 for number in range(5000)}
            file.write(json.dumps({"id": str(row), "answer": "1", "target": "1", **fields}) + "\n")


def _write_nested_zip(path: Path) -> None:
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("a", b"0" * (50 * MB))
    _write_eval(path, [("1", [inner.getvalue()])])


def _write_alike_rows(path: Path) -> None:
    alike = pl.Series(["4"]).new_from_index(0, 40_000_000)
    frame = pl.DataFrame({"id": alike, "answer": alike, "target": alike})
    frame.write_parquet(path, row_group_size=40_000_000, statistics=False)


def _write_large_cells(path: Path) -> None:
    cells = [f"{number}{'x' * (8 * MB)}" for number in range(60)]
    pl.DataFrame({"id": [str(n) for n in range(60)], "answer": cells}).write_parquet(path)


def _make_line_writer(
    start: bytes, part: bytes, times: int, end: bytes
) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(start + part * times + end)


# By name: how it is made, and what is said of it; None where it is read.
BOMBS: dict[str, tuple[Callable[[Path], object], str | None]] = {
    "wide.csv": (_write_wide_csv, "nothing can be measured"),
    "commas.csv": (_make_line_writer(b"", b",", 4 * MB, b"\n1\n"), "columns, more than 50,000"),
    "quote.csv": (_make_line_writer(b'id,answer\n1,"', b"x\n", 20 * MB, b""), "--max-record-mb"),
    "rows.csv.gz": (
        lambda p: _write_gzip(p, [b"id\n", *[b"1\n" * (MB // 2)] * 600]),
        "--max-expansion",
    ),
    "line.jsonl": (_make_line_writer(b'{"id":"', b"x", 40 * MB, b'"}\n'), "--max-record-mb"),
    "line.jsonl.gz": (lambda p: _write_gzip(p, [b'{"answer": "', *[b"0" * MB] * 600]), "--max-"),
    "line.jsonl.zst": (lambda p: _write_zstd(p, [b"0" * MB] * 10_000), "--max-expansion"),
    "lines.jsonl.gz": (lambda p: _write_gzip(p, [b"{}\n" * (MB // 3)] * 600), "--max-expansion"),
    "lines.jsonl.zst": (
        lambda p: _write_zstd(p, [b'{"id":1}\n' * (MB // 9)] * 4000),
        "--max-expansion",
    ),
    "array.json.gz": (
        lambda p: _write_gzip(p, [b"[{}", *[b",{}" * (MB // 3)] * 600]),
        "--max-expansion",
    ),
    "document.json": (
        _make_line_writer(b'{"results":[', b"[],", 10 * MB, b"[]]}"),
        "--max-record-mb",
    ),
    "values.jsonl": (
        _make_line_writer(b'{"id":"1","tags":[', b"[],", 8 * MB, b"[]]}\n"),
        "--max-record-mb",
    ),
    "deep.jsonl": (_make_line_writer(b'{"id":"1","tags":', b"[", MB, b"\n"), "nested too deep"),
    "deep.json": (_make_line_writer(b"", b'{"a":', MB, b"1"), "not JSON"),
    "keys.jsonl": (_write_differing_keys, None),
    "number.jsonl": (
        _make_line_writer(b'{"id":"1","run":', b"7", 5 * MB, b"}\n"),
        "not a finite number",
    ),
    "number.json": (
        _make_line_writer(b'[{"id":"1","run":', b"7", 5 * MB, b"}]"),
        "not a finite number",
    ),
    "one.eval": (
        lambda p: _write_eval(p, [("1", [b'{"x":[', *[b"[]," * (MB // 3)] * 900, b"[]]}"])]),
        "--max-expansion",
    ),
    "large.eval": (
        lambda p: _write_eval(p, [("1", [b'{"x":"', *[b"x" * MB] * 40, b'"}'])]),
        "--max-record-mb",
    ),
    "many.eval": (
        lambda p: _write_eval(
            p, [(str(n), [b'{"x":"', *[b"x" * MB] * 20, b'"}']) for n in range(20)]
        ),
        "--max-expansion",
    ),
    "overlapping.eval": (_write_overlapping, "--max-expansion"),
    "nested.eval": (_write_nested_zip, "not JSON"),
    "alike.parquet": (_write_alike_rows, "--max-expansion"),
    "cells.parquet": (_write_large_cells, "--max-expansion"),
}


# Eight rows of one column, in whose page header the number of values is −9.
ENDS_POLARS = base64.b64decode(
    "UEFSMRUAFTQVNCwVERUAFQYVBhwAAAACAAAAA1UBAAAAYQEAAABhAQAAAGEBAAAAYRUEGSw1ABgGc2NoZW1hFQIAFQwlAhgC"
    "aWQlAEwcAAAAFhAZHBkcJgAcFQwZJQYAGRgCaWQVABYQFloWWiYISRwVABUAFQIAPBYIGQYZJggIAAAAFloWECYIFloAKCBw"
    "YXJxdWV0LWNwcC1hcnJvdyB2ZXJzaW9uIDI2LjAuMRkcHAAAAIQAAABQQVIx"
)

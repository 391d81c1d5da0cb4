"""A table of bombs, each read in a process whose memory is limited to 2 GB.

The limit is on data (RLIMIT_DATA: heap and private mappings), not on addresses: Polars and its
threads reserve 1.6 GB of addresses before anything is read, of which they use 140 MB.
"""

from __future__ import annotations

import gzip
import resource
import subprocess
import sys
from pathlib import Path
from random import Random

import polars as pl
import pytest

import calipers as cal
from calipers.records.limits import Limits
from calipers.records.readers import parquet_check
from calipers.records.readers.bytestream import Block, read_blocks, stream_blocks
from tests.files import write_lines
from tests.records.bombs import BOMBS, ENDS_POLARS, MB

MEMORY = 2 << 30
SECONDS = 60  # of the processor


def _limit_memory() -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))


_SHOWN = {"line.jsonl.gz"}


@pytest.mark.parametrize(
    "name",
    [name if name in _SHOWN else pytest.param(name, marks=pytest.mark.long) for name in BOMBS],
)
def test_a_bomb_is_read_or_refused_in_bounded_memory(name: str, tmp_path: Path) -> None:
    make, said = BOMBS[name]
    path = tmp_path / name
    make(path)
    done = subprocess.run(
        [sys.executable, "-m", "calipers", "score", str(path), "--format", "json"],
        capture_output=True,
        text=True,
        timeout=10 * SECONDS,
        preexec_fn=_limit_memory,
        check=False,
    )
    assert done.returncode == (0 if said is None else 2), done.stderr[-2000:]
    assert said is None or said in done.stderr
    assert len(done.stderr) < 2000
    assert "Traceback" not in done.stderr


def test_the_limits_can_be_raised_and_are_checked(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", [{"id": "1", "answer": "x" * 2 * MB, "target": "x"}])
    with cal.limit_reading(max_record_mb=1), pytest.raises(cal.DataError, match="more than 1 MB"):
        cal.score(path)
    with cal.limit_reading(max_record_mb=3):
        assert cal.score(path).records == 1
    with pytest.raises(cal.UsageError, match="--max-record-mb"), cal.limit_reading(max_record_mb=0):
        pass
    with (
        pytest.raises(cal.UsageError, match="--max-expansion"),
        cal.limit_reading(max_expansion=float("nan")),
    ):
        pass


def test_constant_logs_of_usual_size_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"id":"1","answer":"4","target":"4"}\n' * 100_000))
    assert path.stat().st_size * 200 < 3_700_000
    assert cal.score(path).records == 100_000


def test_blocks_have_a_bounded_number_of_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"{}\n" * 250_001 + b"{}")
    blocks = [block for block, _ in read_blocks(path)]
    assert [(each.first, each.data.count(b"{}")) for each in blocks] == [
        (0, 100_000),
        (100_000, 100_000),
        (200_000, 50_001),
        (250_001, 1),
    ]


def test_a_line_may_be_as_long_as_the_limit_and_no_longer(tmp_path: Path) -> None:
    limits = Limits(max_record_mb=1 / 1024)
    path = tmp_path / "a"
    path.write_bytes(b"a\n" + b"x" * 1023 + b"\nb\n")
    with path.open("rb") as file:
        found = b"".join(block.data for block in stream_blocks(file, "a", limits))
    assert found == path.read_bytes()
    path.write_bytes(b"a\n" + b"x" * 1025 + b"\nb\n")
    with path.open("rb") as file, pytest.raises(cal.DataError, match="a:2: a record of more than"):
        list(stream_blocks(file, "a", limits))


def test_a_block_knows_what_came_before() -> None:
    assert Block(b"x\n", 3).first == 3


READ_ALL = """
import sys
from pathlib import Path
from calipers.records.readers.parquet_check import check_decoding
from calipers.records.readers.tables import Parquet
from calipers.support.errors import DataError

paths, refused = sorted(Path(sys.argv[1]).glob("*.parquet")), 0
while True:
    try:
        check_decoding(paths)
    except DataError as error:
        paths = [path for path in paths if str(path) not in error.message]
        refused += 1
    else:
        break
for path in paths:
    try:
        Parquet(path).frame()
    except DataError:
        pass
print(len(paths), refused)
"""


@pytest.mark.long
@pytest.mark.parametrize("compression", ["uncompressed", "zstd"])
def test_mutated_parquet_files_end_no_process(tmp_path: Path, compression: str) -> None:
    rows = [
        {"id": f"t{n}", "model": "llama3", "answer": "4" if n % 3 else None, "target": "4"}
        for n in range(40)
    ]
    whole = tmp_path / "whole"
    pl.DataFrame(rows).write_parquet(whole, compression=compression)  # type: ignore[arg-type]
    content, luck = whole.read_bytes(), Random(1)
    extremes = (b"\xff\xff\xff\xff\x0f", b"\xff" * 8 + b"\x7f", b"\x01", b"\x00\x00\x00\x80")
    for number in range(300):
        mutated = bytearray(content)
        for _ in range(luck.choice((1, 1, 2))):
            at = luck.randrange(4, len(mutated) - 8)
            piece = luck.choice(extremes) if luck.random() < 0.3 else luck.randbytes(1)
            mutated[at : at + len(piece)] = piece
        (tmp_path / f"{number}.parquet").write_bytes(mutated)
    (tmp_path / "ends.parquet").write_bytes(ENDS_POLARS)
    done = subprocess.run(
        [sys.executable, "-c", READ_ALL, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    read, refused = map(int, done.stdout.split())
    assert read + refused == 301
    assert refused


def test_a_parquet_file_is_tried_again_only_once_it_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.parquet"
    pl.DataFrame({"id": ["a"]}).write_parquet(path)
    tried: list[int] = []
    monkeypatch.setattr(parquet_check, "_try_apart", lambda paths, _: tried.append(len(paths)))
    for _ in range(3):
        parquet_check.check_decoding([path])
    assert tried == [1]
    pl.DataFrame({"id": ["a", "b"]}).write_parquet(path)
    parquet_check.check_decoding([path, path])
    parquet_check.check_decoding([tmp_path / "gone.parquet"])
    assert tried == [1, 1]

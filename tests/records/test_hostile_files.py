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

import pytest

import calipers as cal
from calipers.records.bytestream import Block, read_blocks, stream_blocks
from calipers.records.limits import Limits
from tests.files import write_lines
from tests.records.bombs import BOMBS, MB

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

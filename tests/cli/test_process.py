"""The command as a process: pipes, terminals, full disks."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import calipers as cal
from tests.commands import run
from tests.examples import first_of
from tests.files import write_lines


def shell(
    *args: object, stdin: bytes | None = b"", **environment: str
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "calipers", *map(str, args)],
        input=stdin,
        capture_output=True,
        timeout=60,
        check=False,
        env={**os.environ, **environment},
    )


def test_standard_input_is_a_file_like_any(data: str) -> None:
    piped = shell("score", "-", "--by", "model", "--format", "json", stdin=Path(data).read_bytes())
    assert (piped.returncode, piped.stderr) == (0, b"")
    score = json.loads(piped.stdout)
    assert score["inputs"] == [{"path": "-", "rows": 4, "sha256": None}]
    assert score["groups"] == cal.score(data, by="model").to_dict()["groups"]


def test_standard_input_beside_files_packed_and_bad(data: str) -> None:
    packed = gzip.compress(b'{"id": "q9"}\n')
    assert run("score", data, "-", "--format", "csv", input=packed).exit_code == 0
    bad = run("score", "-", input=b'{"id": "q9"}\n{"id": }\n')
    assert (bad.exit_code, bad.stdout) == (2, "")
    assert bad.stderr.startswith("error: -:2: not JSON: Expecting value at column 8\n")


def test_empty_standard_input_is_exit_code_3() -> None:
    result = run("score", "-", input=b"")
    assert (result.exit_code, result.stdout) == (3, "No records.\n")
    assert result.stderr == "empty: no records in -\n"


@pytest.mark.parametrize("args", first_of([["score"], ["metrics"]]), ids=" ".join)
def test_a_terminal_that_knows_only_ascii(args: list[str], tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", [{"id": "1", "model": "\u00e9", "answer": "a"}])
    rest = () if args == ["metrics"] else (path, "--by", "model")
    result = shell(*args, *rest, PYTHONIOENCODING="ascii")
    assert (result.returncode, result.stderr) == (0, b"")
    assert b"sce" in result.stdout


@pytest.mark.parametrize(
    "args", first_of([["score", "--format", "json"], ["metrics"]]), ids=" ".join
)
def test_a_reader_that_has_seen_enough(args: list[str], data: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "calipers", *args, *(() if args == ["metrics"] else (data,))],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.close()
    _, told = process.communicate(timeout=60)
    assert (process.returncode, told) == (0, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_full_disk_is_a_message(data: str) -> None:
    with Path("/dev/full").open("wb") as full:
        result = subprocess.run(
            [sys.executable, "-m", "calipers", "score", data, "--format", "json"],
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
        )
    assert result.returncode == 2
    assert result.stderr.startswith(b"error: No space left on device\n")
    assert b"Traceback" not in result.stderr

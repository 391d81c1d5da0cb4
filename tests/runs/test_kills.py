"""SIGKILL at any moment: nothing is lost, and nothing paid twice beyond the calls in flight."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from benchmarks.model_server import ModelServer
from tests.judges.test_suites import judge_in
from tests.runs.killing import CALLS, JUDGED
from tests.runs.suites_at_hand import ROOT, suite_folder, sums

CONCURRENCY = 4

# Counts every call as it begins. Every tenth task fails when it is called for the first time.
SYSTEM = f"""
import os, time

LOG = os.path.join(os.path.dirname(__file__), {CALLS!r})

def answer(record):
    line = f"{{record['model']}} {{record['id']}}\\n".encode()
    file = os.open(LOG, os.O_RDWR | os.O_CREAT | os.O_APPEND)
    seen = os.pread(file, 1 << 24, 0)
    os.write(file, line)
    os.close(file)
    time.sleep(0.002)
    if record["id"].endswith("7") and line not in seen:
        raise ValueError("as ordered")
    return str(int(record["input"].split()[0]) + 1)
"""


class CountingServer(ModelServer):
    """Writes a line for each request before it is answered."""

    def __init__(self, log: Path) -> None:
        super().__init__(latency=0.01)
        self._log = log

    async def complete(self, request: web.Request) -> web.StreamResponse:
        with self._log.open("ab") as file:
            file.write(b"judge\n")
        return await super().complete(request)


@contextmanager
def judges(folder: Path, *, wanted: bool) -> Iterator[list[dict[str, Any]]]:
    if not wanted:
        yield []
        return
    with CountingServer(folder / JUDGED).in_thread() as url:
        yield [judge_in(url, price={"input": 1, "output": 1})]


def kill(folder: Path, kills: int, *, tasks: int = 240, judged: bool) -> dict[str, int]:
    """Kill runs of a suite so often; return what the processes that did it say."""
    (folder / "system.py").write_text(SYSTEM)
    names = ("a", "b", "c") if judged else ("a",)  # answers of all of them wait for one judge
    systems = [{"name": name, "python": "system.py:answer"} for name in names]
    with judges(folder, wanted=judged) as asked:
        given = sums(tasks // len(names))
        suite_folder(folder, given, systems, judges=asked, concurrency=CONCURRENCY)
        arguments = [folder / "suite.yaml", folder, kills, CONCURRENCY, 1]
        done = subprocess.run(
            [sys.executable, "-m", "tests.runs.killing", *map(str, arguments)],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    found: dict[str, int] = json.loads(done.stdout)
    return found


def test_kills_lose_nothing_and_pay_nothing_twice(tmp_path: Path) -> None:
    assert kill(tmp_path, 10, tasks=120, judged=True)["kills"] == 10


@pytest.mark.long
@pytest.mark.parametrize("judged", [False, True], ids=["calls", "judged calls"])
def test_a_thousand_kills_lose_nothing_and_pay_nothing_twice(
    tmp_path: Path, *, judged: bool
) -> None:
    found = kill(tmp_path, 500, judged=judged)
    assert found["kills"] == 500

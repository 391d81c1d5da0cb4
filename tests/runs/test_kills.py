"""SIGKILL at any moment: nothing is lost, and nothing paid twice beyond the calls in flight."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest
from aiohttp import web

from benchmarks.model_server import ModelServer
from tests.files import write_lines
from tests.judges.test_judging import reviews
from tests.judges.test_suites import judge_in
from tests.runs.killing import CALLS, JUDGED
from tests.runs.suites_at_hand import ROOT, suite_folder, sums
from tests.systems.batch_server import BatchServer
from tests.systems.test_batches import make_suite

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
        return run_killer("suite", folder / "suite.yaml", folder, kills, CONCURRENCY, 1)


def run_killer(*arguments: object) -> dict[str, int]:
    """Return what a process says that kills others."""
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


class SlowBatches(BatchServer):
    """Takes a moment for everything, so that a process may be killed at any point of it."""

    def __init__(self) -> None:
        super().__init__()
        self._luck = Random(1)

    async def _take(
        self, request: web.Request, batch: dict[str, dict[str, Any]], mark: Any = None
    ) -> None:
        await asyncio.sleep(self._luck.uniform(0, 0.02))
        await super()._take(request, batch, mark)
        await asyncio.sleep(self._luck.uniform(0, 0.05))

    async def _look(self, request: web.Request) -> web.Response:
        if self._luck.random() < 0.5:
            return web.json_response({"id": "x", "status": "in_progress"})
        return await super()._look(request)

    async def _look_messages(self, request: web.Request) -> web.Response:
        if self._luck.random() < 0.5:
            return web.json_response({"id": "x", "processing_status": "in_progress"})
        return await super()._look_messages(request)

    async def _download(self, request: web.Request) -> web.Response:
        await asyncio.sleep(self._luck.uniform(0, 0.03))
        return await super()._download(request)


@pytest.mark.parametrize(
    ("provider", "kills"),
    [
        ("openai", 4),
        pytest.param("openai", 60, marks=pytest.mark.long),
        pytest.param("anthropic", 60, marks=pytest.mark.long),
    ],
)
def test_kills_of_batches_lose_nothing_and_pay_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, provider: str, kills: int
) -> None:
    monkeypatch.setenv("BATCH_KEY", "sk-batch-0123456789abcdef")
    server = SlowBatches()
    with server.in_thread() as address:
        make_suite(tmp_path, address, sums(12), provider)
        found = run_killer("batches", tmp_path / "suite.yaml", tmp_path, kills, 1)
    assert found["kills"] == kills
    assert sum(map(len, server.batches)) == 12 * found["rounds"]
    for number in range(found["rounds"]):
        lines = (tmp_path / f"round{number}" / "records.jsonl").read_bytes().split(b"\n")[:-1]
        records = [json.loads(line) for line in lines]
        assert {each["id"] for each in records} == {each["id"] for each in sums(12)}
        assert len(records) == 12
        assert all(each["answer"] == each["target"] for each in records)


@pytest.mark.long
def test_kills_of_judge_lose_nothing_and_pay_for_what_was_in_flight(tmp_path: Path) -> None:
    kills = 80
    records = write_lines(tmp_path / "records.jsonl", reviews(60))
    with CountingServer(tmp_path / JUDGED).in_thread() as url:
        asked = ("--rubric", "constructiveness", "--model", "openai:judge-good")
        more = ("--base-url", url, "--concurrency", str(CONCURRENCY))
        found = run_killer("judges", records, tmp_path, kills, 1, *asked, *more)
    assert found["kills"] == kills
    for number in range(found["rounds"]):
        lines = (tmp_path / f"judged{number}.jsonl").read_bytes().split(b"\n")[:-1]
        judged = [json.loads(line) for line in lines]
        assert [each["id"] for each in judged] == [f"r{n}" for n in range(60)]
        assert all(each["judgments"][0]["scores"] for each in judged)
    paid = (tmp_path / JUDGED).read_bytes().count(b"\n")
    assert 60 * found["rounds"] <= paid <= 60 * found["rounds"] + CONCURRENCY * kills

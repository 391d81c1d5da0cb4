"""Runs a suite in forked processes and kills each at a random moment, until it is complete.

python -m tests.runs.killing suite SUITE FOLDER KILLS CONCURRENCY SEED
python -m tests.runs.killing batches SUITE FOLDER KILLS SEED
python -m tests.runs.killing judges RECORDS FOLDER KILLS SEED OPTIONS…

What takes time to import is imported once, before the first fork. After every kill it is checked
that nothing is lost and that no more calls were made for nothing than are in flight. A suite that is
complete begins again in another folder, until there were enough kills.
"""

from __future__ import annotations

import gc
import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp  # noqa: F401
import polars as pl  # noqa: F401 (its threads begin with its first use, which is in the child)

import calipers.gates.decide
import calipers.judges.judge_files
import calipers.systems.models  # noqa: F401
from calipers.cli import app
from calipers.runs.prepare import prepare_file
from calipers.runs.run import run_suite
from calipers.support.errors import CalipersError
from calipers.systems.batches import batch_model

CALLS = "calls.log"  # a line per call of the system, beside the suite
JUDGED = "judge_calls.log"  # a line per request to a judge
_STARTING = 0.1  # seconds, of which some kills come in the first
_CALLING = 0.08  # seconds after the first call, within which the others come


def fork_run(suite: Path, folder: Path) -> int:
    """Begin a run in a process of its own; return its id."""

    def run() -> int:
        return run_suite(
            prepare_file(suite), folder, lambda _: nullcontext(), report=False
        ).exit_code

    return fork_work(run, suite.parent / "failed")


def fork_work(work: Callable[[], int], failed: Path) -> int:
    """Begin work in a process of its own, which says in a file what went wrong; return its id."""
    pid = os.fork()
    if pid:
        return pid
    code = 9
    try:
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        code = work()
    except CalipersError as error:
        failed.write_text(f"{error.message}; {error.fix}")
    except BaseException as error:  # noqa: BLE001 (told of by the parent)
        failed.write_text(repr(error))
    finally:
        os._exit(code)


def kill_at_random(begin: Callable[[], int], most: int, seconds: float, luck: random.Random) -> int:
    """Kill what is begun within so many seconds, at most so often, until it ends; count kills."""
    kills = 0
    while True:
        pid = begin()
        ended = status = 0
        until = time.monotonic() + (luck.uniform(0, seconds) if kills < most else 60)
        while not ended and time.monotonic() < until:
            time.sleep(0.001)
            ended, status = os.waitpid(pid, os.WNOHANG)
        if not ended:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            assert kills < most, "it does not end"
            kills += 1
        elif os.WEXITSTATUS(status) == 0:
            return kills
        else:
            assert os.WEXITSTATUS(status) == 3, status  # something failed, and is done again


class Books:
    """What was paid for, and what of it is kept."""

    def __init__(self, suite: Path, concurrency: int) -> None:
        self._base = suite.parent
        self._concurrency = concurrency
        self._read_kept: set[tuple[Any, ...]] = set()
        self._find_calls = self._count(CALLS)
        self._judge_calls_before = self._count(JUDGED)
        self._read_evaluations: set[tuple[Any, ...]] = set()
        self.kills = 0

    def _count(self, name: str) -> int:
        path = self._base / name
        return path.read_bytes().count(b"\n") if path.exists() else 0

    def wait(self, pid: int, luck: random.Random) -> tuple[int, int]:
        """Wait for a random moment of a process; return its id and status if it ends before."""
        ended = status = 0
        if luck.random() < 0.2:
            time.sleep(luck.uniform(0, _STARTING))
        else:
            while not ended and self._count(CALLS) == self._find_calls:
                time.sleep(0.001)
                ended, status = os.waitpid(pid, os.WNOHANG)
            time.sleep(0 if ended else luck.uniform(0, _CALLING))
        return (ended, status) if ended else os.waitpid(pid, os.WNOHANG)

    def check(self, folder: Path) -> None:
        """Check the folder after one more process has ended."""
        now, judged = _answers(folder)
        lost = {key for key in self._read_kept if not key[-1]} - now
        assert not lost, f"lost: {sorted(lost)[:3]}"
        assert self._read_evaluations <= judged, "a judgment is lost"
        calls = self._count(CALLS)
        for_nothing = calls - self._find_calls - len(now - self._read_kept)
        assert for_nothing <= self._concurrency, f"{for_nothing} calls for nothing"
        self._find_calls, self._read_kept, self._read_evaluations = (
            calls,
            self._read_kept | now,
            judged,
        )
        twice = self._count(JUDGED) - self._judge_calls_before - len(judged)
        assert twice <= self.kills * self._concurrency, f"{twice} judgments for nothing"


def _answers(folder: Path) -> tuple[set[tuple[Any, ...]], set[tuple[Any, ...]]]:
    """Return the calls that are kept, failed ones marked as such, and those that are judged."""
    kept, judged = set(), set()
    for name in ("records.jsonl", ".unjudged.jsonl"):
        path = folder / name
        for line in path.read_bytes().split(b"\n")[:-1] if path.exists() else ():
            record = json.loads(line)
            key = (record["model"], record["id"], record["run"])
            kept.add((*key, "error" in record))
            if any(each.get("scores") for each in record.get("judgments", ())):
                judged.add(key)
    return kept, judged


def kill_until_complete(suite: Path, folder: Path, books: Books, most: int, luck: Any) -> None:
    """Kill runs of a suite, at most so often, and see it complete."""
    while True:
        pid = fork_run(suite, folder)
        if books.kills < most:
            ended, status = books.wait(pid, luck)
            if not ended:
                os.kill(pid, signal.SIGKILL)
                books.kills += 1
                _, status = os.waitpid(pid, 0)
        else:
            _, status = os.waitpid(pid, 0)
        books.check(folder)
        if os.WIFEXITED(status):
            failed = suite.parent / "failed"
            assert not failed.exists(), failed.read_text()
            if os.WEXITSTATUS(status) == 0:
                return
            assert os.WEXITSTATUS(status) == 3, status  # calls failed, and are made again


def kill_batches(suite: Path, results: Path, kills: int, seed: int) -> None:
    """Kill runs of a suite of batches so often; print how many folders were completed."""
    batch_model._FIRST_WAIT, batch_model._QUIET = 0.01, 0.02
    luck, done, rounds = random.Random(seed), 0, 0
    while done < kills:
        folder = results / f"round{rounds}"
        done += kill_at_random(partial(fork_run, suite, folder), min(6, kills - done), 0.4, luck)
        rounds += 1
    sys.stdout.write(json.dumps({"kills": done, "rounds": rounds}))


def kill_judges(records: Path, results: Path, kills: int, seed: int, *asked: str) -> None:
    """Kill `calipers judge` so often; print how many files were completed."""
    luck, done, rounds = random.Random(seed), 0, 0
    while done < kills:
        output = results / f"judged{rounds}.jsonl"
        arguments = ["judge", str(records), *asked, "-o", str(output)]

        def judge(arguments: list[str] = arguments) -> int:
            try:
                app(arguments, standalone_mode=True)
            except SystemExit as left:
                return int(left.code or 0)
            return 0

        begin = partial(fork_work, judge, results / "failed")
        done += kill_at_random(begin, min(6, kills - done), 0.4, luck)
        rounds += 1
    sys.stdout.write(json.dumps({"kills": done, "rounds": rounds}))


def main(suite: Path, results: Path, kills: int, concurrency: int, seed: int) -> None:
    """Kill so often; print what came of it."""
    luck = random.Random(seed)
    done = rounds = 0
    while done < kills:
        books = Books(suite, concurrency)
        folder = results / f"round{rounds}"
        kill_until_complete(suite, folder, books, kills - done, luck)
        records = [json.loads(line) for line in (folder / "records.jsonl").open()]
        keys = {(each["model"], each["id"], each["run"]) for each in records}
        planned = json.loads((folder / "manifest.json").read_text())["data"]["tasks"]
        models = {each["model"] for each in records}
        assert len(keys) == len(records) == planned * len(models)
        done += books.kills
        rounds += 1
    sys.stdout.write(json.dumps({"kills": done, "rounds": rounds}))


if __name__ == "__main__":
    what, file, folder, *numbers = sys.argv[1:]
    gc.freeze()
    if what == "suite":
        main(Path(file), Path(folder), *map(int, numbers))
    elif what == "batches":
        kill_batches(Path(file), Path(folder), *map(int, numbers))
    else:
        kill_judges(Path(file), Path(folder), int(numbers[0]), int(numbers[1]), *numbers[2:])

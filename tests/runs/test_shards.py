"""A run in shards, and the shards put together."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

import calipers as cal
from benchmarks.model_server import ModelServer
from calipers.runs.shards import Shard
from tests import commands
from tests.examples import first_of
from tests.runs.suites_at_hand import ROOT, SuiteFolder, chat, suite_folder, sums

pytestmark = pytest.mark.usefixtures("quick")

SYSTEM = """
import pathlib

def answer(record):
    with (pathlib.Path(__file__).parent / "calls.txt").open("a") as file:
        file.write(f"{record['id']}\\n")
    return {"answer": str(int(record["input"].split()[0]) + 1), "cost_usd": 0.25}
"""
TIMES = ("latency_ms", "duration_seconds", "start_time", "end_time", "attempts")
OF_TIME = ("latency", "duration", "time_score")
GENEROUS = 120.0  # seconds that a busy machine may take to begin


def suite(path: Path, tasks: int = 10, **more: Any) -> SuiteFolder:
    path.mkdir(exist_ok=True)
    (path / "system.py").write_text(SYSTEM)
    system = {"name": "s", "python": "system.py:answer"}
    return suite_folder(path, sums(tasks), [system], **{"runs": 2, "concurrency": 2, **more})


def run_shard(of: SuiteFolder, shard: str, *options: str) -> Result:
    to = str(of.path / f"shard{shard[0]}")
    return run(str(of.path / "suite.yaml"), "--shard", shard, "-o", to, *options)


def run(*arguments: str) -> Result:
    return commands.run("run", *arguments)


def merge(of: SuiteFolder, *names: str, to: str = "all", suite: bool = False) -> Result:
    folders = [str(of.path / each) for each in names]
    file = [str(of.path / "suite.yaml")] if suite else []
    return run(*file, "--merge", *folders, "-o", str(of.path / to), "--no-report")


def records(folder: Path) -> list[dict[str, Any]]:
    """What the records of a folder say, time aside, in one order."""
    lines = (folder / "records.jsonl").read_text(encoding="utf-8").splitlines()
    found = [{k: v for k, v in json.loads(line).items() if k not in TIMES} for line in lines]
    return sorted(found, key=lambda each: (each["id"], each["model"], each["run"]))


def metrics(folder: Path) -> list[Any]:
    """What the score says, time aside."""
    groups = json.loads((folder / "score.json").read_text(encoding="utf-8"))["groups"]
    return [
        {name: each for name, each in group["metrics"].items() if not name.startswith(OF_TIME)}
        for group in groups
    ]


def test_shards_are_the_whole_each_task_once(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("thresholds: {blocking: {accuracy: 90}}")
    folder = suite(tmp_path, policy="policy.yaml")
    for number in (3, 1, 2):
        result = run_shard(folder, f"{number}/3")
        assert result.exit_code == 0, result.output
        assert f"shard {number}/3: {[4, 3, 3][number - 1]} of 10 tasks" in result.stderr
        assert not (tmp_path / f"shard{number}" / "gate.json").exists()
    ids = [{each["id"] for each in records(tmp_path / f"shard{n}")} for n in (1, 2, 3)]
    assert ids[0] == {"t0", "t3", "t6", "t9"}
    assert sorted(each for some in ids for each in some) == sorted(f"t{n}" for n in range(10))
    made = (tmp_path / "calls.txt").read_text()
    merged = merge(folder, "shard1", "shard2", "shard3")
    assert merged.exit_code == 0, merged.output
    assert "PASS" in merged.stdout
    assert folder.run().exit_code == 0  # undisturbed, for comparison
    assert records(tmp_path / "all") == records(folder.results)
    assert metrics(tmp_path / "all") == metrics(folder.results)
    made_by_two = (tmp_path / "calls.txt").read_text()
    again = run(str(tmp_path / "suite.yaml"), "-o", str(tmp_path / "all"), "--no-report")
    assert "nothing new to call: 20 answers reused" in again.stderr
    assert len(made_by_two.split()) == 2 * len(made.split())
    assert (tmp_path / "calls.txt").read_text() == made_by_two


def test_budgets_divide(tmp_path: Path) -> None:
    folder = suite(tmp_path, budget_usd=3.0, budget_calls=9)
    for number in (1, 2):
        result = run_shard(folder, f"{number}/2")
        assert result.exit_code == 3, result.output
        assert len(records(tmp_path / f"shard{number}")) == [5, 4][number - 1]
    merged = merge(folder, "shard2", "shard1")
    assert merged.exit_code == 3
    assert len(records(tmp_path / "all")) == 9
    assert json.loads((tmp_path / "all" / "manifest.json").read_text())["spent_usd"] == 2.25
    assert "Continue with: calipers run SUITE -o" in merged.stderr
    folder.write(budget_usd=1.0, budget_calls=None)
    assert run_shard(folder, "3/4").exit_code == 3
    assert len(records(tmp_path / "shard3")) == 1  # a quarter of a dollar


@pytest.mark.parametrize(
    ("names", "why"),
    first_of(
        [
            (("shard1",), "shard 2/2 is missing"),
            (("shard1", "shard1"), "is named twice"),
            (("shard1", "copy", "shard2"), "shard 1/2 is there twice"),
            (("shard1", "overlap"), "both hold a record of task t"),
            (("shard1", "shard3"), "is one of 2 shards"),
            (("shard1", "elsewhere"), "are of different runs: runs was 1, is 2"),
            (("shard1", "shard2", "out"), "it holds a whole run, not a shard of one"),
            (("shard1", "nowhere"), "nowhere: no folder"),
            (("shard1", "empty"), "empty: no call has ended in it"),
        ],
        quick=2,
    ),
)
def test_what_is_not_the_whole_is_refused(tmp_path: Path, names: tuple[str, ...], why: str) -> None:
    folder = suite(tmp_path, 4, runs=1)
    assert {run_shard(folder, each).exit_code for each in ("1/2", "2/2", "3/3")} == {0}
    assert folder.run().exit_code == 0
    for copy, of in (("copy", "shard1"), ("overlap", "shard2")):
        (tmp_path / copy).mkdir()
        for name in ("manifest.json", "records.jsonl"):
            (tmp_path / copy / name).write_bytes((tmp_path / of / name).read_bytes())
    with (tmp_path / "overlap" / "records.jsonl").open("a") as file:
        file.write((tmp_path / "shard1" / "records.jsonl").read_text())
    (tmp_path / "empty").mkdir()
    folder.write(runs=2)
    to = str(tmp_path / "elsewhere")
    assert run(str(tmp_path / "suite.yaml"), "--shard", "2/2", "-o", to).exit_code == 0
    result = merge(folder, *names)
    assert result.exit_code == 2, result.output
    assert why in result.stderr
    assert not (tmp_path / "all" / "records.jsonl").exists()


def test_a_folder_is_of_one_shard(tmp_path: Path) -> None:
    folder = suite(tmp_path)
    file = str(tmp_path / "suite.yaml")
    assert run_shard(folder, "1/2").exit_code == 0
    to = str(tmp_path / "shard1")
    assert (
        "it was of shard 1/2, and this run is of shard 2/2"
        in run(file, "--shard", "2/2", "-o", to).stderr
    )
    assert "it was of shard 1/2, and this run is of all tasks" in run(file, "-o", to).stderr
    for given, why in (
        (("--shard", "0/2", "-o", to), "--shard 0/2: not I/N with I from 1 to N"),
        (("--shard", "1/2"), "each shard needs a folder of its own"),
        (("--shard", "11/11", "-o", f"{to}x"), "there are 10 tasks, and none for this shard"),
        (("--shard", "1/2", "-o", to, "--until-better", "accuracy"), "a shard sees a part"),
        ((to, "-o", to), "one suite at a time, not 2"),
    ):
        result = run(file, *given)
        assert (result.exit_code, why in result.stderr) == (2, True), result.output


def test_the_suite_is_named_where_it_has_moved(tmp_path: Path) -> None:
    folder = suite(tmp_path / "a", 2)
    results = tmp_path / "results"
    for number in (1, 2):
        cal.run(folder.path / "suite.yaml", results / str(number), shard=f"{number}/2")
    moved = folder.path.rename(tmp_path / "b")
    shards = [results / "1", results / "2"]
    with pytest.raises(cal.UsageError, match="the suite is not where the shards were run"):
        cal.run(output=results / "all", merge=shards)
    result = cal.run(moved / "suite.yaml", results / "all", merge=shards, report=False)
    assert (result.calls, result.done, result.new) == (4, 4, 0)
    with pytest.raises(cal.UsageError, match="it holds a run already"):
        cal.run(moved / "suite.yaml", results / "all", merge=shards)
    with pytest.raises(cal.UsageError, match="--merge calls nothing, and --shard does"):
        cal.run(moved / "suite.yaml", results / "x", merge=shards, shard="1/2")


def test_parts_of_a_number_of_calls_add_up() -> None:
    for budget in range(1, 30):
        for of in range(1, 12):
            parts = [Shard(number, of).divide_calls(budget) or 0 for number in range(1, of + 1)]
            assert (sum(parts), max(parts) - min(parts) <= 1) == (budget, True)


def start_shard(of: SuiteFolder, number: int) -> subprocess.Popen[str]:
    arguments = ["run", str(of.path / "suite.yaml"), "--shard", f"{number}/4", "-o"]
    return subprocess.Popen(
        [sys.executable, "-m", "calipers", *arguments, str(of.path / f"shard{number}")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )


@pytest.mark.long
def test_four_processes_of_which_one_is_killed_are_one_run(tmp_path: Path) -> None:
    """A task of the third shard hangs when it is first asked, so that it is killed at work."""
    tasks = sums(16)
    tasks[10]["input"] += " [[hang]]"  # not the first one, which goes alone: there is a budget
    server = ModelServer(latency=0.01)
    with server.in_thread() as url, ExitStack() as stack:
        system = chat(url, price={"input": 1.0, "output": 2.0})
        folder = suite_folder(tmp_path, tasks, [system], runs=2, concurrency=2, budget_usd=1.0)
        shards = [start_shard(folder, number) for number in (1, 2, 3, 4)]
        for each in shards:
            stack.callback(each.kill)
        journal = tmp_path / "shard3" / "records.jsonl"
        until = time.monotonic() + GENEROUS
        hangs = tasks[10][
            "input"
        ]  # asked before the kill: else it would hang the process that resumes
        while not (server.asked[hangs] and journal.exists() and journal.read_bytes().count(b"\n")):
            assert time.monotonic() < until
            time.sleep(0.02)
        shards[2].kill()
        codes = {each.communicate(timeout=GENEROUS) and each.returncode for each in shards}
        assert codes == {0, -9}
        early = merge(folder, "shard1", "shard2", "shard3", "shard4", to="early")
        assert early.exit_code == 3  # whole in shards, and calls are missing
        resumed = start_shard(folder, 3)
        said, _ = resumed.communicate(timeout=GENEROUS)
        assert resumed.returncode == 0, said
        merged = merge(folder, "shard1", "shard2", "shard3", "shard4")
        assert merged.exit_code == 0, merged.output
        assert folder.run().exit_code == 0
    assert records(tmp_path / "all") == records(folder.results)
    assert metrics(tmp_path / "all") == metrics(folder.results)
    asked = {prompt: count for prompt, count in server.asked.items() if count != 4}
    assert set(asked) <= {tasks[n]["input"] for n in (2, 6, 10, 14)}  # in flight when it was killed

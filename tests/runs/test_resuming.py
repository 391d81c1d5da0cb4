"""Nothing is lost and nothing is paid twice: kills, Ctrl-C, full disks, changed suites."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import resource
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.model_server import ModelServer
from tests.examples import first_of
from tests.judges.test_suites import judge_in
from tests.runs.suites_at_hand import ANSWER, SuiteFolder, chat, suite_folder, sums

PATIENCE = 120  # seconds that a process may take to end on a busy machine


@pytest.mark.usefixtures("quick")
class TestAgain:
    """Running again."""

    def test_what_is_done_is_not_called_again(self, tmp_path: Path) -> None:
        server = ModelServer()
        with server.in_thread() as url:
            suite = suite_folder(tmp_path, sums(5), [chat(url)], answer=ANSWER, runs=2)
            assert suite.run().exit_code == 0
            first = (suite.results / "records.jsonl").read_bytes()
            score = suite.json("score.json")
            again = suite.run()
        assert again.exit_code == 0
        assert sum(server.asked.values()) == 10
        assert (suite.results / "records.jsonl").read_bytes() == first
        assert suite.json("score.json") == score

    @pytest.mark.parametrize("cut", [1, 30, -1])
    def test_a_torn_line_is_dropped_and_its_call_made_anew(self, tmp_path: Path, cut: int) -> None:
        server = ModelServer()
        with server.in_thread() as url:
            suite = suite_folder(tmp_path, sums(5), [chat(url)], answer=ANSWER)
            assert suite.run().exit_code == 0
            journal = suite.results / "records.jsonl"
            content = journal.read_bytes()
            last = content[:-1].rfind(b"\n") + 1
            journal.write_bytes(content[: last + cut] if cut > 0 else content[:cut])
            assert suite.run().exit_code == 0
        assert sorted(suite.errors()) == ["t0", "t1", "t2", "t3", "t4"]
        # A whole record that only lacks the end of its line is not paid for again.
        assert sum(server.asked.values()) == (6 if cut > 0 else 5)

    def test_a_failed_record_is_called_anew_and_replaced(self, tmp_path: Path) -> None:
        server = ModelServer()
        with server.in_thread() as url:
            tasks = [*sums(3), {"id": "bad", "input": "1 + 1 [[500 x2]]", "target": "2"}]
            suite = suite_folder(tmp_path, tasks, [chat(url)], answer=ANSWER, retries=0)
            for errors in (1, 1, 0):
                assert suite.run().exit_code == (3 if errors else 0)
                assert len(suite.records()) == 4
                assert sum(each is not None for each in suite.errors().values()) == errors
        assert max(server.asked.values()) == 3
        assert Counter(server.asked.values()) == {1: 3, 3: 1}

    def test_a_damaged_journal_is_told_of(self, tmp_path: Path) -> None:
        server = ModelServer()
        with server.in_thread() as url:
            suite = suite_folder(tmp_path, sums(2), [chat(url)])
            assert suite.run().exit_code == 0
            journal = suite.results / "records.jsonl"
            journal.write_bytes(b"rubbish\n" + journal.read_bytes())
            result = suite.run()
        assert result.exit_code == 2
        assert "records.jsonl:1: not a record" in result.stderr

    @pytest.mark.parametrize(
        ("change", "told"),
        [
            ({"prompt": "{input}!"}, 'prompt was not there, is "{input}!"'),
            ({"runs": 2}, "runs was 1, is 2"),
            ({"answer": {"regex": "(1)"}}, "answer.after was"),
        ],
    )
    def test_a_changed_suite_is_refused_with_what_changed(
        self, tmp_path: Path, change: dict[str, Any], told: str
    ) -> None:
        server = ModelServer()
        with server.in_thread() as url:
            suite = suite_folder(tmp_path, sums(2), [chat(url)], answer=ANSWER)
            assert suite.run().exit_code == 0
            result = suite.write(**change).run()
        assert result.exit_code == 2
        assert told in result.stderr
        assert sum(server.asked.values()) == 2

    def test_settings_prices_and_data_must_stay_too(self, tmp_path: Path) -> None:
        server = ModelServer()
        with server.in_thread() as url:
            suite = suite_folder(tmp_path, sums(2), [chat(url)])
            assert suite.run().exit_code == 0
            warmer = suite.write(systems=[chat(url, settings={"temperature": 1})]).run()
            assert "systems.mini.settings.temperature was not there, is 1" in warmer.stderr
            more = suite_folder(tmp_path, sums(3), [chat(url)]).run()
            assert "tasks.jsonl has other content (2 tasks then, 3 now)" in more.stderr
        assert (warmer.exit_code, more.exit_code) == (2, 2)

    def test_what_may_change_may(self, tmp_path: Path) -> None:
        server = ModelServer()
        with server.in_thread() as url:
            price = {"input": 1, "output": 1}
            suite = suite_folder(tmp_path, sums(2), [chat(url, price=price)])
            assert suite.run().exit_code == 0
            changed = suite.write(concurrency=1, retries=0, timeout_seconds=9, budget_usd=3.0)
            assert changed.run().exit_code == 0


class TestTheFolder:
    """The folder is held by one run, and survives the disk."""

    def test_a_second_run_is_refused(self, tmp_path: Path) -> None:
        suite = suite_folder(tmp_path, sums(1), [chat("http://127.0.0.1:9/v1")])
        suite.results.mkdir()
        with (suite.results / ".lock").open("w") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            result = suite.run()
        assert result.exit_code == 2
        assert "another run is at work" in result.stderr

    def test_a_folder_of_something_else_is_left_alone(self, tmp_path: Path) -> None:
        suite = suite_folder(tmp_path, sums(1), [chat("http://127.0.0.1:9/v1")])
        suite.results.mkdir()
        (suite.results / "records.jsonl").write_text("{}\n")
        assert suite.run().exit_code == 2
        (suite.results / "manifest.json").write_text("{}")
        assert suite.run().exit_code == 2
        assert (suite.results / "records.jsonl").read_text() == "{}\n"

    def test_a_folder_that_is_a_file_or_closed_to_us(self, tmp_path: Path) -> None:
        suite = suite_folder(tmp_path, sums(1), [chat("http://127.0.0.1:9/v1")])
        suite.results.write_text("a file")
        result = suite.run()
        assert result.exit_code == 2
        assert "-o FOLDER" in result.stderr
        if os.geteuid():
            suite.results.unlink()
            suite.results.mkdir(mode=0o500)
            assert suite.run().exit_code == 2

    def test_a_full_disk_ends_the_run_and_leaves_whole_lines(self, tmp_path: Path) -> None:
        server = ModelServer()
        with server.in_thread() as url:
            suite = suite_folder(tmp_path, sums(60), [chat(url)], answer=ANSWER, concurrency=4)
            process = limited(suite, 6_000)
            _, said = process.communicate(timeout=PATIENCE)
            assert process.returncode == 2, said
            assert "records.jsonl" in said
            assert "Traceback" not in said
            content = (suite.results / "records.jsonl").read_bytes()
            assert 0 < len(content) <= 6_000
            assert content.endswith(b"\n")
            kept = suite.records()
            assert suite.run().exit_code == 0
        assert all(record in suite.records() for record in kept)
        assert len(suite.records()) == 60


def limited(suite: SuiteFolder, size: int) -> subprocess.Popen[str]:
    """The run, in a process whose files cannot grow beyond a size."""

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    return suite.start(before=limit)


@pytest.mark.parametrize("ending", first_of([signal.SIGINT, signal.SIGTERM]))
def test_an_interrupted_run_says_how_to_go_on(tmp_path: Path, ending: signal.Signals) -> None:
    server = ModelServer()
    tasks = sums(60)
    for held in tasks[4:6]:  # both slots, so that the run does not end before it is told to
        held["input"] += " [[hang]]"
    with server.in_thread() as url:
        suite = suite_folder(tmp_path, tasks, [chat(url)], answer=ANSWER, concurrency=2)
        process = suite.start()
        assert comes_true(lambda: sum(server.asked.values()) == 6)
        assert comes_true(lambda: len(suite.records()) == 4)
        process.send_signal(ending)
        _, said = process.communicate(timeout=PATIENCE)
        assert process.returncode == 3, said
        assert "Continue with: calipers run" in said
        assert "Traceback" not in said
        assert len(suite.records()) == 4
        assert suite.run().exit_code == 0
    assert len(suite.records()) == 60
    assert json.loads((suite.results / "score.json").read_text())["groups"][0]["records"] == 60


@pytest.mark.long
def test_answers_that_a_judge_has_not_seen_are_kept_when_interrupted(tmp_path: Path) -> None:
    (tmp_path / "system.py").write_text("def answer(record): return 'QUALITY=5'\n")
    server = ModelServer(latency=3600)
    with server.in_thread() as url:
        judge = judge_in(url, price={"input": 1, "output": 1})
        system = {"name": "s", "python": "system.py:answer"}
        suite = suite_folder(tmp_path, sums(9), [system], judges=[judge], concurrency=3)
        process = suite.start()
        assert comes_true(lambda: server.in_flight == 3)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=PATIENCE)
        assert process.returncode == 3, said
        assert "9 calls, 3 answers new" in said
        waiting = suite.records()
        assert [each["judgments"][0]["reason"] for each in waiting] == [
            "not judged: the run ended before"
        ] * 3
        assert not (suite.results / ".unjudged.jsonl").exists()
        server.latency = 0
        again = suite.run()
    assert again.exit_code == 0
    assert "6 answers new, 3 reused" in again.stderr
    assert all(each["judgments"][0]["scores"] for each in suite.records())


@pytest.mark.parametrize("how", first_of([signal.SIGKILL, signal.SIGTERM, signal.SIGINT]))
def test_commands_end_with_the_run_however_that_ends(tmp_path: Path, how: signal.Signals) -> None:
    script = "sleep 300 & echo $! $$ > pids.new; mv pids.new pids; wait"
    suite = suite_folder(tmp_path, sums(1), [{"name": "c", "command": ["sh", "-c", script]}])
    run = suite.start()
    pids = tmp_path / "pids"
    try:
        assert comes_true(pids.exists)
        started = [int(each) for each in pids.read_text().split()]
        assert all(map(is_there, started))
    finally:
        run.send_signal(how)
        run.communicate(timeout=PATIENCE)
    assert comes_true(lambda: not any(map(is_there, started)))


@pytest.mark.long
def test_a_command_ends_with_a_run_that_is_killed_as_it_begins(tmp_path: Path) -> None:
    """Nobody can be killed sooner: the first thing that the command does is to kill the run."""
    script = "kill -KILL $PPID; echo $$ > pid.new; mv pid.new pid; exec sleep 300"
    suite = suite_folder(tmp_path, sums(1), [{"name": "c", "command": ["sh", "-c", script]}])
    for _ in range(5):
        (tmp_path / "pid").unlink(missing_ok=True)
        run = suite.start()
        run.communicate(timeout=PATIENCE)
        assert run.returncode == -signal.SIGKILL
        comes_true((tmp_path / "pid").exists, 0.5)  # or it was ended before it came to that
        if (tmp_path / "pid").exists():
            begun = int((tmp_path / "pid").read_text())
            try:
                assert ends(begun)
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(begun, signal.SIGKILL)


def comes_true(said: Callable[[], bool], seconds: float = PATIENCE) -> bool:
    end = time.monotonic() + seconds
    while not said() and time.monotonic() < end:
        time.sleep(0.05)
    return said()


def ends(pid: int) -> bool:
    return comes_true(lambda: not is_there(pid))


def is_there(pid: int) -> bool:
    """Say whether a process is alive; one that is only waited for no more is not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"

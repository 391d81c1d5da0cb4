"""Functions, commands and servers as systems."""

from __future__ import annotations

import gc
import re
import sys
from pathlib import Path
from types import MappingProxyType

import pytest

from benchmarks.model_server import ModelServer
from tests.runs.suites_at_hand import suite_folder, sums
from tests.runs.systems_at_hand import only, python

pytestmark = pytest.mark.usefixtures("quick")


class TestPrograms:
    """Functions, commands and servers."""

    def test_a_function_gets_the_record_and_the_prompt(self, tmp_path: Path) -> None:
        tiers = [{"name": "T0", "prompt": "Say {input}"}]
        suite = python(tmp_path, "given", tiers=tiers)
        assert suite.run().exit_code == 0
        record = only(suite)
        expected = ["category", "id", "input", "model", "prompt", "run", "target", "tier"]
        assert record["seen"] == expected
        assert (record["prompt_seen"], record["tier_seen"]) == ("Say 0 + 1", "T0")

    def test_async_functions_run_at_once(self, tmp_path: Path) -> None:
        """Each waits until all have begun."""
        suite = python(tmp_path, "waits_for_others", tasks=sums(8), concurrency=8)
        assert suite.run().exit_code == 0
        assert suite.json("score.json")["groups"][0]["metrics"]["accuracy"]["value"] == 1

    def test_a_function_cannot_harm_the_task_or_the_output(self, tmp_path: Path) -> None:
        suite = python(
            tmp_path, "changes", tasks=[{"id": "a", "input": "x", "tags": ["t"]}], runs=2
        )
        result = suite.run()
        assert result.exit_code == 0
        assert [record["tags"] for record in suite.records()] == [["t"], ["t"]]
        assert "noise" not in result.stdout

    def test_any_field_may_come_back(self, tmp_path: Path) -> None:
        suite = python(tmp_path, "everything")
        assert suite.run().exit_code == 0
        record = only(suite)
        assert (record["answer"], record["mine"]) == (7, [1])
        assert record["reported"] == {"passed": True}
        assert "prompt" not in record

    FAILING = MappingProxyType(
        {
            "raises": "exception: ValueError: no way ***",
            "exits": "exception: SystemExit: 7",
            "leaves": "exception: SystemExit: 7",
            "gives_up": "exception: CancelledError",
            "nothing": "bad_response: neither a text nor record fields, but nothing",
            "number": "bad_response: neither a text nor record fields, but a value of type int",
            "long": "bad_response: a reply of more than 16 MiB",
            "long_field": "bad_response: a reply of more than 16 MiB",
            "unsure": "bad_response: prob_correct: 1.5 is outside [0, 1]",
            "odd": "bad_response: no JSON: Object of type object is not JSON serializable",
            "infinite": "bad_response: no JSON: Out of range float values are not JSON compliant",
            "other": "bad_response: id is not what was given, but 'x'",
            "deep": "bad_response: nested too deep",
            "reports": "rate_limit: slow down",
        }
    )

    def test_a_function_that_fails(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Each is a system of its own, and none is in the way of the others."""
        monkeypatch.setenv("PLANTED", "planted-key-4711")
        monkeypatch.setenv("SOME_API_KEY", "planted-key-4711")
        systems = [{"name": name, "python": f"systems.py:{name}"} for name in self.FAILING]
        suite = python(tmp_path, "raises").write(systems=systems)
        result = suite.run()
        assert result.exit_code == 3
        found = {record["model"]: record["error"] for record in suite.records()}
        assert set(found) == set(self.FAILING)
        for name, error in self.FAILING.items():
            assert re.sub(r" \(\S+\.py:[0-9]+\)", "", found[name]).startswith(error)
        assert "Traceback" not in result.stderr

    def test_a_function_that_hangs(self, tmp_path: Path) -> None:
        suite = python(tmp_path, "hangs", timeout_seconds=0.3)
        assert suite.run().exit_code == 3
        assert only(suite)["error"].startswith("timeout: no reply in 0.3 s")

    @pytest.mark.long
    def test_an_async_function_that_blocks_does_not_escape_its_time(self, tmp_path: Path) -> None:
        """The run's own loop goes on: the call times out, and other systems are not held up."""
        suite = python(
            tmp_path, "blocks", tasks=sums(2), timeout_seconds=0.8, concurrency=1, retries=0
        )
        two = [{"name": name, "python": f"systems.py:{name}"} for name in ("blocks", "given")]
        result = suite.write(systems=two).run()
        assert result.exit_code == 3
        times = {(r["model"], r["id"]): r["latency_ms"] for r in suite.records()}
        assert times["given", "t0"] < 60_000
        assert 800 <= times["blocks", "t0"] < 60_000
        errors = {r["id"]: r["error"] for r in suite.records() if r["model"] == "blocks"}
        assert set(errors.values()) == {"timeout: no reply in 0.8 s"}
        assert "an async function blocks its event loop" in result.stderr

    @pytest.mark.long
    @pytest.mark.parametrize("concurrency", [pytest.param(1, marks=pytest.mark.long), 8])
    def test_calls_that_could_not_begin_are_tried_again(
        self, tmp_path: Path, concurrency: int
    ) -> None:
        """Whoever waits for a loop that another call blocks has done nothing wrong."""
        tasks, limit = sums(8), 1.5
        suite = python(
            tmp_path, "blocks_once", tasks=tasks, timeout_seconds=limit, concurrency=concurrency
        )
        result = suite.run()
        assert result.exit_code == 3
        assert [name for name, error in suite.errors().items() if error] == ["t0"]
        assert max(record.get("attempts", 1) for record in suite.records()) > 1

    def test_a_function_may_return_what_is_to_be_awaited(self, tmp_path: Path) -> None:
        suite = python(tmp_path, "promises", tasks=sums(3))
        assert suite.run().exit_code == 0
        assert all(record["answer"] == record["target"] for record in suite.records())

    def test_each_systems_failures_are_told(self, tmp_path: Path) -> None:
        suite = python(tmp_path, "raises", tasks=sums(3))
        two = [{"name": name, "python": f"systems.py:{name}"} for name in ("raises", "exits")]
        result = suite.write(systems=two).run()
        assert re.search(r"3 × raises: exception: ValueError \(\S+\): no way", result.stderr)
        assert re.search(r"3 × exits: exception: SystemExit \(\S+\): 7", result.stderr)
        assert "calipers explain" not in result.stderr  # there is no number

    def test_odd_values_that_are_none(self, tmp_path: Path) -> None:
        suite = python(tmp_path, "nan")
        assert suite.run().exit_code == 0
        assert only(suite)["latency_ms"] > 0
        (tmp_path / "b").mkdir()
        half = python(tmp_path / "b", "surrogate")
        assert half.run().exit_code == 0
        assert only(half)["answer"] == "? half"

    def test_commands_run_in_the_suites_folder(self, tmp_path: Path) -> None:
        (tmp_path / "agent.py").write_text(
            "import json, os, sys\n"
            "record = json.load(sys.stdin)\n"
            "print('thinking', file=sys.stderr)\n"
            "json.dump({'answer': record['target'], 'where': os.listdir()}, sys.stdout)\n"
        )
        system = {"name": "agent", "command": [sys.executable, "agent.py"]}
        suite = suite_folder(tmp_path, sums(2), [system])
        assert suite.run().exit_code == 0
        assert sorted(record["answer"] for record in suite.records()) == ["1", "2"]
        assert "agent.py" in suite.records()[0]["where"]

    def test_a_program_beside_the_suite_is_found_from_anywhere(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "here").mkdir()
        program = tmp_path / "here" / "agent.sh"
        program.write_text('#!/bin/sh\necho \'{"answer": "1"}\'\n')
        program.chmod(0o755)
        monkeypatch.chdir(tmp_path)
        system = {"name": "agent", "command": ["./agent.sh"]}
        suite = suite_folder(Path("here"), sums(1), [system])
        assert suite.run().exit_code == 0
        assert only(suite)["answer"] == "1"

    @pytest.mark.parametrize(
        ("shell", "error"),
        [
            ("echo no >&2; exit 3", "exception: exit code 3: no"),
            ("kill -9 $$", "exception: ended by SIGKILL"),
            ("echo hello", "bad_response: not JSON: hello"),
            ("head -c 100000000 /dev/zero", "bad_response: it wrote more than 16 MiB"),
            ("sleep 1000 & sleep 1000", "timeout: no reply in 1 s"),
            ("exit 0", "bad_response: not JSON, but nothing at all"),
        ],
    )
    def test_a_command_that_fails(self, tmp_path: Path, shell: str, error: str) -> None:
        system = {"name": "agent", "command": ["sh", "-c", shell]}
        late = error.startswith("timeout")
        suite = suite_folder(
            tmp_path, sums(1), [system], timeout_seconds=1 if late else 30, retries=1
        )
        assert suite.run().exit_code == 3
        assert only(suite)["error"].startswith(error)
        assert late or "attempts" not in only(suite)

    def test_a_command_that_floods_leaves_no_pipe_open(self, tmp_path: Path) -> None:
        system = {"name": "agent", "command": ["sh", "-c", "yes & sleep 1000"]}
        suite = suite_folder(tmp_path, sums(4), [system], timeout_seconds=30, retries=0)
        assert suite.run().exit_code == 3
        gc.collect()  # an open pipe warns as it goes, and a warning fails the test

    def test_a_server_of_ones_own(self, tmp_path: Path) -> None:
        server = ModelServer()
        with server.in_thread() as url:
            system = {"name": "mine", "http": url.replace("/v1", "/fields")}
            suite = suite_folder(tmp_path, sums(3), [system])
            assert suite.run().exit_code == 0
        assert {record["cot"] for record in suite.records()} == {"I added."}
        assert server.asked == {"t0": 1, "t1": 1, "t2": 1}

"""What systems are given, what may come back, and everything a suite can get wrong."""

from __future__ import annotations

import gc
import json
import sys
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from click.testing import CliRunner

import calipers as cal
from benchmarks.model_server import ModelServer
from calipers.cli import app
from tests.runs.suites_at_hand import ANSWER, SuiteFolder, chat, suite_folder, sums

pytestmark = pytest.mark.usefixtures("quick")

SYSTEMS = """
import asyncio, os, sys, time

begun = []

def given(record):
    return {"seen": sorted(record), "prompt_seen": record.get("prompt"), "tier_seen": record.get("tier")}

async def waits(record):
    await asyncio.sleep(0)
    return str(int(record["input"].split()[0]) + 1)

async def waits_for_others(record):
    begun.append(record)
    while len(begun) < 8:
        await asyncio.sleep(0.01)
    return str(int(record["input"].split()[0]) + 1)

def changes(record):
    record["tags"].append("changed")
    record["id"] = "other"
    print("noise on stdout")
    return "ok"

def raises(record):
    raise ValueError("no way " + os.environ.get("PLANTED", ""))

def exits(record):
    sys.exit(7)

def hangs(record):
    time.sleep(3600)

async def blocks(record):
    time.sleep(3600)

async def blocks_once(record):
    if record["id"] == "t0":
        time.sleep(3.5)
    return str(int(record["input"].split()[0]) + 1)

async def gives_up(record):
    raise asyncio.CancelledError

async def leaves(record):
    sys.exit(7)

def promises(record):
    return waits(record)

def everything(record):
    return {**record, "answer": 7, "trace": {"tool_calls": []}, "passed": True, "mine": [1]}

def nothing(record): return None
def number(record): return 5
def long(record): return "x" * (17 << 20)
def long_field(record): return {"mine": "x" * (17 << 20)}
def nan(record): return {"latency_ms": float("nan"), "answer": "x"}
def infinite(record): return {"mine": float("inf")}
def unsure(record): return {"prob_correct": 1.5}
def odd(record): return {"mine": object()}
def other(record): return {"id": "x"}
def deep(record):
    nested = []
    for _ in range(100_000): nested = [nested]
    return {"mine": nested}
def reports(record): return {"error": "rate_limit: slow down"}
def surrogate(record): return {"answer": "\\ud800 half"}
"""


def python(tmp_path: Path, function: str, **more: Any) -> SuiteFolder:
    (tmp_path / "systems.py").write_text(SYSTEMS)
    system = {"name": "s", "python": f"systems.py:{function}"}
    return suite_folder(tmp_path, more.pop("tasks", sums(1)), [system], **more)


def only(suite: SuiteFolder) -> dict[str, Any]:
    (record,) = suite.records()
    return record


class TestModels:
    """What a model is asked, and what its reply becomes."""

    def test_a_reply_becomes_a_record(self, tmp_path: Path) -> None:
        server = ModelServer(latency=0.02)
        with server.in_thread() as url:
            system = chat(url, settings={"temperature": 0, "max_tokens": 99, "seed": 5})
            suite = suite_folder(
                tmp_path, sums(1), [system], prompt="{input}\nGo.", answer=ANSWER, runs=2
            )
            assert suite.run().exit_code == 0
        one, two = sorted(suite.records(), key=lambda record: record["run"])
        assert (one["id"], one["model"], one["run"], one["category"]) == ("t0", "mini", 1, "sum")
        assert one["answer"] == one["target"] == "1"
        assert one["cot"] == "1. I add the numbers.\n2. That is all."
        assert (one["prompt_tokens"], one["completion_tokens"]) == (4, 11)
        assert 20 <= one["latency_ms"] == pytest.approx(one["duration_seconds"] * 1000)
        assert two["run"] == 2
        bodies = sorted(server.requests, key=lambda body: body["seed"])
        assert [body["seed"] for body in bodies] == [5, 6]
        assert bodies[0]["messages"] == [{"role": "user", "content": "0 + 1\nGo."}]
        assert (bodies[0]["model"], bodies[0]["max_tokens"]) == ("tiny", 99)

    def test_tiers_replace_prompt_and_settings(self, tmp_path: Path) -> None:
        server = ModelServer()
        tiers = [{"name": "T0", "prompt": "{input}"}, {"name": "T1", "settings": {"top_p": 0.5}}]
        with server.in_thread() as url:
            suite = suite_folder(
                tmp_path, sums(3), [chat(url)], prompt="{input} = ?", answer=ANSWER, tiers=tiers
            )
            assert suite.run().exit_code == 0
        assert {
            (body["messages"][0]["content"][-1], body.get("top_p")) for body in server.requests
        } == {
            ("1", None),
            ("?", 0.5),
        }
        groups = suite.json("score.json")["groups"]
        assert [group["by"] for group in groups] == [
            {"model": "mini", "tier": "T0"},
            {"model": "mini", "tier": "T1"},
        ]

    def test_confidence_is_asked_for_or_weighed(self, tmp_path: Path) -> None:
        server = ModelServer()
        tasks = [{"id": "a", "input": "[[say So ANSWER: 4\nCONFIDENCE: 80%]]"}]
        with server.in_thread() as url:
            asked = suite_folder(
                tmp_path, tasks, [chat(url)], answer=ANSWER, confidence={"ask": True}
            )
            assert asked.run().exit_code == 0
            assert (only(asked)["answer"], only(asked)["prob_correct"]) == ("4", 0.8)
            assert "CONFIDENCE: <0 to 1>" in server.requests[-1]["messages"][0]["content"]
            (tmp_path / "b").mkdir()
            weighed = suite_folder(
                tmp_path / "b", sums(1), [chat(url)], answer=ANSWER, confidence={"logprobs": True}
            )
            assert weighed.run().exit_code == 0
            assert only(weighed)["prob_correct"] == pytest.approx(0.9048, abs=1e-4)
            assert server.requests[-1]["logprobs"] is True

    def test_a_cache_serves_other_folders_and_never_repeats(self, tmp_path: Path) -> None:
        server = ModelServer()
        with server.in_thread() as url:
            suite = suite_folder(
                tmp_path, sums(3), [chat(url)], answer=ANSWER, runs=2, cache=".cache"
            )
            assert suite.run().exit_code == 0
            assert sum(server.asked.values()) == 6
            first = {(each["id"], each["run"]): each["answer"] for each in suite.records()}
            for path in suite.results.iterdir():
                path.unlink()
            assert suite.run().exit_code == 0
            assert sum(server.asked.values()) == 6
        assert {(each["id"], each["run"]): each["answer"] for each in suite.records()} == first

    def test_a_reply_from_a_cache_is_not_taken_for_a_quick_one(self, tmp_path: Path) -> None:
        with ModelServer(latency=0.2).in_thread() as url:
            suite = suite_folder(tmp_path, sums(1), [chat(url)], cache=".cache")
            assert suite.run().exit_code == 0
            first = only(suite)
            for path in suite.results.iterdir():
                path.unlink()
            assert suite.run().exit_code == 0
        again = only(suite)
        assert "cached" not in first
        assert again.pop("cached") is True
        assert again["latency_ms"] >= 200
        assert again["duration_seconds"] == pytest.approx(again["latency_ms"] / 1000)

    def test_a_cache_that_cannot_be_written_loses_no_reply(self, tmp_path: Path) -> None:
        server = ModelServer()
        (tmp_path / "cache").write_text("a file, no folder")
        with server.in_thread() as url:
            systems = [chat(url, "one"), chat(url, "two")]
            suite = suite_folder(tmp_path, sums(3), systems, answer=ANSWER, cache="cache")
            result = suite.run()
        assert result.exit_code == 0
        assert [record["answer"] for record in suite.records() if record["model"] == "one"]
        assert set(suite.errors().values()) == {None}
        assert result.stderr.count("replies are not kept in this cache") == 1

    def test_pydantic_ai_speaks_for_other_providers(self, tmp_path: Path) -> None:
        pytest.importorskip("pydantic_ai")
        server = ModelServer()
        with server.in_thread() as url:
            system = {"name": "m", "model": "ollama:tiny", "base_url": url}
            tasks = [*sums(2), {"id": "bad", "input": "9 [[500 x9]]"}]
            tasks += [{"id": "slow", "input": "8 [[429 0.1, drop, half]]"}]
            suite = suite_folder(tmp_path, tasks, [system], answer=ANSWER, retries=3)
            assert suite.run().exit_code == 3
        errors = suite.errors()
        assert str(errors.pop("bad")).startswith("server: 500")
        assert set(errors.values()) == {None}
        assert sorted(server.asked.values()) == [1, 1, 4, 4]  # no attempts of the SDK's own
        record = next(each for each in suite.records() if each["id"] == "t1")
        assert (record["answer"], record["prompt_tokens"]) == ("2", 3)


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
        assert (record["answer"], record["passed"], record["mine"]) == (7, True, [1])
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
            assert found[name].startswith(error)
        assert "Traceback" not in result.stderr

    def test_a_function_that_hangs(self, tmp_path: Path) -> None:
        suite = python(tmp_path, "hangs", timeout_seconds=0.3)
        assert suite.run().exit_code == 3
        assert only(suite)["error"].startswith("timeout: no reply in 0.3 s")

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
        assert "3 × raises: exception: ValueError: no way" in result.stderr
        assert "3 × exits: exception: SystemExit: 7" in result.stderr
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


class TestMistakes:
    """Everything is found before the first call, and told kindly."""

    def told(self, suite: SuiteFolder, code: int = 2) -> str:
        result = suite.run()
        assert result.exit_code == code, result.output
        assert "Traceback" not in result.stderr
        journal = suite.results / "records.jsonl"
        assert not journal.exists() or not journal.stat().st_size
        return str(result.stderr)

    @pytest.mark.parametrize(
        ("change", "told"),
        [
            ({"promt": "x"}, "did you mean prompt?"),
            ({"prompt": "{question}"}, "the prompt names {question}, and the task t0 has none"),
            ({"data": "none.jsonl"}, "none.jsonl: no such file"),
            ({"policy": "none.yaml"}, "none.yaml"),
            ({"systems": [{"name": "a", "python": "none.py:f"}]}, "no such file"),
            ({"systems": [{"name": "a", "command": ["no-such-program"]}]}, "no such command"),
            ({"systems": [{"name": "a", "http": "nowhere"}]}, "nowhere is no URL"),
            ({"systems": [{"name": "a", "model": "nobody:x"}]}, "nobody:x"),
            ({"judges": [{"name": "j", "model": "a:b", "rubric": "r"}]}, "r: no such file"),
            ({"confidence": {}}, "either ask or logprobs"),
            ({"answer": {"regex": "no group"}}, "no group holds the answer"),
            ({"answer": {"regex": "(?<=A: )(.*)"}}, "look-around"),
        ],
    )
    def test_in_the_suite(self, tmp_path: Path, change: dict[str, Any], told: str) -> None:
        suite = suite_folder(tmp_path, sums(2), [chat("http://127.0.0.1:9/v1")])
        assert told in self.told(suite.write(**change))

    def test_a_key_in_the_settings_is_refused_and_not_repeated(self, tmp_path: Path) -> None:
        settings = {"extra_headers": {"Authorization": "planted-key-4711"}}
        suite = suite_folder(tmp_path, sums(1), [chat("http://127.0.0.1:9/v1", settings=settings)])
        told = self.told(suite)
        assert "api_key_env" in told
        assert "planted-key-4711" not in told

    @pytest.mark.parametrize("at", ["?api_key=", "?v=1&key=", "?access_token="])
    def test_a_key_in_a_url_is_refused_and_not_repeated(self, tmp_path: Path, at: str) -> None:
        url = f"http://127.0.0.1:9/v1{at}planted-key-4711"
        told = self.told(suite_folder(tmp_path, sums(1), [{"name": "a", "http": url}]))
        assert "api_key_env" in told
        assert "planted-key-4711" not in told

    def test_an_unset_key(self, tmp_path: Path) -> None:
        suite = suite_folder(
            tmp_path, sums(1), [chat("http://127.0.0.1:9/v1", api_key_env="UNSET_KEY")]
        )
        result = suite.run()
        assert result.exit_code == 2
        assert "UNSET_KEY is not set" in result.stderr

    @pytest.mark.parametrize(
        ("key", "code"), [("abc", 2), ("7654321", 2), (" \t", 2), ("EMPTY", 0)]
    )
    def test_a_key_too_short_to_mask(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str, code: int
    ) -> None:
        monkeypatch.setenv("SHORT_KEY", key)
        with ModelServer().in_thread() as url:
            suite = suite_folder(tmp_path, sums(1), [chat(url, api_key_env="SHORT_KEY")])
            result = suite.run()
        assert result.exit_code == code
        assert key not in result.stderr.replace("EMPTY where", "")

    @pytest.mark.parametrize(
        ("lines", "told"),
        [
            ('{"id": "a", "input": "x"}\n{"id": "a", "input": "y"}', "have the same id: a"),
            ('{"id": "a", "input": "x"}\n{"input": "y"}', "1 of 2 tasks have no id"),
            ('{"id": "a", "input": "x"}\nrubbish', "tasks.jsonl:2: not JSON"),
            ('{"id": "a", "input": "x", "prob_correct": 7}', "tasks.jsonl:1: prob_correct"),
        ],
    )
    def test_in_the_data(self, tmp_path: Path, lines: str, told: str) -> None:
        suite = suite_folder(tmp_path, sums(1), [chat("http://127.0.0.1:9/v1")])
        (tmp_path / "tasks.jsonl").write_text(lines)
        assert told in self.told(suite)

    def test_no_tasks(self, tmp_path: Path) -> None:
        suite = suite_folder(tmp_path, [], [chat("http://127.0.0.1:9/v1")])
        assert "no tasks" in self.told(suite, code=3)

    def test_code_that_does_not_load(self, tmp_path: Path) -> None:
        (tmp_path / "broken.py").write_text("1 / 0\ndef f(record): ...\n")
        suite = suite_folder(tmp_path, sums(1), [{"name": "a", "python": "broken.py:f"}])
        result = suite.run()
        assert result.exit_code == 2
        assert "ZeroDivisionError" in result.stderr
        (tmp_path / "broken.py").write_text("def found(record): ...\n")
        assert "did you mean found?" in self.told(
            suite.write(systems=[{"name": "a", "python": "broken.py:fuond"}])
        )


POLICY = {"thresholds": {"blocking": {"accuracy": "≥ 90%"}}}


class TestEnding:
    """Scores, gates and exit codes."""

    @pytest.mark.parametrize(
        ("target", "faulty", "code", "verdict"),
        [
            ("1", "", 0, "pass"),
            ("2", "", 1, "fail"),
            ("1", "bad", 3, "incomplete"),
            ("2", "bad", 1, "fail"),
        ],
    )
    def test_a_gate_decides(
        self, tmp_path: Path, target: str, faulty: str, code: int, verdict: str
    ) -> None:
        server = ModelServer()
        (tmp_path / "policy.json").write_text(json.dumps(POLICY))
        tasks = [{"id": "a", "input": "0 + 1", "target": target}]
        if faulty:
            tasks.append({"id": "b", "input": "3 [[400]]", "target": "3"})
        with server.in_thread() as url:
            suite = suite_folder(tmp_path, tasks, [chat(url)], answer=ANSWER, policy="policy.json")
            result = suite.run()
        assert result.exit_code == code, result.output
        assert suite.json("gate.json")["verdict"] == verdict
        assert verdict.upper() in result.stdout

    def test_a_run_that_was_cut_short_never_passes(self, tmp_path: Path) -> None:
        server = ModelServer()
        (tmp_path / "policy.json").write_text(json.dumps(POLICY))
        with server.in_thread() as url:
            suite = suite_folder(
                tmp_path, sums(5), [chat(url)], answer=ANSWER, policy="policy.json", budget_calls=3
            )
            assert suite.run().exit_code == 3
        assert suite.json("gate.json")["incomplete"] == ["2 calls were not made"]

    def test_it_says_what_next(self, tmp_path: Path) -> None:
        suite = python(tmp_path, "waits", tasks=sums(3))
        result = suite.run(report=True)
        assert f"calipers explain accuracy {suite.results / 'records.jsonl'}" in result.stderr
        assert f"Report: {suite.results / 'report.html'}" in result.stderr
        told = [line.partition(": calipers ")[2] for line in result.stderr.splitlines()]
        for line in filter(None, told):
            assert CliRunner().invoke(app, [line.split()[0], "--help"]).exit_code == 0

    def test_python_runs_it_too(self, tmp_path: Path) -> None:
        suite = python(tmp_path, "waits", tasks=sums(3))
        result = cal.run(tmp_path / "suite.yaml", suite.results)
        assert (result.done, result.errors, result.missing, result.exit_code) == (3, 0, 0, 0)
        assert result.score is not None
        assert result.score.groups[0].by == {"model": "s"}

    def test_tables_are_data_too(self, tmp_path: Path) -> None:
        suite = python(tmp_path, "waits", data="tasks.csv")
        (tmp_path / "tasks.csv").write_text("id,input,target,mine\n007,1 + 1,2,x\n8,2 + 1,3,y\n")
        assert suite.run().exit_code == 0
        answers = {record["id"]: record["answer"] for record in suite.records()}
        assert answers == {"007": "2", "8": "3"}

    def test_results_of_another_run_in_the_data_are_left_out(self, tmp_path: Path) -> None:
        tasks = [{"id": 7, "input": "1 + 1", "target": 2.0, "prob_correct": 0.3, "answer": "x"}]
        suite = python(tmp_path, "waits", tasks=tasks)
        result = suite.run()
        assert result.exit_code == 0
        assert "answer, prob_correct is left out" in result.stderr
        record = only(suite)
        assert (record["id"], record["target"], record["answer"]) == ("7", "2.0", "2")
        assert "prob_correct" not in record

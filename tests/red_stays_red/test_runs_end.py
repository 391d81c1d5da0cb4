"""Runs end: servers that stall, batches that are odd, files that end the process, odd input."""

from __future__ import annotations

import asyncio
import gc
import gzip
import json
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from aiohttp import web

from benchmarks.model_server import ModelServer
from calipers.systems.calls import Call, Fault, Reply
from calipers.systems.http import open_session, read_retry_after
from calipers.systems.models import open_model
from calipers.systems.pace import RetryingModel
from calipers.systems.spec import SystemSpec
from tests.commands import run as calipers
from tests.files import write_lines
from tests.records.bombs import ENDS_POLARS
from tests.red_stays_red.test_replies import python_suite
from tests.runs.suites_at_hand import ANSWER, SuiteFolder, chat, suite_folder, sums
from tests.systems.batch_server import BatchServer
from tests.systems.test_batches import PROVIDERS, make_suite

# --- Retry-After ---


class Refusing(ModelServer):
    """Refuses some calls with a wait of the caller's choice."""

    def __init__(self, retry_after: str, refused: Callable[[int], bool]) -> None:
        super().__init__()
        self._retry_after = retry_after
        self._refused = refused
        self._calls = 0

    async def complete(self, request: web.Request) -> web.StreamResponse:
        self._calls += 1
        if self._refused(self._calls):
            return web.Response(status=429, headers={"Retry-After": self._retry_after})
        return await super().complete(request)


def run_refused(folder: Path, retry_after: str, refused: Callable[[int], bool]) -> SuiteFolder:
    with Refusing(retry_after, refused).in_thread() as url:
        limits = {"concurrency": 4, "retries": 1, "timeout_seconds": 0.3}
        suite = suite_folder(folder, sums(20), [chat(url)], answer=ANSWER, **limits)
        began = monotonic()
        suite.run()
        assert monotonic() - began < 20
    return suite


@pytest.mark.parametrize("retry_after", ["30", "99999999", "Fri, 31 Dec 9999 23:59:59 GMT"])
def test_one_long_retry_after_does_not_hold_the_run(tmp_path: Path, retry_after: str) -> None:
    errors = run_refused(tmp_path, retry_after, lambda call: call == 3).errors()
    assert len(errors) == 20
    assert sum(error is not None for error in errors.values()) <= 1


@pytest.mark.parametrize("retry_after", ["30", "99999999"])
def test_a_server_that_always_asks_for_long_waits_is_given_up(
    tmp_path: Path, retry_after: str
) -> None:
    errors = run_refused(tmp_path, retry_after, lambda call: call > 2).errors()
    assert len(errors) == 20
    assert any("stayed down" in str(error) for error in errors.values())


@pytest.mark.parametrize(
    "given",
    ["nan", "-5", "inf", "1e400", "9" * 400, "9" * 5000, "", "soon", "0x10", "Mon, 1 Jan 0001"]
    + [f"Mon, 1 Jan 2024 00:00:00 +{'9' * digits}" for digits in (4, 12, 400)],
)
def test_a_retry_after_that_is_no_time_is_none_or_now(given: str) -> None:
    assert read_retry_after({"Retry-After": given}) in (None, 0.0)


def test_a_judge_whose_server_asks_for_long_waits_ends() -> None:
    calls = 0

    async def refuse(call: Call) -> Reply:
        nonlocal calls
        del call
        calls += 1
        raise Fault("rate_limit", "too many", again=True, retry_after=9e9)

    async def ask_all() -> list[Any]:
        asking = RetryingModel(refuse, concurrency=4, retries=3, timeout_seconds=0.05)
        asked = (asking(Call(record={}, prompt=str(n))) for n in range(50))
        return await asyncio.gather(*asked, return_exceptions=True)

    outcomes = asyncio.run(asyncio.wait_for(ask_all(), 30))
    assert {type(outcome) for outcome in outcomes} == {Fault}
    assert calls <= 20


# --- batches ---


class OddBatches(BatchServer):
    """Answers as it should, but for the first looks at a batch that has ended."""

    def __init__(self, oddity: str, times: int = 1) -> None:
        super().__init__()
        self.oddity = oddity
        self.times = times

    @property
    def paid(self) -> int:
        return sum(map(len, self.batches))

    def _is_odd(self, where: str) -> bool:
        if not self.oddity.startswith(where) or self.times <= 0:
            return False
        self.times -= 1
        return True

    async def _make_odd(self, response: web.Response, id_: str) -> web.StreamResponse:
        name = self.oddity.partition(" ")[2]
        if name == "silent":
            await asyncio.sleep(30)
        if name.isdecimal():
            return web.json_response({"error": {"message": "odd"}}, status=int(name))
        content = response.body if isinstance(response.body, bytes) else b""
        lines = content.splitlines(keepends=True)
        bare = {"id": id_, "status": "completed", "processing_status": "ended"}
        counts = {"total": 12, "completed": 12, "failed": 0}
        bodies = {
            "not JSON": b"<html>",
            "not an object": b"[]",
            "empty": b"",
            "half": b"".join(lines[: len(lines) // 2]),
            "without answers": b"".join(
                map(_strip_answer, lines if name == "without answers" else [])
            ),
            "failed": json.dumps({"id": id_, "status": "failed"}).encode(),
            "counted": json.dumps({**bare, "status": "expired", "request_counts": counts}).encode(),
        }
        return web.Response(body=bodies.get(name, json.dumps(bare).encode()))  # names no files

    async def _look(self, request: web.Request) -> web.StreamResponse:  # type: ignore[override]
        response = await super()._look(request)
        if self._is_odd("look"):
            return await self._make_odd(response, request.match_info["id"])
        return response

    async def _look_messages(self, request: web.Request) -> web.StreamResponse:  # type: ignore[override]
        response = await super()._look_messages(request)
        if self._is_odd("look"):
            return await self._make_odd(response, request.match_info["id"])
        return response

    async def _download(self, request: web.Request) -> web.StreamResponse:  # type: ignore[override]
        response = await super()._download(request)
        return await self._make_odd(response, "") if self._is_odd("file") else response

    async def _results(self, request: web.Request) -> web.StreamResponse:  # type: ignore[override]
        response = await super()._results(request)
        return await self._make_odd(response, "") if self._is_odd("file") else response


def _strip_answer(line: bytes) -> bytes:
    return json.dumps({"custom_id": json.loads(line).get("custom_id")}).encode() + b"\n"


@pytest.fixture
def quick_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("calipers.systems.batches.batch_model._FIRST_WAIT", 0.02)
    monkeypatch.setattr("calipers.systems.batches.batch_model._QUIET", 0.1)
    monkeypatch.setattr("calipers.systems.pace.FIRST_BACKOFF", 0.01)
    monkeypatch.setenv("BATCH_KEY", "sk-batch-0123456789abcdef")


ODDITIES = {
    "openai": ("look names no files", "look counted"),
    "anthropic": (),
}
OF_BOTH = (
    *("look silent", "file half", "look 404", "look 500", "look not JSON", "look not an object"),
    *("file 404", "file 500", "file not JSON", "file empty"),
)
AT_ONCE = 3  # of each provider, as quick tests


def pair_up(*more: str) -> list[Any]:
    """Providers with what may be odd at them."""
    return [
        pytest.param(provider, oddity, marks=() if place < AT_ONCE else pytest.mark.long)
        for provider in PROVIDERS
        for place, oddity in enumerate((*ODDITIES[provider], *OF_BOTH, *more))
        if provider == "openai" or oddity != "look failed"
    ]


@pytest.mark.usefixtures("quick_batches")
@pytest.mark.parametrize(("provider", "oddity"), pair_up("look failed"))
def test_one_odd_look_at_a_batch_buys_nothing_twice(
    tmp_path: Path, provider: str, oddity: str
) -> None:
    server = OddBatches(oddity)
    with server.in_thread() as address:
        suite = make_suite(tmp_path, address, sums(12), provider, timeout_seconds=1)
        result = suite.run()
    assert result.exit_code == 0, result.stderr
    assert server.paid == 12


@pytest.mark.usefixtures("quick_batches")
@pytest.mark.parametrize(("provider", "oddity"), pair_up("file without answers"))
def test_a_batch_that_stays_odd_is_incomplete_and_continued(
    tmp_path: Path, provider: str, oddity: str
) -> None:
    server = OddBatches(oddity, times=1000)
    with server.in_thread() as address:
        suite = make_suite(tmp_path, address, sums(12), provider, timeout_seconds=0.3)
        result = suite.run()
        assert result.exit_code == 3, result.stderr
        assert "run again to look at" in result.stderr
        server.times = 0
        assert suite.run().exit_code == 0
    assert server.paid == 12


class Flooding(BatchServer):
    """Answers looks with a body without end."""

    async def _look(self, request: web.Request) -> web.StreamResponse:  # type: ignore[override]
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b" " * (1 << 20))

    _look_messages = _look  # type: ignore[assignment]


@pytest.mark.usefixtures("quick_batches")
@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_look_without_end_is_cut(tmp_path: Path, provider: str) -> None:
    server = Flooding()
    with server.in_thread() as address:
        suite = make_suite(tmp_path, address, sums(3), provider)
        result = suite.run()
    assert result.exit_code == 3
    assert "more than 16 MiB" in result.stderr
    assert len(server.batches) == 1


# --- bodies are let go ---


class Large(ModelServer):
    """Sends bodies that are refused once they are here."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self._kind = kind

    async def complete(self, request: web.Request) -> web.StreamResponse:
        del request
        if self._kind == "packed":
            body = gzip.compress(b" " * (17 << 20))
            return web.Response(body=body, headers={"Content-Encoding": "gzip"})
        return web.Response(body=b"x" * (8 << 20), status=500 if self._kind == "failed" else 200)


@pytest.mark.parametrize("kind", ["packed", "no JSON", "failed"])
def test_a_reply_that_is_refused_leaves_nothing_in_memory(kind: str) -> None:
    faults: list[Fault] = []

    async def ask_all(url: str) -> int:
        spec = SystemSpec(name="gpt-4o-mini", model="openai:tiny", base_url=url)
        async with open_session() as session:
            model = open_model("openai:tiny", spec, session, logprobs=False)
            asking = RetryingModel(model, concurrency=1, retries=0, timeout_seconds=60)
            for _ in range(6):
                try:
                    await asking(Call(record={}, prompt="1 + 1"))
                except Fault as fault:
                    faults.append(fault)
            return tracemalloc.get_traced_memory()[0] >> 20

    with Large(kind).in_thread() as url:
        gc.disable()  # the command line collects rarely
        tracemalloc.start()
        try:
            kept = asyncio.run(ask_all(url))
        finally:
            tracemalloc.stop()
            gc.enable()
    assert len(faults) == 6
    assert kept < 40  # MiB; the server in this process has a body or two


# --- files that end the process that reads them ---


@pytest.mark.parametrize("name", ["a.parquet", "folder/part-0.parquet"])
def test_a_file_that_ends_its_decoder_is_an_error(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(ENDS_POLARS)
    given = path.parent if "/" in name else path
    done = subprocess.run(
        [sys.executable, "-m", "calipers", "score", str(given)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 2
    assert f"{path}: cannot be decoded" in done.stderr


# --- shards, and code that cannot be seen ---


def test_shards_of_other_imported_code_are_not_merged(tmp_path: Path) -> None:
    code = (
        "import importlib\n"
        "def answer(record):\n"
        "    return importlib.import_module('order_' + 'prompts').ANSWER\n"
    )
    suite = python_suite(tmp_path, code, sums(20))
    file, helper = str(suite.path / "suite.yaml"), tmp_path / "order_prompts.py"
    shards = [str(tmp_path / f"shard-{number}") for number in (1, 2, 3)]
    for number, shard in enumerate(shards, 1):
        helper.write_text(f"ANSWER = '{number // 3}'\n", encoding="utf-8")
        calipers("run", file, "--shard", f"{number}/3", "-o", shard, "--no-report")
    merged = ("--merge", *shards, "-o", str(tmp_path / "whole"), "--no-report")
    result = calipers("run", file, *merged)
    assert result.exit_code == 2
    assert "order_prompts.py has other content" in result.stderr


@pytest.mark.parametrize(
    ("command", "files", "noted"),
    [
        (["sh", "-c", "cd agent && python main.py"], None, True),
        (["sh", "-c", "cd agent && python main.py ../suite.yaml"], None, True),
        (["sh", "-c", "echo 2"], None, True),
        (["sh", "-c", "cd agent && python main.py"], ["agent/*.py"], False),
        (["python", "agent/main.py"], None, False),
        (["sh", "-c", "python agent/main.py"], None, False),
    ],
)
def test_a_command_whose_code_cannot_be_seen_says_so(
    tmp_path: Path, command: list[str], files: list[str] | None, *, noted: bool
) -> None:
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent" / "main.py").write_text('print(\'{"answer": "1"}\')\n')
    system = {"name": "agent", "command": command, **({"files": files} if files else {})}
    result = suite_folder(tmp_path, sums(1), [system]).run()
    assert ("the command of agent leads to no local file" in result.stderr) == noted


# --- odd input is a message ---


@pytest.mark.parametrize("written", ["", "nope", "{", "[1"])
def test_checks_that_are_no_list_are_an_error(tmp_path: Path, written: str) -> None:
    records = write_lines(
        tmp_path / "a.jsonl", [{"id": "a", "answer": "2", "passed": True, "checks": written}]
    )
    policy = tmp_path / "p.json"
    checks = [{"expect": "two", "contains": "2"}]
    policy.write_text(
        json.dumps({"checks": checks, "thresholds": {"blocking": {"pass_rate": "50%"}}})
    )
    result = calipers("gate", str(records), "--policy", str(policy))
    assert result.exit_code == 2
    assert "is not a list of results" in result.stderr


@pytest.mark.parametrize("value", ["1e308", "-1e200", "NaN", "9" * 400, "1e149", "-1", "1.01"])
def test_a_baseline_with_a_value_beyond_its_range_is_an_error(tmp_path: Path, value: str) -> None:
    rows = [{"id": f"q{n}", "answer": "2", "target": "2"} for n in range(4)]
    records = str(write_lines(tmp_path / "r.jsonl", rows))
    policy, baseline = tmp_path / "p.yaml", tmp_path / "b.json"
    policy.write_text('thresholds: {blocking: {accuracy: ">= 1%"}}\n')
    calipers("gate", records, "--policy", str(policy), "--save-baseline", str(baseline))
    recorded = json.loads(baseline.read_text())
    recorded["groups"][0]["tasks"]["values"]["correct"]["means"][0] = "HERE"
    baseline.write_text(json.dumps(recorded).replace('"HERE"', value))
    policy.write_text('baseline: {margins: {accuracy: "3%"}}\n')
    result = calipers("gate", records, "--policy", str(policy), "--against", str(baseline))
    assert result.exit_code == 2
    assert f"error: {baseline}: " in result.stderr


def test_a_run_with_a_value_beyond_measure_passes_no_baseline(tmp_path: Path) -> None:
    policy, baseline = tmp_path / "p.yaml", tmp_path / "b.json"
    policy.write_text('thresholds: {blocking: {latency_mean_ms: "<= 500ms"}}\n')
    for name, latency in (("old", 3.0), ("new", 1e308)):
        rows = [{"id": f"q{n // 2}", "latency_ms": latency + n} for n in range(8)]
        write_lines(tmp_path / f"{name}.jsonl", rows)
    old, new = (str(tmp_path / f"{name}.jsonl") for name in ("old", "new"))
    calipers("gate", old, "--policy", str(policy), "--save-baseline", str(baseline))
    policy.write_text("baseline: {margins: {latency_mean_ms: 200ms}}\n")
    for form in ("table", "json"):
        against = ("--against", str(baseline), "--format", form)
        result = calipers("gate", new, "--policy", str(policy), *against)
        assert result.exit_code in (1, 3)
        assert "values too large" in result.output


@pytest.mark.parametrize("mode", ["live", "batch"])
def test_a_key_with_a_line_end_in_it_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    monkeypatch.setenv("AGENT_API_KEY", "sk-abcdefgh12345\r\nX-Evil: 1234")
    system = chat("http://127.0.0.1:9/v1", api_key_env="AGENT_API_KEY")
    more = {"mode": "batch", "price": {"input": 1, "output": 1}} if mode == "batch" else {}
    result = suite_folder(tmp_path, sums(1), [{**system, **more}]).run()
    assert result.exit_code == 2
    assert "AGENT_API_KEY holds a line end" in result.stderr
    assert "X-Evil" not in result.stderr

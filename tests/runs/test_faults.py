"""Whatever goes wrong with a call is retried where that can help, and recorded with its kind."""

from __future__ import annotations

import asyncio
from pathlib import Path
from time import monotonic

import pytest
from aiohttp import web

from benchmarks.model_server import ModelServer
from tests.runs.suites_at_hand import ANSWER, chat, suite_folder, sums

pytestmark = pytest.mark.usefixtures("quick")

RECOVERS = ["500", "503 0.05", "429", "429 0.1", "drop", "cut", "html", "half", "empty"]
FAILS = {
    "500 x9": "server: 500 as ordered",
    "429 x9": "rate_limit: 429 as ordered",
    "drop x9": "connection: ",
    "cut x9": "connection: ",
    "html x9": "bad_response: not JSON",
    "half x9": "bad_response: not JSON",
    "empty x9": "bad_response: ",
}
FAILS_AT_ONCE = {
    "400": "bad_request: 400 as ordered",
    "404": "bad_request: ",
    "408": "bad_request: ",
    "filter": "content_filter: ",
    "302": "bad_response: 302",
}


@pytest.mark.parametrize("fault", RECOVERS)
def test_a_passing_fault_leaves_no_trace_but_the_attempts(tmp_path: Path, fault: str) -> None:
    server = ModelServer()
    with server.in_thread() as url:
        suite = suite_folder(
            tmp_path, sums(3, f" [[{fault} x2]]"), [chat(url)], answer=ANSWER, retries=2
        )
        result = suite.run()
    assert result.exit_code == 0, result.stderr
    records = suite.records()
    assert [record["answer"] for record in sorted(records, key=lambda r: r["id"])] == [
        "1",
        "2",
        "3",
    ]
    assert {record["attempts"] for record in records} == {3}
    assert set(server.asked.values()) == {3}


@pytest.mark.parametrize("fault", FAILS)
def test_a_lasting_fault_is_recorded_after_all_attempts(tmp_path: Path, fault: str) -> None:
    server = ModelServer()
    with server.in_thread() as url:
        tasks = [*sums(1, f" [[{fault}]]"), {"id": "good", "input": "1 + 1", "target": "2"}]
        suite = suite_folder(tmp_path, tasks, [chat(url)], answer=ANSWER, retries=2)
        result = suite.run()
    assert result.exit_code == 3
    errors = suite.errors()
    assert errors["good"] is None
    assert str(errors["t0"]).startswith(FAILS[fault])
    assert max(server.asked.values()) == 3
    assert "Continue with: calipers run" in result.stderr


@pytest.mark.parametrize("fault", FAILS_AT_ONCE)
def test_what_no_attempt_can_mend_is_not_retried(tmp_path: Path, fault: str) -> None:
    server = ModelServer()
    with server.in_thread() as url:
        suite = suite_folder(tmp_path, sums(1, f" [[{fault} x9]]"), [chat(url)], retries=3)
        assert suite.run().exit_code == 3
    assert set(server.asked.values()) == {1}
    assert str(suite.errors()["t0"]).startswith(FAILS_AT_ONCE[fault])


@pytest.mark.long
def test_a_provider_that_hangs_does_not_hold_the_run(tmp_path: Path) -> None:
    server = ModelServer()
    with server.in_thread() as url:
        suite = suite_folder(
            tmp_path, sums(2, " [[hang x9]]"), [chat(url)], retries=1, timeout_seconds=1
        )
        assert suite.run().exit_code == 3
    assert {record["attempts"] for record in suite.records()} == {2}
    assert set(suite.errors().values()) == {"timeout: no reply in 1 s"}


def test_retry_after_is_honoured(tmp_path: Path) -> None:
    server = ModelServer()
    with server.in_thread() as url:
        suite = suite_folder(tmp_path, sums(1, " [[429 0.7]]"), [chat(url)], retries=1)
        began = monotonic()
        result = suite.run()
    assert result.exit_code == 0
    assert monotonic() - began >= 0.7
    assert "1 of 1 calls were tried again" in result.output


def test_a_wait_beyond_all_measure_is_an_error(tmp_path: Path) -> None:
    server = ModelServer()
    with server.in_thread() as url:
        suite = suite_folder(tmp_path, sums(1, " [[429 86400]]"), [chat(url)], retries=1)
        assert suite.run().exit_code == 3
    assert str(suite.errors()["t0"]).startswith("rate_limit: ")


@pytest.mark.long
def test_concurrency_gives_way_to_a_rate_limit_and_all_is_answered(tmp_path: Path) -> None:
    server = ModelServer(latency=0.01, per_second=60)
    with server.in_thread() as url:
        suite = suite_folder(
            tmp_path, sums(150), [chat(url)], answer=ANSWER, concurrency=50, retries=8
        )
        result = suite.run()
    assert result.exit_code == 0, result.stderr
    assert set(server.answered.values()) == {1}
    refused = sum(server.asked.values()) - 150
    assert refused < 300  # without giving way it would be thousands


class GatheringServer(ModelServer):
    """Answers nobody until so many have asked."""

    def __init__(self, least: int) -> None:
        super().__init__(latency=0.05)
        self._least = least
        self._asking = 0
        self._gathered = asyncio.Event()

    async def complete(self, request: web.Request) -> web.StreamResponse:
        self._asking += 1
        if self._asking == self._least:
            self._gathered.set()
        await asyncio.wait_for(self._gathered.wait(), 60)
        return await super().complete(request)


def test_at_most_so_many_calls_are_in_flight(tmp_path: Path) -> None:
    server = GatheringServer(5)
    with server.in_thread() as url:
        systems = [chat(url, "a"), chat(url, "b")]
        suite = suite_folder(tmp_path, sums(20), systems, concurrency=5)
        assert suite.run().exit_code == 0
    assert server.most_in_flight == 5


def test_a_system_that_is_down_stops_itself_and_no_other(tmp_path: Path) -> None:
    server = ModelServer()
    with server.in_thread() as url:
        systems = [chat("http://127.0.0.1:9/v1", "down"), chat(url, "up")]
        suite = suite_folder(tmp_path, sums(40), systems, answer=ANSWER, concurrency=4, retries=1)
        assert suite.run().exit_code == 3
    records = suite.records()
    assert len(records) == 80
    of_up = [record for record in records if record["model"] == "up"]
    assert all("error" not in record for record in of_up)
    of_down = [record["error"] for record in records if record["model"] == "down"]
    assert all(error.startswith("connection: ") for error in of_down)
    assert sum("not called" in error for error in of_down) > 20


def test_a_key_is_nowhere_to_be_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = ModelServer()
    key = "planted-key-4711"
    monkeypatch.setenv("PLANTED", f"{key}\n")  # as from a file
    with server.in_thread() as url:
        tasks = [*sums(1, " [[leak]]"), {"id": "told", "input": f"[[say it is {key}]]"}]
        tasks.append({"id": "plain", "input": "1 + 1"})
        system = chat(url, api_key_env="PLANTED")
        suite = suite_folder(tmp_path, tasks, [system], cache="out/cache")
        result = suite.run()
    assert result.exit_code == 3
    assert list(suite.results.glob("cache/*/*.json"))
    assert "no such key: Bearer ***" in str(suite.errors()["t0"])
    said = next(record for record in suite.records() if record["id"] == "told")
    assert said["answer"] == "it is ***"
    assert key not in result.output + result.stderr
    for path in filter(Path.is_file, suite.results.rglob("*")):
        content = path.read_text(encoding="utf-8")
        assert key not in content, path.name

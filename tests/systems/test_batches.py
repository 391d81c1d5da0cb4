"""`mode: batch`: calls gather, nothing paid for is lost, failed ones go out again."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest

from calipers.systems.batches.batch_model import Ledger
from calipers.systems.budget import find_pricing
from calipers.systems.spec import SystemSpec
from tests.runs.suites_at_hand import ANSWER, SuiteFolder, suite_folder, sums
from tests.systems.batch_server import EXPIRE_ONCE, FAIL_ONCE, REFUSED, BatchServer

PRICE = {"input": 1, "output": 2}
PROVIDERS = {"openai": "/v1", "anthropic": ""}

pytestmark = pytest.mark.usefixtures("quick")


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("calipers.systems.batches.batch_model._FIRST_WAIT", 0.02)
    monkeypatch.setattr("calipers.systems.pace.FIRST_BACKOFF", 0.01)


def make_suite(
    folder: Path, address: str, tasks: list[dict[str, Any]], provider: str = "openai", **more: Any
) -> SuiteFolder:
    system = {
        "name": "mini",
        "model": f"{provider}:tiny",
        "mode": "batch",
        "base_url": f"{address}{PROVIDERS[provider]}",
        "api_key_env": "BATCH_KEY",
        "price": PRICE,
    }
    return suite_folder(folder, tasks, [system], answer=ANSWER, **more)


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BATCH_KEY", "sk-batch-0123456789abcdef")


def wait_until(is_so: Callable[[], bool]) -> None:
    began = monotonic()
    while not is_so():
        assert monotonic() - began < 60
        sleep(0.05)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_all_calls_go_out_in_one_batch(tmp_path: Path, provider: str) -> None:
    server = BatchServer()
    with server.in_thread() as address:
        suite = make_suite(tmp_path, address, sums(40), provider, runs=2, concurrency=4)
        result = suite.run()
    assert result.exit_code == 0, result.stderr
    assert [len(batch) for batch in server.batches] == [80]
    records = suite.records()
    assert len(records) == 80
    assert all(record["answer"] == record["target"] for record in records)
    assert {record["cost_usd"] for record in records} == {20e-6}
    assert not any("latency_ms" in record for record in records), (
        "the time of a batch is no latency"
    )
    assert "80 calls sent in the batch" in result.stderr
    assert server.keys == {
        "Bearer sk-batch-0123456789abcdef" if provider == "openai" else "sk-batch-0123456789abcdef"
    }


@pytest.mark.parametrize(
    ("provider", "order"),
    [("openai", FAIL_ONCE), ("openai", EXPIRE_ONCE), ("anthropic", EXPIRE_ONCE)],
)
def test_what_fails_in_a_batch_goes_out_in_another(
    tmp_path: Path, provider: str, order: str
) -> None:
    server = BatchServer()
    tasks = [*sums(3), {"id": "odd", "input": f"7 + 1 {order}", "target": "8"}]
    with server.in_thread() as address:
        suite = make_suite(tmp_path, address, tasks, provider)
        result = suite.run()
    assert result.exit_code == 0, result.stderr
    assert [len(batch) for batch in server.batches] == [4, 1]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_refused_call_fails_alone_and_is_sent_again_by_the_next_run(
    tmp_path: Path, provider: str
) -> None:
    server = BatchServer()
    tasks = [*sums(3), {"id": "odd", "input": f"7 + 1 {REFUSED}", "target": "8"}]
    with server.in_thread() as address:
        suite = make_suite(tmp_path, address, tasks, provider)
        assert suite.run().exit_code == 3
        assert suite.run().exit_code == 3
    assert [len(batch) for batch in server.batches] == [4, 1]
    failed = {name: error for name, error in suite.errors().items() if error}
    assert list(failed) == ["odd"]
    assert str(failed["odd"]).startswith("bad_request: ")


def test_a_run_that_was_stopped_goes_on_with_its_batch(tmp_path: Path) -> None:
    server = BatchServer()
    server.is_open = False
    with server.in_thread() as address:
        suite = make_suite(tmp_path, address, sums(5))
        process = suite.start()
        wait_until(lambda: server.polls > 0)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
        assert process.returncode == 3, said
        server.is_open = True
        result = suite.run()
    assert result.exit_code == 0, result.stderr
    assert len(server.batches) == 1, "what was paid for is not asked for again"
    assert [record["answer"] for record in suite.records()] == ["1", "2", "3", "4", "5"]


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("takes", [True, False])
def test_a_run_that_died_as_it_sent_a_batch_finds_it(
    tmp_path: Path, provider: str, *, takes: bool
) -> None:
    server = BatchServer()
    for name in ("other", "died"):
        (tmp_path / name).mkdir()
    with server.in_thread() as address:
        other = make_suite(tmp_path / "other", address, sums(5), provider)
        assert other.run().exit_code == 0
        suite = make_suite(tmp_path / "died", address, sums(5), provider)
        server.is_mute, server.takes = True, takes
        process = suite.start()
        wait_until(lambda: server.sent == 2)
        process.kill()
        process.communicate(timeout=60)
        server.is_mute = False
        wait_until(lambda: not takes or len(server.batches) == 2)
        result = suite.run()
    assert result.exit_code == 0, result.stderr
    assert len(server.batches) == 2, "what was paid for is not asked for again"
    assert ("calls found in the batch" in result.stderr) == takes
    assert {record["id"]: record["answer"] for record in suite.records()} == {
        record["id"]: record["target"] for record in suite.records()
    }


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_connection_that_breaks_as_a_batch_is_sent_sends_no_second(
    tmp_path: Path, provider: str
) -> None:
    server = BatchServer()
    server.drops = 1
    with server.in_thread() as address:
        suite = make_suite(tmp_path, address, sums(3), provider)
        result = suite.run()
    assert result.exit_code == 0, result.stderr
    assert [len(batch) for batch in server.batches] == [3]


def test_a_fresh_run_takes_no_answer_of_an_old_batch(tmp_path: Path) -> None:
    server = BatchServer()
    with server.in_thread() as address:
        suite = make_suite(tmp_path, address, sums(3))
        assert suite.run().exit_code == 0
        assert suite.run("--fresh").exit_code == 0
    assert [len(batch) for batch in server.batches] == [3, 3]


def test_the_ledger_knows_what_was_sent_until_it_is_taken_or_refused(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    sending = Ledger(path, "mini").announce(["a", "b", "c"])
    found = Ledger(path, "mini")
    assert found.sending_of.get("a") == sending
    assert found.batch_of.get("a") is None
    found.add("batch_0", ["a"])
    found.remove(["b"])
    again = Ledger(path, "mini")
    assert [again.sending_of.get(each) for each in "abc"] == [None, None, sending]
    assert set(again.batch_of.values()) == {"batch_0"}


def test_the_ledger_survives_a_torn_line(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    ledger = Ledger(path, "mini")
    ledger.add("batch_0", ["a", "b"])
    ledger.remove(["b"])
    path.write_bytes(path.read_bytes() + b'\n{"system": "mini", "batch": "ba')
    found = Ledger(path, "mini")
    assert (found.batch_of.get("a"), found.batch_of.get("b")) == ("batch_0", None)
    assert Ledger(path, "other").batch_of.get("a") is None
    found.add("batch_1", ["b"])
    assert Ledger(path, "mini").batch_of.get("b") == "batch_1"


def test_the_listed_price_is_halved() -> None:
    whole = find_pricing(SystemSpec(name="a", model="openai:gpt-4o"))
    half = find_pricing(SystemSpec(name="a", model="openai:gpt-4o", mode="batch"))
    assert whole is not None
    assert half is not None
    tokens = {"input": 1000.0, "output": 10.0}
    assert half.price_tokens(**tokens) == whole.price_tokens(**tokens) / 2


def test_other_providers_have_no_batches_here(tmp_path: Path) -> None:
    system = {"name": "g", "model": "groq:llama", "mode": "batch"}
    result = suite_folder(tmp_path, sums(1), [system]).run()
    assert result.exit_code == 2
    assert "mode: batch is for models of openai and anthropic" in result.stderr

"""Several servers of one model: who is asked next."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import calipers as cal
from benchmarks.model_server import ModelServer
from calipers.systems.calls import Call, Fault, Reply
from calipers.systems.models import LeastLoaded
from tests.runs.suites_at_hand import quick, suite_folder

__all__ = ["quick"]


class Server:
    """Answers once it is told to, or fails at once."""

    def __init__(self) -> None:
        self.asked = 0
        self.fault: Fault | None = None
        self.may_answer = asyncio.Event()

    async def __call__(self, call: Call) -> Reply:
        del call
        self.asked += 1
        if self.fault is not None:
            raise self.fault
        await self.may_answer.wait()
        return Reply(text="4")


def call() -> Call:
    return Call(record={}, prompt="2 + 2")


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_the_one_with_the_fewest_calls_is_next() -> None:
    async def ask() -> list[int]:
        servers = [Server() for _ in range(3)]
        fleet = LeastLoaded(servers)
        waiting = [asyncio.ensure_future(fleet(call())) for _ in range(6)]
        await settle()
        assert [each.asked for each in servers] == [2, 2, 2]
        servers[1].may_answer.set()  # now it has nothing to do
        await settle()
        waiting += [asyncio.ensure_future(fleet(call())) for _ in range(4)]
        await settle()
        for each in servers:
            each.may_answer.set()
        await asyncio.gather(*waiting)
        return [each.asked for each in servers]

    assert asyncio.run(ask()) == [2, 6, 2]


def test_one_that_fails_rests_longer_each_time() -> None:
    async def ask() -> None:
        now = 0.0
        down, up = Server(), Server()
        up.may_answer.set()
        down.fault = Fault("connection", "refused", again=True)
        fleet = LeastLoaded([down, up], clock=lambda: now)
        for rest in (0.5, 1.0, 2.0):
            with pytest.raises(Fault):
                await fleet(call())
            for _ in range(3):
                await fleet(call())
            now += rest
        assert (down.asked, up.asked) == (3, 9)
        down.fault = None
        down.may_answer.set()
        for _ in range(6):
            await fleet(call())
        assert down.asked > 3

    asyncio.run(ask())


def test_where_all_rest_the_first_to_wake_is_asked() -> None:
    async def ask() -> None:
        servers = [Server(), Server()]
        for each in servers:
            each.fault = Fault("server", "503", again=True)
        fleet = LeastLoaded(servers, clock=lambda: 0.0)
        for _ in range(4):
            with pytest.raises(Fault):
                await fleet(call())
        assert [each.asked for each in servers] == [2, 2]

    asyncio.run(ask())


@pytest.mark.usefixtures("quick")
def test_a_suite_names_several(tmp_path: Path) -> None:
    tasks = [{"id": f"t{n}", "input": f"{n} + 1 ANSWER:", "target": f"{n + 1}"} for n in range(40)]
    first, second = ModelServer(latency=0.01), ModelServer(latency=0.01)
    with first.in_thread() as one, second.in_thread() as two:
        nobody = "http://127.0.0.1:9/v1"  # the port of discarded bytes: refused at once
        system: dict[str, Any] = {"name": "m", "model": "openai:m", "base_url": [one, two, nobody]}
        folder = suite_folder(tmp_path, tasks, [system], concurrency=8)
        result = cal.run(folder.path / "suite.yaml", folder.results, report=False)
    assert (result.done, result.errors) == (40, 0)
    assert first.answered.total() + second.answered.total() == 40
    assert min(first.answered.total(), second.answered.total()) > 0


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (["http://a/v1", "nonsense"], "base_url: nonsense is no URL"),
        (["http://a/v1", 3], "base_url: neither a URL nor a list of URLs"),
        ([], "base_url: neither a URL nor a list of URLs"),
        (5, "base_url: neither a URL nor a list of URLs"),
        (["http://a/v1?api_key=x"], "base_url: a URL that holds a key"),
    ],
)
def test_every_url_is_checked(tmp_path: Path, given: Any, why: str) -> None:
    system = {"name": "m", "model": "openai:m", "base_url": given}
    folder = suite_folder(tmp_path, [{"id": "a", "input": "x"}], [system])
    with pytest.raises(cal.UsageError, match=why):
        cal.run(folder.path / "suite.yaml", folder.results, report=False)

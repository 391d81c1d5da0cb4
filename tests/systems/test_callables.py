"""Functions as systems: their calls share threads, and nothing else."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from queue import SimpleQueue
from typing import Any

import numpy as np
import pytest

from calipers.systems import functions
from calipers.systems.calls import Call, Fault, Reply, make_reply
from calipers.systems.functions import OwnLoop, PythonFunction

_left_behind: ContextVar[str] = ContextVar("left_behind", default="nothing")
_LONG = 60.0  # seconds, which no test waits


def test_every_call_has_a_context_of_its_own() -> None:
    threads = functions._Threads()
    found: SimpleQueue[str] = SimpleQueue()

    def work() -> None:
        found.put(_left_behind.get())
        _left_behind.set("something")

    for _ in range(20):
        threads.start(work)
        assert found.get(timeout=_LONG) == "nothing"


def test_a_call_that_hangs_keeps_no_other_from_its_thread() -> None:
    threads, release = functions._Threads(), threading.Event()
    done: SimpleQueue[int] = SimpleQueue()
    threads.start(lambda: (release.wait(_LONG), None)[1])
    for number in range(5):
        threads.start(lambda number=number: done.put(number))  # type: ignore[misc]
    assert sorted(done.get(timeout=_LONG) for _ in range(5)) == list(range(5))
    release.set()


def test_threads_that_have_nothing_to_do_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(functions, "_PATIENCE", 0.0)
    threads = functions._Threads()
    used: SimpleQueue[threading.Thread] = SimpleQueue()
    threads.start(lambda: used.put(threading.current_thread()))
    thread = used.get(timeout=_LONG)
    thread.join(_LONG)
    assert not thread.is_alive()
    assert not threads._idle
    threads.start(lambda: used.put(threading.current_thread()))
    assert used.get(timeout=_LONG) is not thread


def answer(record: dict[str, str]) -> str:
    return record["id"]


async def answer_later(record: dict[str, str]) -> str:
    await asyncio.sleep(0)
    return record["id"]


def promise(record: dict[str, str]) -> Awaitable[str]:
    return answer_later(record)


@pytest.mark.parametrize("function", [answer, answer_later, promise])
def test_the_time_of_a_function_is_its_own_whatever_the_run_does_meanwhile(
    function: Callable[[dict[str, str]], object],
) -> None:
    async def call() -> Reply:
        with OwnLoop() as loop:
            system = PythonFunction(function, loop, print)
            under_way = asyncio.create_task(system(Call(record={"id": "t1"}, prompt="")))
            await asyncio.sleep(0)
            time.sleep(0.2)  # noqa: ASYNC251 (starts other calls, writes records)
            return await under_way

    reply = asyncio.run(call())
    assert reply.text == "t1"
    assert reply.seconds is not None
    assert 0 <= reply.seconds < 0.1


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ValueError("no digits " * 1000), "exception"),
        (TimeoutError("their own limit"), "timeout"),
        (ConnectionError("their own server"), "connection"),
    ],
)
def test_an_exception_names_its_line_whatever_its_kind_and_however_long_its_text(
    error: Exception, kind: str
) -> None:
    def fail(_: dict[str, str]) -> str:
        raise error

    async def call() -> Reply:
        with OwnLoop() as loop:
            return await PythonFunction(fail, loop, print)(Call(record={}, prompt=""))

    with pytest.raises(Fault) as caught:
        asyncio.run(call())
    assert caught.value.kind == kind
    said = caught.value.message
    assert re.match(rf"{type(error).__name__} \(\S*test_callables\.py:[0-9]+\): (no|their)", said)


@pytest.mark.parametrize("given", [np.float64(3), np.arange(2), 3])
def test_a_reply_that_is_neither_text_nor_fields_is_refused_by_its_own_type(given: Any) -> None:
    with pytest.raises(Fault, match=f"a value of type {type(given).__name__}: it takes"):
        make_reply(given)

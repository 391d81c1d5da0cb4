"""Functions as systems: their calls share threads, and nothing else."""

from __future__ import annotations

import threading
from contextvars import ContextVar
from queue import SimpleQueue

import pytest

from calipers.systems import callables

_left_behind: ContextVar[str] = ContextVar("left_behind", default="nothing")
_LONG = 60.0  # seconds, which no test waits


def test_every_call_has_a_context_of_its_own() -> None:
    threads = callables._Threads()
    found: SimpleQueue[str] = SimpleQueue()

    def work() -> None:
        found.put(_left_behind.get())
        _left_behind.set("something")

    for _ in range(20):
        threads.start(work)
        assert found.get(timeout=_LONG) == "nothing"


def test_a_call_that_hangs_keeps_no_other_from_its_thread() -> None:
    threads, release = callables._Threads(), threading.Event()
    done: SimpleQueue[int] = SimpleQueue()
    threads.start(lambda: (release.wait(_LONG), None)[1])
    for number in range(5):
        threads.start(lambda number=number: done.put(number))  # type: ignore[misc]
    assert sorted(done.get(timeout=_LONG) for _ in range(5)) == list(range(5))
    release.set()


def test_threads_that_have_nothing_to_do_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(callables, "_PATIENCE", 0.0)
    threads = callables._Threads()
    used: SimpleQueue[threading.Thread] = SimpleQueue()
    threads.start(lambda: used.put(threading.current_thread()))
    thread = used.get(timeout=_LONG)
    thread.join(_LONG)
    assert not thread.is_alive()
    assert not threads._idle
    threads.start(lambda: used.put(threading.current_thread()))
    assert used.get(timeout=_LONG) is not thread

"""The event loop that the calls of a run are made in, to its end or until somebody stops it."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any


def run_to_end(calls: Coroutine[Any, Any, None]) -> None:
    """Run to the end, also within a notebook, whose own loop is already running."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        _run_here(calls)
        return
    raised: list[BaseException] = []

    def beside() -> None:
        try:
            _run_here(calls)
        except BaseException as error:  # noqa: BLE001 (is raised again below)
            raised.append(error)

    thread = threading.Thread(target=beside, name="calipers-run")
    thread.start()
    thread.join()
    if raised:
        raise raised[0]


def _run_here(calls: Coroutine[Any, Any, None]) -> None:
    async def main() -> None:
        with _ended_by_sigterm():
            await calls

    try:
        asyncio.run(main())
    except BaseExceptionGroup as group:
        raise _first(group) from None


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """A polite request to end is as good as Ctrl-C."""
    task = asyncio.current_task()
    if task is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGTERM)


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error

"""The event loop in which the calls of a run are made, to its end or until it is stopped."""

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

    def run_in_thread() -> None:
        try:
            _run_here(calls)
        except BaseException as error:  # noqa: BLE001 (is raised again below)
            raised.append(error)

    thread = threading.Thread(target=run_in_thread, name="calipers-run")
    thread.start()
    thread.join()
    if raised:
        raise raised[0]


def _run_here(calls: Coroutine[Any, Any, None]) -> None:
    async def main() -> None:
        with _handle_sigterm():
            await calls

    try:
        asyncio.run(main())
    except BaseExceptionGroup as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        raise error from None


@contextmanager
def _handle_sigterm() -> Iterator[None]:
    """Treat SIGTERM like Ctrl-C, inside the block."""
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

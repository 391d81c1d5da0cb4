"""An event loop in its own thread, for users' async functions.

One that blocks where it should await (`time.sleep`) holds up the functions beside it, but not the
run: its call times out like any other, and calls that could not begin meanwhile may be made again.
All functions share the loop, for they may share clients, and these belong to a loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from threading import Event, Thread
from time import monotonic
from types import TracebackType
from typing import Any, Self

_BEAT = 0.05  # seconds between signs of life
_LATE = 0.5  # seconds without one mean that somebody blocks it
_PATIENCE = 1.0  # seconds to end in
_NOT_BEGUN = "it had not begun"


class Raised(Exception):  # noqa: N818
    """Carries an exception that a future cannot hold, such as StopIteration or SystemExit."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error


class OwnLoop:
    """Runs users' async functions in a loop of its own, from the first one until it is left."""

    def __enter__(self) -> Self:
        self._thread: Thread | None = None
        self._last_sign = monotonic()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End it; one that is blocked is left behind, and ends with the program."""
        if self._thread is not None:
            with suppress(RuntimeError):  # it has ended by itself
                self._loop.call_soon_threadsafe(self._over.set)
            self._thread.join(_PATIENCE)

    def _begin(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._over = asyncio.Event()
        self._last_sign = monotonic()
        self._thread = Thread(target=self._run_loop, daemon=True, name="calipers-functions")
        self._thread.start()

    async def run(self, begin: Callable[[], Awaitable[Any]]) -> Any:
        """Return the result of what is begun there; raise `Raised` with what it raised."""
        begun, given_up = Event(), Event()
        if self._thread is None:
            self._begin()

        async def run_begun() -> Any:
            begun.set()
            if given_up.is_set():
                raise asyncio.CancelledError
            try:
                return await begin()
            except asyncio.CancelledError:
                raise
            except BaseException as error:  # noqa: BLE001 (SystemExit would end the loop)
                raise Raised(error) from None

        future = asyncio.run_coroutine_threadsafe(run_begun(), self._loop)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and not task.cancelling():
                raise Raised(error) from None  # its own doing
            given_up.set()
            raise asyncio.CancelledError(*([] if begun.is_set() else [_NOT_BEGUN])) from None

    @property
    def is_blocked(self) -> bool:
        """Say whether something holds it up just now."""
        return self._thread is not None and monotonic() - self._last_sign > _LATE

    def _run_loop(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._beat())

    async def _beat(self) -> None:
        while not self._over.is_set():
            self._last_sign = monotonic()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._over.wait(), _BEAT)


def is_unbegun(late: TimeoutError) -> bool:
    """Say whether a call that timed out was waiting for the loop all the time."""
    return late.__cause__ is not None and _NOT_BEGUN in late.__cause__.args

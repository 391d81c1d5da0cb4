"""A limit of time for each of many tasks, by one timer for all of them.

`asyncio.timeout` does the same with a timer for each. Since the limit is the same for all, tasks
time out in the order in which they started, and one timer for the first is enough.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


class Deadlines:
    """Bounds the time of whatever is awaited by way of it; None is no bound."""

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._ends: dict[asyncio.Task[object], float] = {}  # by when, the first one first
        self._late: set[asyncio.Task[object]] = set()
        self._timer: asyncio.TimerHandle | None = None

    async def keep(self, awaited: Awaitable[T]) -> T:
        """Return what is awaited; a task may wait for one thing at a time.

        Raises:
            TimeoutError: It has taken longer than the limit, and was cancelled.
        """
        task = asyncio.current_task()
        if self._seconds is None or task is None:
            return await awaited
        loop = task.get_loop()
        end = loop.time() + self._seconds
        self._ends[task] = end
        if self._timer is None:
            self._timer = loop.call_at(end, self._cancel_late, loop)
        cancelling = task.cancelling()
        try:
            found = await awaited
        except asyncio.CancelledError as error:
            if self._leave(task) and task.cancelling() <= cancelling:
                raise TimeoutError from error
            raise
        except BaseException:
            self._leave(task)
            raise
        self._leave(task)
        return found

    def _leave(self, task: asyncio.Task[object]) -> bool:
        """Take a task out, and say whether it was cancelled here."""
        self._ends.pop(task, None)
        if task not in self._late:
            return False
        self._late.discard(task)
        task.uncancel()
        return True

    def _cancel_late(self, loop: asyncio.AbstractEventLoop) -> None:
        """Cancel the tasks whose time is over, and wait for the next one."""
        self._timer = None
        now = loop.time()
        for task, end in [*self._ends.items()]:
            if end > now:
                self._timer = loop.call_at(end, self._cancel_late, loop)
                return
            del self._ends[task]
            self._late.add(task)
            task.cancel()

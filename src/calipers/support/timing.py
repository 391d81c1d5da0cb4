"""Time a call (P, time taken): its value, and its seconds by a monotonic clock.

>>> value, duration_seconds = timed(sum)([1, 2])
>>> value, 0 <= duration_seconds < 1
(3, True)

As a decorator, also of an async function; or around a block:

>>> with timed() as clock:
...     total = sum([1, 2])
>>> record = {"answer": total, "duration_seconds": clock.duration_seconds}
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import wraps
from inspect import iscoroutinefunction
from time import perf_counter_ns
from types import TracebackType
from typing import Any, Generic, NamedTuple, ParamSpec, Self, TypeVar, overload

from calipers.support.options import require_callable

P = ParamSpec("P")
T = TypeVar("T")

_NANOSECONDS = 1e9
_WORTH_SAYING = 5.0  # seconds


def say_duration(what: str, seconds: float) -> None:
    """Say on stderr about how long some work will take, if it is more than a few seconds.

    Args:
        what: is done, in the plural.
        seconds: as estimated from a small part of it.
    """
    if seconds > _WORTH_SAYING:
        sys.stderr.write(f"note: {what} will take about {seconds:,.0f} s more\n")
        sys.stderr.flush()


class Timed(NamedTuple, Generic[T]):
    """The value of a call, and how long it took."""

    value: T
    duration_seconds: float


@dataclass
class Clock:
    """The time since its block began; from the block's end on, what the block took."""

    _started: int = field(default_factory=perf_counter_ns, repr=False)
    _stopped: int | None = field(default=None, repr=False)

    @property
    def duration_seconds(self) -> float:
        """Seconds, measured in nanoseconds."""
        until = perf_counter_ns() if self._stopped is None else self._stopped
        return (until - self._started) / _NANOSECONDS

    def __enter__(self) -> Self:
        self._started, self._stopped = perf_counter_ns(), None
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stopped = perf_counter_ns()


@overload
def timed() -> Clock: ...
@overload
def timed(  # type: ignore[overload-overlap]  # what can be awaited is awaited
    call: Callable[P, Awaitable[T]],
) -> Callable[P, Awaitable[Timed[T]]]: ...
@overload
def timed(call: Callable[P, T]) -> Callable[P, Timed[T]]: ...
def timed(call: Callable[..., Any] | None = None) -> Any:
    """Return the function wrapped to return its value and its time; without one, a clock."""
    if call is None:
        return Clock()
    require_callable("timed", call, fix="for example timed(answer)")
    if iscoroutinefunction(call) or iscoroutinefunction(getattr(call, "__call__", None)):  # noqa: B004

        @wraps(call)
        async def time_async(*args: Any, **kwargs: Any) -> Timed[Any]:
            with Clock() as clock:
                value = await call(*args, **kwargs)
            return Timed(value, clock.duration_seconds)

        return time_async

    @wraps(call)
    def time_call(*args: Any, **kwargs: Any) -> Timed[Any]:
        with Clock() as clock:
            value = call(*args, **kwargs)
        return Timed(value, clock.duration_seconds)

    return time_call

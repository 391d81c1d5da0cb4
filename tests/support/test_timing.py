"""`cal.timed`: the value and the time of calls and blocks, sync and async."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import pytest

import calipers as cal
from calipers.support.timing import say_duration

PAUSE = 0.02


def slow(number: int, *, times: int = 2) -> int:
    """Twice, slowly."""
    time.sleep(PAUSE)
    return number * times


async def slow_async(number: int, *, times: int = 2) -> int:
    await asyncio.sleep(PAUSE)
    return number * times


class SlowAsync:
    async def __call__(self, number: int, *, times: int = 2) -> int:
        return await slow_async(number, times=times)


def test_a_call_gives_its_value_and_its_duration() -> None:
    value, duration_seconds = cal.timed(slow)(4, times=3)
    assert value == 12
    assert PAUSE <= duration_seconds < 60
    assert cal.timed(slow)(1).duration_seconds >= PAUSE


@pytest.mark.parametrize("call", [slow_async, SlowAsync(), partial(slow_async, times=2)])
def test_an_async_call_is_timed_until_it_is_done(call: Any) -> None:
    wrapped: Callable[[int], Coroutine[Any, Any, cal.Timed[int]]] = cal.timed(call)
    value, duration_seconds = asyncio.run(wrapped(4))
    assert value == 8
    assert PAUSE <= duration_seconds < 60


def test_async_calls_at_once_have_each_their_own_time() -> None:
    async def all_at_once() -> tuple[cal.Timed[int], cal.Timed[int]]:
        done = asyncio.Event()

        async def outlasts() -> int:
            await done.wait()
            return await slow_async(3, times=1)

        async def ends_first() -> int:
            done.set()
            return 1

        return await asyncio.gather(cal.timed(outlasts)(), cal.timed(ends_first)())

    long, short = asyncio.run(all_at_once())
    assert (long.value, short.value) == (3, 1)
    assert short.duration_seconds < long.duration_seconds


def test_a_decorated_function_keeps_its_name() -> None:
    decorated = cal.timed(slow)
    assert decorated.__name__ == "slow"
    assert decorated.__doc__ == "Twice, slowly."


def test_microseconds_are_seen() -> None:
    durations = [cal.timed(lambda: None)().duration_seconds for _ in range(50)]
    assert 0 <= min(durations) < 1e-4
    assert len(set(durations)) > 1


def test_a_block_is_timed_even_if_it_fails() -> None:
    with pytest.raises(ZeroDivisionError), cal.timed() as clock:
        _ = slow(1) / 0
    taken = clock.duration_seconds
    assert taken >= PAUSE
    assert clock.duration_seconds == taken
    with cal.timed() as running:
        assert running.duration_seconds <= running.duration_seconds


def test_an_error_passes_through() -> None:
    with pytest.raises(ZeroDivisionError):
        cal.timed(lambda: 1 / 0)()


def test_the_duration_goes_into_a_record() -> None:
    value, duration_seconds = cal.timed(slow)(1)
    score = cal.score([{"answer": value, "duration_seconds": duration_seconds}], profile="agents")
    assert score.groups[0].metrics["time_score"].value == 1


def test_only_long_work_is_announced(capsys: pytest.CaptureFixture[str]) -> None:
    say_duration("1,000 resamples of 20 tasks", 2.0)
    assert not capsys.readouterr().err
    say_duration("1,000 resamples of 5,000,000 tasks", 1234.4)
    said = capsys.readouterr().err
    assert said == "note: 1,000 resamples of 5,000,000 tasks will take about 1,234 s more\n"

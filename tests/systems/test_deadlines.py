"""Limits of time: what takes longer is cancelled, and nothing else is."""

from __future__ import annotations

import asyncio

import pytest

from calipers.systems.deadlines import Deadlines

SHORT, LONG = 0.02, 30


async def sleep_long() -> str:
    await asyncio.sleep(LONG)
    return "awake"


async def answer() -> str:
    await asyncio.sleep(0)
    return "here"


def test_what_takes_too_long_is_cancelled_and_the_task_goes_on() -> None:
    async def work() -> str:
        deadlines = Deadlines(SHORT)
        task = asyncio.current_task()
        assert task is not None
        for _ in range(3):
            with pytest.raises(TimeoutError) as caught:
                await deadlines.keep(sleep_long())
            assert isinstance(caught.value.__cause__, asyncio.CancelledError)
            assert not task.cancelling()
        return await answer()

    assert asyncio.run(work()) == "here"


def test_each_of_many_tasks_has_its_own_time() -> None:
    async def work() -> list[str | BaseException]:
        deadlines = Deadlines(SHORT)

        async def call(number: int) -> str:
            await asyncio.sleep(SHORT * number / 2)
            return await deadlines.keep(sleep_long())

        return await asyncio.gather(*map(call, range(6)), return_exceptions=True)

    assert all(isinstance(each, TimeoutError) for each in asyncio.run(work()))


def test_one_that_is_done_does_not_hold_up_the_next() -> None:
    async def work() -> list[str]:
        deadlines = Deadlines(LONG)
        return [await deadlines.keep(answer()) for _ in range(3)]

    assert asyncio.run(work()) == ["here"] * 3


def test_without_a_limit_nothing_is_cancelled() -> None:
    assert asyncio.run(Deadlines(None).keep(answer())) == "here"


def test_what_cancels_from_outside_comes_through() -> None:
    async def work() -> None:
        task = asyncio.create_task(Deadlines(LONG).keep(sleep_long()))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(work())


def test_what_answers_its_cancelling_has_answered() -> None:
    async def stubborn() -> str:
        try:
            return await sleep_long()
        except asyncio.CancelledError:
            return "all the same"

    async def work() -> tuple[str, int]:
        task = asyncio.current_task()
        assert task is not None
        return await Deadlines(SHORT).keep(stubborn()), task.cancelling()

    assert asyncio.run(work()) == ("all the same", 0)


def test_errors_come_through() -> None:
    async def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        asyncio.run(Deadlines(LONG).keep(fail()))

"""How fast a system is called: gives way, recovers, and gives up on what is down."""

from __future__ import annotations

import asyncio
from time import monotonic

import pytest

from calipers.systems.calls import Fault
from calipers.systems.pace import Lane

DOWN = Fault("server", "down", again=True, outage=True)
TOO_MANY = Fault("rate_limit", "too many", again=True)


def test_the_limit_halves_once_for_calls_of_one_moment_and_grows_again() -> None:
    lane = Lane(64)
    began = monotonic()
    for _ in range(10):
        lane.settle(0, began, TOO_MANY)
    assert lane.limit == 32
    lane.settle(0, monotonic(), TOO_MANY)
    assert lane.limit == 16
    for _ in range(17):  # a round
        lane.settle(0, monotonic(), None)
    assert lane.limit == 17
    for _ in range(5_000):
        lane.settle(0, monotonic(), None)
    assert lane.limit == 64
    for _ in range(20):
        lane.settle(0, monotonic(), TOO_MANY)
    assert lane.limit == 1


def test_no_more_than_the_limit_are_in_flight() -> None:
    async def most() -> int:
        lane, now, seen = Lane(3), 0, 0

        async def call() -> None:
            nonlocal now, seen
            async with lane:
                now += 1
                seen = max(seen, now)
                await asyncio.sleep(0.001)
                now -= 1

        await asyncio.gather(*(call() for _ in range(20)))
        return seen

    assert asyncio.run(most()) == 3


def test_a_system_that_is_down_is_tried_a_few_times_and_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("calipers.systems.pace._PAUSES", (0.01, 0.02))

    async def calls() -> tuple[int, Lane]:
        lane, made = Lane(4), 0

        async def worker() -> None:
            nonlocal made
            while lane.given_up is None:
                async with lane:
                    if lane.given_up is None:
                        made += 1
                        await asyncio.sleep(0.001)
                        lane.settle(0, monotonic(), DOWN)

        await asyncio.wait_for(asyncio.gather(*(worker() for _ in range(4))), 60)
        return made, lane

    made, lane = asyncio.run(calls())
    assert lane.given_up is DOWN
    assert made <= 4 + 4 + 2 + 3  # two rounds, and a call after each pause


def test_one_good_call_and_all_is_forgiven() -> None:
    lane = Lane(4)
    for _ in range(100):
        for _ in range(4):
            lane.settle(0, monotonic(), DOWN)
        lane.settle(0, monotonic(), None)
    assert lane.given_up is None
    assert lane.limit == 4
    for _ in range(100):
        lane.settle(0, monotonic(), Fault("bad_request", "this one only"))
    assert lane.limit == 4


def test_waits_double_and_are_as_long_as_the_server_asks() -> None:
    lane = Lane(1)
    waits = [lane.compute_backoff(attempt, DOWN) for attempt in range(12)]
    assert all(0.125 * 2**n <= wait <= 0.25 * 2**n for n, wait in enumerate(waits[:6]))
    assert max(waits) <= 20
    assert lane.compute_backoff(0, Fault("rate_limit", "", retry_after=3.5)) == 3.5


def test_a_server_that_promises_too_much_is_given_more_time() -> None:
    """Eight waits of .1 s do not outlast a limit per second."""
    lane = Lane(1)
    hasty = Fault("rate_limit", "", retry_after=0.1)
    waits = [lane.compute_backoff(attempt, hasty) for attempt in range(8)]
    assert waits[0] == 0.1
    assert sum(waits) > 10
    patient = Fault("rate_limit", "", retry_after=30.0)
    assert [lane.compute_backoff(attempt, patient) for attempt in range(8)] == [30.0] * 8

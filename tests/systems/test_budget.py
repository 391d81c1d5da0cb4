"""What a budget reserves before a call, and what it counts afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from calipers.metrics.token_prices import Price
from calipers.systems.budget import Budget, Pricing

DOLLAR_A_TOKEN = Pricing(((-1.0, Price(input=1e6, output=1e6)),), "suite")


def spend(usd: float, work: Callable[[Budget], Awaitable[Any]], **before: Any) -> Any:
    given: dict[str, Any] = {"spent_usd": 0.0, "spent_calls": 0, "dearest": {}, **before}

    async def run() -> Any:
        return await asyncio.wait_for(work(Budget(usd, given.pop("calls", None), **given)), 5)

    return asyncio.run(run())


async def ask(budget: Budget, **settings: Any) -> float | None:
    return await budget.reserve(0, DOLLAR_A_TOKEN, "four", settings)


async def ask_judges(budget: Budget) -> float | None:
    return await budget.reserve_judging(0)


@pytest.mark.parametrize("usd", [0.5, 0.49])
def test_a_call_may_cost_a_quarter_more_than_the_dearest_so_far(usd: float) -> None:
    reserved = spend(usd, ask, dearest={0: 0.4})
    assert reserved == (pytest.approx(0.5) if usd == 0.5 else None)


@pytest.mark.parametrize("usd", [0.5, 0.49])
def test_so_may_judging_a_record(usd: float) -> None:
    reserved = spend(usd, ask_judges, dearest={0: 0.1}, judging={0: 0.4})
    assert reserved == (pytest.approx(0.5) if usd == 0.5 else None)


def test_a_prompt_may_take_a_quarter_more_tokens_than_the_dearest_so_far() -> None:
    async def ask_twice(budget: Budget) -> tuple[float | None, float | None]:
        first = await ask(budget, max_tokens=10)
        assert first is not None
        budget.settle(0, first, 14.0, "four", 4.0)  # tokens, of a prompt of 5 bytes with its end
        return first, await ask(budget, max_tokens=10)

    # At first a token may be a byte, and the format of a chat adds 32.
    assert spend(1000, ask_twice) == (4 + 32 + 10, 6 + 10)


@pytest.mark.parametrize("spent", [0.0, 0.9, 1.0, 1.1])
def test_no_call_of_unknown_cost_begins_once_the_budget_is_spent(spent: float) -> None:
    async def ask_until_spent(budget: Budget) -> tuple[bool, bool]:
        return await ask(budget) is not None, budget.is_spent

    assert spend(1.0, ask_until_spent, spent_usd=spent) == (spent < 1, spent >= 1)


def test_the_first_call_of_unknown_cost_goes_alone() -> None:
    async def ask_two(budget: Budget) -> None:
        first = await ask(budget)
        assert first == 0.0
        second = asyncio.create_task(ask(budget))
        await asyncio.sleep(0)
        assert not second.done()
        budget.settle(0, first, 0.8, "four", None)
        assert await second is None  # it may cost a dollar

    spend(1.5, ask_two)


def test_what_is_under_way_is_reserved() -> None:
    async def ask_two(budget: Budget) -> None:
        first = await ask(budget)
        assert first == 0.5
        second = asyncio.create_task(ask(budget))
        await asyncio.sleep(0)
        assert not second.done()
        budget.settle(0, first, 0.3, "four", None)
        assert await second == 0.5  # of the dearest, not of the last

    spend(0.9, ask_two, dearest={0: 0.4})


def test_a_call_whose_cost_is_unknown_has_cost_what_was_reserved() -> None:
    async def lose(budget: Budget) -> float:
        reserved = await ask(budget)
        assert reserved is not None
        budget.settle(0, reserved, None, "four", None)
        return budget.spent_usd

    assert spend(1.0, lose, dearest={0: 0.4}) == pytest.approx(0.5)


def test_what_judging_cost_is_spent() -> None:
    async def judge(budget: Budget) -> float:
        reserved = await ask_judges(budget)
        assert reserved is not None
        budget.settle_judging(0, reserved, 0.3)
        return budget.spent_usd

    assert spend(1.0, judge, dearest={0: 0.1}, judging={0: 0.4}) == pytest.approx(0.3)


@pytest.mark.parametrize("made", [6, 7])
def test_calls_of_before_count(made: int) -> None:
    async def count(budget: Budget) -> int:
        calls = 0
        while (reserved := await ask(budget)) is not None:
            budget.settle(0, reserved, 0.0, "four", None)
            calls += 1
        return calls

    assert spend(100.0, count, calls=8, spent_calls=made, dearest={0: 0.1}) == 8 - made

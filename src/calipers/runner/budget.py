"""Dollars and calls that may be spent: no call begins that might pass the budget.

Before a call, the most that it may cost is set aside; after it, what it did cost. With `max_tokens`
among the settings that is a bound. Without it, it is a quarter above the dearest call so far, and
the first call goes alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from calipers.runner.pricing import Pricing

_OVERHEAD = 32  # tokens that a chat's format adds to a prompt
_MARGIN = 1.25
_LIMITS = ("max_tokens", "max_completion_tokens")


@dataclass(slots=True)
class _Seen:
    """What a system's calls were like so far."""

    dearest: float | None = None
    tokens_per_byte: float | None = None


class Budget:
    """What is left, over all runs of a folder."""

    def __init__(
        self,
        usd: float | None,
        calls: int | None,
        *,
        spent_usd: float,
        spent_calls: int,
        dearest: Mapping[int, float],
    ) -> None:
        self._usd = usd
        self._calls = calls
        self.spent_usd = spent_usd
        self._spent_calls = spent_calls
        self._reserved: list[float] = []
        self._settled = asyncio.Event()
        self._seen = {system: _Seen(cost) for system, cost in dearest.items()}
        self.is_spent = False

    async def reserve(
        self, system: int, pricing: Pricing | None, prompt: str, settings: Mapping[str, Any]
    ) -> float | None:
        """Set aside what a call may cost; None where that is too much, and all is to stop."""
        while not self.is_spent:
            if self._calls is not None and self._spent_calls + len(self._reserved) >= self._calls:
                self.is_spent = True
                return None
            most = self._most(system, pricing, prompt, settings)
            alone = not self._reserved
            if self._usd is None or (most is None and alone and self.spent_usd < self._usd):
                return self._set_aside(most or 0.0)
            if most is not None and self.spent_usd + sum(self._reserved) + most <= self._usd:
                return self._set_aside(most)
            if alone:
                self.is_spent = True
            else:
                self._settled.clear()
                await self._settled.wait()
        return None

    def _set_aside(self, most: float) -> float:
        self._reserved.append(most)
        return most

    def settle(
        self, system: int, reserved: float, cost: float | None, prompt: str, tokens: float | None
    ) -> None:
        """A call is over: what it cost is spent, or what was set aside where that is unknown."""
        self._reserved.remove(reserved)
        self._spent_calls += 1
        self.spent_usd += reserved if cost is None else cost
        seen = self._seen.setdefault(system, _Seen())
        if cost is not None:
            seen.dearest = max(seen.dearest or 0.0, cost)
        if tokens is not None:
            per_byte = tokens / (len(prompt.encode()) + 1)
            seen.tokens_per_byte = max(seen.tokens_per_byte or 0.0, per_byte)
        self._settled.set()

    def release(self, reserved: float) -> None:
        """A call did not take place."""
        self._reserved.remove(reserved)
        self._settled.set()

    def _most(
        self, system: int, pricing: Pricing | None, prompt: str, settings: Mapping[str, Any]
    ) -> float | None:
        if self._usd is None:
            return 0.0
        seen = self._seen.get(system, _Seen())
        bound = most_output(settings)
        if pricing is None or bound is None:
            return None if seen.dearest is None else seen.dearest * _MARGIN
        size = len(prompt.encode())
        tokens = size + _OVERHEAD  # a token is at least a byte
        if seen.tokens_per_byte is not None:
            tokens = min(tokens, int((size + 1) * seen.tokens_per_byte * _MARGIN) + 1)
        return pricing.at(input=tokens, output=bound)


def most_output(settings: Mapping[str, Any]) -> int | None:
    """How many tokens a reply may have at most."""
    found = next((settings[name] for name in _LIMITS if name in settings), None)
    return found if isinstance(found, int) else None

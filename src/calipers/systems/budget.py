"""What calls cost: the price of a system, estimates, and a budget of dollars and calls.

No call begins that might exceed the budget. Before a call, the most that it may cost is reserved;
afterwards, its cost is recorded. With `max_tokens` in the settings there is a bound. Without it,
1.25 times the most expensive call so far is reserved, and the first call goes alone. The same holds
for judges, whose cost has no bound.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from calipers.metrics.token_prices import (
    KEYS,
    Price,
    Tariff,
    open_price_list,
    price_call,
    price_tokens,
)
from calipers.systems.spec import NamedModel

_BATCH_SHARE = 0.5  # what OpenAI and Anthropic take of their prices
GIVE_PRICE = (
    "give it: price: {input: 0.15, output: 0.60}, USD per million tokens; "
    "the price list comes with pip install 'calipers[prices]'"
)


@dataclass(frozen=True, slots=True)
class Pricing:
    """A system's prices, and where they are from."""

    steps: Tariff
    source: str
    share: float = 1.0  # of these prices that is paid

    def compute_cost(self, fields: Mapping[str, Any]) -> float | None:
        """Return the cost of a call in USD; None if its tokens are not known."""
        cost = price_call(fields, self.steps)
        return None if cost is None else cost * self.share

    def price_tokens(self, **tokens: float) -> float:
        """Return the price of so many tokens, by the names of their prices."""
        return price_tokens({**dict.fromkeys(KEYS, 0.0), **tokens}, self.steps) * self.share

    def to_dict(self) -> dict[str, Any]:
        """Return the price of an ordinary call and its source, as in the manifest."""
        return {"usd_per_million": asdict(self.steps[0][1]), "source": self.source}


def find_pricing(system: NamedModel) -> Pricing | None:
    """Return the prices of a system or a judge; None if none is known."""
    if system.price is not None:
        return Pricing(((-1.0, Price(**system.price.model_dump())),), "suite")
    listed = open_price_list() if system.model is not None else None
    tariff = listed.find_tariff(system.model) if listed and system.model else None
    if not tariff:
        return None
    if getattr(system, "mode", None) == "batch":
        return Pricing(tariff, f"{listed}, half for batches", _BATCH_SHARE)
    return Pricing(tariff, str(listed))


_BYTES_PER_TOKEN = 4  # of plain English; other texts have fewer


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemEstimate:
    """An estimate of the calls of one system: how many, their tokens and their cost."""

    name: str
    calls: int
    input_tokens: int | None = None  # about
    output_tokens: int | None = None  # at most
    input_usd: float | None = None
    most_usd: float | None = None
    price: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteEstimate:
    """An estimate of all calls of a suite, from an empty folder."""

    systems: tuple[SystemEstimate, ...]

    @property
    def calls(self) -> int:
        """The number of calls of all systems."""
        return sum(system.calls for system in self.systems)


def estimate_tokens(prompt: str) -> int:
    """Return roughly how many tokens a prompt has."""
    return len(prompt.encode()) // _BYTES_PER_TOKEN + 1


_OVERHEAD = 32  # tokens that a chat's format adds to a prompt
_MARGIN = 1.25
_LIMITS = ("max_tokens", "max_completion_tokens")


@dataclass(slots=True)
class _Seen:
    """The most expensive call and judging of a system so far."""

    dearest: float | None = None  # judges included
    tokens_per_byte: float | None = None
    judging: float | None = None  # the dearest


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
        judging: Mapping[int, float] | None = None,  # none where nobody judges
    ) -> None:
        self._usd = usd
        self._calls = calls
        self.spent_usd = spent_usd
        self._spent_calls = spent_calls
        self._reserved: list[float] = []
        self._settled = asyncio.Event()
        before = judging or {}
        self._judges = judging is not None
        self._seen = {
            system: _Seen(cost + before.get(system, 0.0), judging=before.get(system))
            for system, cost in dearest.items()
        }
        self.is_spent = False

    async def reserve(
        self, system: int, pricing: Pricing | None, prompt: str, settings: Mapping[str, Any]
    ) -> float | None:
        """Set aside what a call may cost; None where that is too much, and all is to stop."""
        if self._usd is None and self._calls is None:
            return self._set_aside(0.0)
        return await self._reserve(lambda: self._bound_cost(system, pricing, prompt, settings))

    async def reserve_judging(self, system: int) -> float | None:
        """Reserve the cost of judging a record once more; return None if it exceeds the budget."""
        return await self._reserve(lambda: self._bound_judging(system), calls=0)

    async def _reserve(self, most_of: Callable[[], float | None], calls: int = 1) -> float | None:
        while not self.is_spent:
            made = self._spent_calls + len(self._reserved)
            if calls and self._calls is not None and made >= self._calls:
                self.is_spent = True
                return None
            most = most_of()
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
        self,
        system: int,
        reserved: float,
        cost: float | None,
        prompt: str,
        tokens: float | None,
        *,
        judging: float = 0.0,
    ) -> None:
        """Record the cost of a finished call; if it is unknown, what was reserved for it."""
        self._reserved.remove(reserved)
        self._spent_calls += 1
        self.spent_usd += reserved if cost is None else cost
        seen = self._seen.setdefault(system, _Seen())
        if cost is not None:
            seen.dearest = max(seen.dearest or 0.0, cost)
            seen.judging = max(seen.judging or 0.0, judging)
        if tokens is not None:
            per_byte = tokens / (len(prompt.encode()) + 1)
            seen.tokens_per_byte = max(seen.tokens_per_byte or 0.0, per_byte)
        self._settled.set()

    def settle_judging(self, system: int, reserved: float, cost: float) -> None:
        """Record the cost of judging a record once more."""
        self._reserved.remove(reserved)
        self.spent_usd += cost
        seen = self._seen.setdefault(system, _Seen())
        seen.judging = max(seen.judging or 0.0, cost)
        self._settled.set()

    def release(self, reserved: float) -> None:
        """Release the reservation of a call that was not made."""
        self._reserved.remove(reserved)
        self._settled.set()

    def _bound_cost(
        self, system: int, pricing: Pricing | None, prompt: str, settings: Mapping[str, Any]
    ) -> float | None:
        if self._usd is None:
            return 0.0
        seen = self._seen.get(system, _Seen())
        bound = limit_output(settings)
        if pricing is None or bound is None:
            return None if seen.dearest is None else seen.dearest * _MARGIN
        size = len(prompt.encode())
        tokens = size + _OVERHEAD  # a token is at least a byte
        if seen.tokens_per_byte is not None:
            tokens = min(tokens, int((size + 1) * seen.tokens_per_byte * _MARGIN) + 1)
        judging = self._bound_judging(system) if self._judges else 0.0
        return (
            None if judging is None else pricing.price_tokens(input=tokens, output=bound) + judging
        )

    def _bound_judging(self, system: int) -> float | None:
        """Return what judging a record may cost: a quarter above the highest so far."""
        if self._usd is None:
            return 0.0
        dearest = self._seen.get(system, _Seen()).judging
        return None if dearest is None else dearest * _MARGIN


def limit_output(settings: Mapping[str, Any]) -> int | None:
    """Return the most tokens that a reply may have, or None."""
    limit = next((settings[name] for name in _LIMITS if name in settings), None)
    return limit if isinstance(limit, int) else None

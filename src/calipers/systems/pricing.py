"""What a system's calls cost: by the suite's price, else by the price list."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from calipers.metrics.cost.prices import Price, price_list
from calipers.metrics.cost.prices.costs import PER_TOKENS
from calipers.runs.suite import Judge, Suite, System
from calipers.support.errors import UsageError

_TOKENS = {
    "input": "prompt_tokens",
    "output": "completion_tokens",
    "cache_read": "cache_read_tokens",
    "cache_write": "cache_write_tokens",
}

_GIVE = (
    "give it: price: {input: 0.15, output: 0.60}, USD per million tokens; "
    "the price list comes with pip install 'calipers[prices]'"
)


@dataclass(frozen=True, slots=True)
class Pricing:
    """A system's prices, each with the number of input tokens that a call must pass for it."""

    steps: tuple[tuple[float, Price], ...]
    source: str

    def cost(self, fields: Mapping[str, Any]) -> float | None:
        """What a call cost, in USD; None where its tokens are not known."""
        if any(fields.get(name) is None for name in ("prompt_tokens", "completion_tokens")):
            return None
        tokens = {key: float(fields.get(name) or 0) for key, name in _TOKENS.items()}
        return self.at(**tokens)

    def at(self, **tokens: float) -> float:
        """The price of so many tokens."""
        whole_input = sum(count for key, count in tokens.items() if key != "output")
        price = [each for above, each in self.steps if whole_input > above][-1]
        return sum((getattr(price, key) or 0) * n for key, n in tokens.items()) / PER_TOKENS

    def to_dict(self) -> dict[str, Any]:
        """As the manifest has it: the price of an ordinary call, and where it is from."""
        return {"usd_per_million": asdict(self.steps[0][1]), "source": self.source}


def pricings(suite: Suite) -> list[Pricing | None]:
    """The prices of each system; None where none is known."""
    found = [pricing_of(system) for system in suite.systems]
    if suite.budget_usd is not None:
        for system, pricing in zip(suite.systems, found, strict=True):
            if pricing is None and system.model is not None:
                raise UsageError(
                    f"budget_usd: no price is known for {system.name} ({system.model})",
                    fix=_GIVE,
                )
        check_prices(suite.judges)
    return found


def check_prices(judges: Sequence[Judge]) -> None:
    """Refuse judges whose prices nobody knows, which no budget in dollars can hold."""
    for judge in (model for each in judges for model in each.models):
        if pricing_of(judge) is None:
            raise UsageError(
                f"budget_usd: no price is known for the judge {judge.name} ({judge.model})",
                fix=_GIVE,
            )


def pricing_of(system: System | Judge) -> Pricing | None:
    """The prices of a system or a judge; None where none is known."""
    if system.price is not None:
        return Pricing(((-1.0, Price(**system.price.model_dump())),), "suite")
    listed = price_list() if system.model is not None else None  # takes half a second to load
    tariff = listed.tariff(system.model) if listed and system.model else None
    return Pricing(tariff, str(listed)) if tariff else None


def price_notices(suite: Suite, found: list[Pricing | None]) -> Iterator[str]:
    """Say whose costs will not be known."""
    unknown = [
        system.name
        for system, pricing in zip(suite.systems, found, strict=True)
        if pricing is None and system.model is not None
    ]
    if unknown:
        yield f"no price is known for {', '.join(unknown)}: its cost stays unknown"
    if suite.budget_usd is not None:
        for system, pricing in zip(suite.systems, found, strict=True):
            if pricing is None:
                yield f"the budget counts what {system.name} itself reports as cost_usd"

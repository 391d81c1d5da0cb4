"""The cost of a system's calls: by the suite's price, else by the price list."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from calipers.metrics.cost.prices import Price, open_price_list
from calipers.metrics.cost.prices.costs import PER_TOKENS
from calipers.support.quick_dataclasses import dataclass
from calipers.systems.spec import NamedModel

_TOKENS = {
    "input": "prompt_tokens",
    "output": "completion_tokens",
    "cache_read": "cache_read_tokens",
    "cache_write": "cache_write_tokens",
}

_BATCH_SHARE = 0.5  # what OpenAI and Anthropic take of their prices
GIVE_PRICE = (
    "give it: price: {input: 0.15, output: 0.60}, USD per million tokens; "
    "the price list comes with pip install 'calipers[prices]'"
)


@dataclass(frozen=True, slots=True)
class Pricing:
    """A system's prices, each with the number of input tokens that a call must pass for it."""

    steps: tuple[tuple[float, Price], ...]
    source: str
    share: float = 1.0  # of these prices that is paid

    def compute_cost(self, fields: Mapping[str, Any]) -> float | None:
        """Return the cost of a call in USD; None if its tokens are not known."""
        if any(fields.get(name) is None for name in ("prompt_tokens", "completion_tokens")):
            return None
        tokens = {key: float(fields.get(name) or 0) for key, name in _TOKENS.items()}
        return self.price_tokens(**tokens)

    def price_tokens(self, **tokens: float) -> float:
        """Return the price of so many tokens."""
        whole_input = sum(count for key, count in tokens.items() if key != "output")
        price = [each for above, each in self.steps if whole_input > above][-1]
        return (
            sum((getattr(price, key) or 0) * n for key, n in tokens.items())
            * self.share
            / PER_TOKENS
        )

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

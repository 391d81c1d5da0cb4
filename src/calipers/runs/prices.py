"""Prices of the systems and judges of a suite, and whose costs are unknown."""

from __future__ import annotations

from collections.abc import Iterator

from calipers.judges.prices import check_prices
from calipers.runs.suite import Suite
from calipers.support.errors import UsageError
from calipers.systems.pricing import GIVE_PRICE, Pricing, find_pricing


def find_prices(suite: Suite) -> list[Pricing | None]:
    """Return the prices of each system; None where none is known."""
    found = [find_pricing(system) for system in suite.systems]
    if suite.budget_usd is not None:
        for system, pricing in zip(suite.systems, found, strict=True):
            if pricing is None and system.model is not None:
                raise UsageError(
                    f"budget_usd: no price is known for {system.name} ({system.model})",
                    fix=GIVE_PRICE,
                )
        if suite.user is not None and find_pricing(suite.user) is None:
            raise UsageError(
                f"budget_usd: no price is known for the simulated user ({suite.user.model})",
                fix=GIVE_PRICE,
            )
        check_prices(suite.judges)
    return found


def note_unpriced(suite: Suite, found: list[Pricing | None]) -> Iterator[str]:
    """Yield whose costs will not be known."""
    unknown = [
        system.name
        for system, pricing in zip(suite.systems, found, strict=True)
        if pricing is None and system.model is not None
    ]
    if suite.user is not None and find_pricing(suite.user) is None:
        unknown.append("the simulated user")
    if unknown:
        yield f"no price is known for {', '.join(unknown)}: its cost stays unknown"
    if suite.budget_usd is not None:
        for system, pricing in zip(suite.systems, found, strict=True):
            if pricing is None:
                yield f"the budget counts what {system.name} itself reports as cost_usd"

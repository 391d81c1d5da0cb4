"""Prices of judges, which a budget in dollars rests on."""

from __future__ import annotations

from collections.abc import Sequence

from calipers.judges.spec import JudgeSpec
from calipers.support.errors import UsageError
from calipers.systems.pricing import GIVE_PRICE, find_pricing


def check_prices(judges: Sequence[JudgeSpec]) -> None:
    """Refuse judges without known prices, for which a budget in dollars cannot be kept."""
    for judge in (model for each in judges for model in each.models):
        if find_pricing(judge) is None:
            raise UsageError(
                f"budget_usd: no price is known for the judge {judge.name} ({judge.model})",
                fix=GIVE_PRICE,
            )

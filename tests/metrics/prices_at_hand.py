"""Prices and calls for tests of costs."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from calipers.metrics.token_prices import (
    USED,
    PriceList,
    Prices,
    check_prices,
    open_price_list,
    price_calls,
)

pytest.importorskip("genai_prices.data")


GOOD = {
    "claude": {"input": 3, "output": 15, "cache_read": 0.3, "cache_write": 3.75},
    "local": {"input": 0, "output": 0.5, "cache_read": None},
}


def costs(*calls: dict[str, Any], prices: Prices | None = None) -> pl.DataFrame:
    schema = {name: pl.String() if name == "model" else pl.Float64() for name in USED}
    return price_calls(pl.DataFrame([dict.fromkeys(USED) | call for call in calls], schema), prices)


def call(
    model: str, prompt: float = 1000, completion: float = 100, **more: float
) -> dict[str, Any]:
    return {"model": model, "prompt_tokens": prompt, "completion_tokens": completion, **more}


PRICES = check_prices(GOOD, source="prices.yaml")


@pytest.fixture
def listed() -> PriceList:
    found = open_price_list()
    assert found is not None
    return found

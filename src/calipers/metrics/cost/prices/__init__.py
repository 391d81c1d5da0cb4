"""Prices of tokens: from the user's file, or else from the list of the genai-prices package."""

from calipers.metrics.cost.prices.costs import USED, price_calls, price_together
from calipers.metrics.cost.prices.listed import PriceList, has_price_list, open_price_list
from calipers.metrics.cost.prices.table import Price, Prices, check_prices, read_prices

__all__ = [
    "USED",
    "Price",
    "PriceList",
    "Prices",
    "check_prices",
    "has_price_list",
    "open_price_list",
    "price_calls",
    "price_together",
    "read_prices",
]

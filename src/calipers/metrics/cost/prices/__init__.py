"""What tokens cost: by a file of the user's, else by the list of the genai-prices package."""

from calipers.metrics.cost.prices.costs import USED, priced
from calipers.metrics.cost.prices.listed import PriceList, price_list
from calipers.metrics.cost.prices.table import Price, Prices, checked_prices, read_prices
from calipers.records.usage import call_counts, calls_in, priced_together, read_usage

__all__ = [
    "USED",
    "Price",
    "PriceList",
    "Prices",
    "call_counts",
    "calls_in",
    "checked_prices",
    "price_list",
    "priced",
    "priced_together",
    "read_prices",
    "read_usage",
]

"""What tokens cost: by a file of the user's, else by the list of the genai-prices package."""

from calipers.metrics.cost.prices.costs import USED, priced
from calipers.metrics.cost.prices.listed import PriceList, price_list
from calipers.metrics.cost.prices.table import Price, Prices, checked_prices, read_prices
from calipers.metrics.cost.prices.together import priced_together

__all__ = [
    "USED",
    "Price",
    "PriceList",
    "Prices",
    "checked_prices",
    "price_list",
    "priced",
    "priced_together",
    "read_prices",
]

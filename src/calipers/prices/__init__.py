"""What tokens cost: by a file of the user's, else by the list of the genai-prices package."""

from calipers.prices.costs import USED, priced
from calipers.prices.listed import PriceList, price_list
from calipers.prices.table import Price, Prices, checked_prices, read_prices

__all__ = [
    "USED",
    "Price",
    "PriceList",
    "Prices",
    "checked_prices",
    "price_list",
    "priced",
    "read_prices",
]

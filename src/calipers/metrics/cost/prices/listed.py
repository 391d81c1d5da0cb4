"""The price list of the genai-prices package, as it is installed: nothing is ever downloaded."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from functools import cache, lru_cache
from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from calipers.metrics.cost.prices.remembered import Excerpt, Tariff, read_excerpt
from calipers.metrics.cost.prices.table import KEYS, Price
from calipers.support.quick_dataclasses import dataclass

if TYPE_CHECKING:
    from genai_prices.types import ModelPrice

_NOON = time(12, tzinfo=UTC)  # where prices differ by the hour, those at noon
_PREFIXED = re.compile(r"([^:/]+)[:/](.+)", re.DOTALL)
_IN_PATH = re.compile(r"(?:arn:.+|(?:(?:projects/.+/)?publishers/[^/]+/)?models)/(.+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class PriceList:
    """The list's version, and the day whose prices hold.

    Records do not say when a call was made. The day is the last one until today on which a price
    of the list changed: an announced price does not hold before its time, and as long as none
    changes, the same records give the same bytes.
    """

    version: str
    day: date

    def __str__(self) -> str:
        return f"genai-prices {self.version} (prices of {self.day})"

    def find_tariff(self, model: str) -> Tariff | None:
        """Return the prices of a model, by its name as providers write it, or None."""
        return _look_up(model, self.day)


def find_listed_tariff(model: str) -> Tariff | None:
    """Return the list's prices of a model, or None."""
    listed = open_price_list()
    return None if listed is None else listed.find_tariff(model)


def has_price_list() -> bool:
    """Say whether the extra `prices` is installed."""
    return find_spec("genai_prices") is not None


@cache
def open_price_list() -> PriceList | None:
    """Return the list, or None if the extra `prices` is not installed, or cannot be loaded."""
    if not has_price_list():
        return None
    try:
        known = open_excerpt()
    except ImportError:
        return None
    return PriceList(known.version, known.day)


@cache
def open_excerpt() -> Excerpt:
    """Return what is known of the list, of which only what is not remembered is loaded."""
    installed, today = version("genai-prices"), datetime.now(tz=UTC).date()
    return read_excerpt(installed, today) or _start_excerpt(installed, today)


def _start_excerpt(installed: str, today: date) -> Excerpt:
    from genai_prices.data import providers  # noqa: PLC0415 (an extra)

    changes = {
        getattr(price.constraint, "start_date", date.min)
        for provider in providers
        for model in provider.models
        for price in (model.prices if isinstance(model.prices, list) else ())
    }
    last = max((day for day in changes if day <= today), default=date.min)
    return Excerpt(installed, last, min((day for day in changes if day > today), default=None))


@lru_cache(maxsize=1 << 14)
def _look_up(model: str, day: date) -> Tariff | None:
    known = open_excerpt()
    if day != known.day:
        return _ask_list(model, day)
    if model in known.tariffs:
        return known.tariffs[model]
    try:
        tariff = _ask_list(model, day)
    except ImportError:  # it was there when the others were asked for
        return None
    known.remember(model, tariff)
    return tariff


def _ask_list(model: str, day: date) -> Tariff | None:
    """Return what the list itself says, which is loaded for that."""
    from genai_prices import Usage, calc_price  # noqa: PLC0415 (an extra)

    nothing = Usage(input_tokens=0, output_tokens=0)
    noon = datetime.combine(day, _NOON)
    for name, provider in _split_name(model):
        try:
            found = calc_price(nothing, name, provider_id=provider, genai_request_timestamp=noon)
        except LookupError:
            continue
        return read_tariff(found.model_price)
    return None


def _split_name(model: str) -> Iterator[tuple[str, str | None]]:
    """Yield ways to read a name as model and provider; a provider that it names goes first.

    `openai/gpt-4o`, `anthropic:claude-…`; `gpt-4o-2024-08-06`; `us.anthropic.claude-…-v1:0`;
    `models/gemini-…`; `arn:aws:bedrock:…:inference-profile/us.anthropic.claude-…`.
    """
    if prefixed := _PREFIXED.fullmatch(model):
        yield prefixed[2], prefixed[1]
    in_path = _IN_PATH.fullmatch(model)
    for name in (model, in_path[1]) if in_path else (model,):
        yield name, None
        yield name, "aws"


def read_tariff(prices: ModelPrice) -> Tariff | None:
    """Return the listed prices of tokens, tier by tier; None unless input and output have one."""
    rates = {key: getattr(prices, f"{key}_mtok") for key in KEYS}
    if rates["input"] is None or rates["output"] is None:
        return None
    starts = {tier.start for rate in rates.values() for tier in getattr(rate, "tiers", ())}
    return tuple(
        (float(start), Price(**{key: _get_price(start, rate) for key, rate in rates.items()}))
        for start in (-1, *sorted(starts))
    )


def _get_price(start: int, rate: Any) -> Any:
    """Return the price once a call has exceeded `start`: a decimal, one of tiers, or None."""
    tiers = [tier.price for tier in getattr(rate, "tiers", ()) if tier.start <= start]
    price = tiers[-1] if tiers else getattr(rate, "base", rate)
    return None if price is None else float(price)

"""Prices of tokens, and the costs of calls at these prices.

Prices are in USD per million tokens, from the user's file or else from the genai-prices package as
it is installed; nothing is downloaded. A recorded cost is used first. A cost is additive: the
tokens of prompt, completion, cache reads and cache writes, each at its own price (DEFINITIONS, T).

>>> prices = check_prices({"my-model": {"input": 3, "output": 15}}, source="prices.yaml")
>>> call = {"model": "my-model", "prompt_tokens": 1e6, "completion_tokens": 1e5}
>>> price_calls(pl.DataFrame([dict.fromkeys(USED) | call]), prices)["cost_usd"].item()
4.5
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, date, datetime, time
from functools import cache, lru_cache, reduce
from importlib.metadata import version
from importlib.util import find_spec
from operator import add
from typing import TYPE_CHECKING, Any, TypeVar

import polars as pl

from calipers.records.fields import BILLED_TOKENS, FIELDS
from calipers.records.nested_fields import ModelUsage
from calipers.support.config import read_nonnegative, read_table, shown
from calipers.support.errors import UsageError, nearest

if TYPE_CHECKING:
    from genai_prices.types import ModelPrice

_GIVEN = "prices"  # what messages call a table that is given in place of a file
_NUMBER = "write a plain number, USD per million tokens: 0.15"
# Names of models as providers write them: the provider before it, a version or date behind it.
_PATH = re.compile(r"(?:[^/:]+[/:])+(?=[^/:])")
_BEDROCK = re.compile(
    r"(?:(?:us|eu|apac|jp|au|global|us-gov)\.)?"
    r"(?:ai21|amazon|anthropic|cohere|deepseek|meta|mistral|openai|qwen)\."
)
_SEPARATORS = re.compile(r"[\s._-]+")
_VERSION_DASH = re.compile(r"(?<=\d)-(?=\d{1,2}(?!\d))")  # gpt-4-1, where the list has gpt-4.1
_VERSION = re.compile(r"-v\d+(?::\d+)?$")
_DATE = re.compile(r"[-@:_](?:20\d\d-?(?:0[1-9]|1[0-2])-?\d\d|(?:0[1-9]|1[0-2])[0-3]\d|latest)$")
_EXAMPLE = "for example my-model: {input: 3, output: 15}, USD per million tokens"


@dataclass(frozen=True, slots=True)
class Price:
    """USD per million tokens. Where the cache has no price, its tokens cost nothing."""

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None


KEYS = tuple(declared.name for declared in fields(Price))


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices by the names that models have in the records, and where they are from."""

    source: str
    by_model: Mapping[str, Price] = field(hash=False)

    def to_table(self) -> Any:
        """Return the file's path, or the table that was given in its place."""
        if self.source != _GIVEN:
            return self.source
        return {name: asdict(price) for name, price in self.by_model.items()}

    def find(self, model: str) -> Price | None:
        """Return the price of a model, by its name as providers write it; None if there is none.

        An exact name goes first, then another case, a name without its provider, one without its
        date; then dots, spaces and dashes are alike. A name in the table may leave out the provider
        and the date, or have a provider where the model's has none; of entries that are equally
        near and differ, none is taken.
        """
        if model in self.by_model:
            return self.by_model[model]
        found = self._find_near(model, str) or self._find_near(model, fold_name)
        return found[0] if found and all(price == found[0] for price in found) else None

    def _find_near(self, model: str, fold: Callable[[str], str]) -> list[Price]:
        """Return the entries that are nearest to a model's name, folded."""
        lowered = [(name.lower(), entry) for name, entry in self.by_model.items()]
        names_provider = _strip_provider(model.lower()) != model.lower()
        for spelling in map(fold, list_spellings(model)):
            near = [entry for name, entry in lowered if fold(name) == spelling]
            if not near and not names_provider:
                near = [entry for name, entry in lowered if fold(_strip_provider(name)) == spelling]
            if near:
                return near
        return []


def fold_name(name: str) -> str:
    """Return a model's name with its dots, spaces and underscores as dashes.

    >>> fold_name("claude opus 4.5")
    'claude-opus-4-5'
    """
    return _SEPARATORS.sub("-", name)


def _respell(model: str) -> Iterator[str]:
    """Yield how the list may write a name that it does not know as it is."""
    dashed = re.sub(r"[\s_]+", "-", model.lower())
    dotted = _VERSION_DASH.sub(".", dashed)
    yield from dict.fromkeys((dashed, dotted, fold_name(dashed)))


def list_spellings(model: str) -> Iterator[str]:
    """Yield ways to write a model's name, the most exact first, in lower case.

    >>> [name for name in list_spellings("OpenAI/gpt-4o-2024-08-06")]
    ['openai/gpt-4o-2024-08-06', 'gpt-4o-2024-08-06', 'openai/gpt-4o', 'gpt-4o']
    """
    lowered = _VERSION.sub("", model.lower()) if _BEDROCK.search(model.lower()) else model.lower()
    undated = _DATE.sub("", lowered)
    known: dict[str, None] = {model.lower(): None}
    for name in (lowered, undated):
        known |= {name: None, _strip_provider(name): None}
    yield from known


def _strip_provider(name: str) -> str:
    return _BEDROCK.sub("", _PATH.sub("", name, count=1), count=1)


def read_prices(given: Any) -> Prices:
    """Read prices from a YAML or JSON file, or a mapping: `{my-model: {input: 3, output: 15}}`."""
    if isinstance(given, Prices):
        return given
    table, source = read_table(given, _GIVEN, example=_EXAMPLE)
    return check_prices(table, source=source)


def check_prices(table: Any, *, source: str) -> Prices:
    """Return the prices in a table read from a file; errors name source, model and key.

    >>> check_prices({"my-model": {"input": 3, "output": -15}}, source="prices.yaml")
    Traceback (most recent call last):
    calipers.support.errors.UsageError: prices.yaml: my-model: output is -15, negative
      write a plain number, USD per million tokens: 0.15
    """
    if not isinstance(table, Mapping) or not table:
        raise UsageError(f"{source}: no prices of models in it", fix=_EXAMPLE)
    for model in table:
        if not isinstance(model, str):
            raise UsageError(
                f"{source}: {shown(model)} is not text, as the name of a model is",
                fix="put it in quotes",
            )
    return Prices(
        source,
        {name: _read_price(entry, f"{source}: {shown(name)}") for name, entry in table.items()},
    )


def _read_price(entry: Any, where: str) -> Price:
    if not isinstance(entry, Mapping):
        raise UsageError(f"{where} is {shown(entry)}, no prices", fix=_EXAMPLE)
    for key in entry:
        if key not in KEYS:
            raise UsageError(
                f"{where}: no price is called {shown(key)}", fix=nearest(str(key), KEYS)
            )
    given = {key: value for key, value in entry.items() if value is not None}
    for key in ("input", "output"):
        if key not in given:
            raise UsageError(f"{where}: {key} is missing", fix=_EXAMPLE)
    return Price(
        **{
            key: read_nonnegative(value, f"{where}: {key}", fix=_NUMBER)
            for key, value in given.items()
        }
    )


Tariff = tuple[tuple[float, Price], ...]
"""A model's prices, each with the number of input tokens that a call must pass for it to hold."""

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
        found = _look_up(model, self.day)
        others = (_look_up(name, self.day) for name in _respell(model))
        return (
            next((tariff for tariff in others if tariff is not None), None)
            if found is None
            else found
        )


def find_listed_tariff(model: str) -> Tariff | None:
    """Return the list's prices of a model, or None."""
    listed = open_price_list()
    return None if listed is None else listed.find_tariff(model)


def has_price_list() -> bool:
    """Return True if the extra `prices` is installed."""
    return find_spec("genai_prices") is not None


@cache
def open_price_list() -> PriceList | None:
    """Return the list, or None if the extra `prices` is not installed, or cannot be loaded."""
    if not has_price_list():
        return None
    try:
        from genai_prices.data import providers  # noqa: PLC0415 (an extra)
    except ImportError:
        return None
    today = datetime.now(tz=UTC).date()
    changes = {
        getattr(price.constraint, "start_date", date.min)
        for provider in providers
        for model in provider.models
        for price in (model.prices if isinstance(model.prices, list) else ())
    }
    last = max((day for day in changes if day <= today), default=date.min)
    return PriceList(version("genai-prices"), last)


@lru_cache(maxsize=1 << 14)
def _look_up(model: str, day: date) -> Tariff | None:
    """Return what the list says of a model, by any way to read its name."""
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


_PER_TOKENS = 1_000_000
_ROW = "_row"

_CACHED = BILLED_TOKENS[2:]
_NEEDED = ("model", *BILLED_TOKENS[:2])
_TOKENS = dict(zip(KEYS, BILLED_TOKENS, strict=True))

USED = ("cost_usd", "model", *BILLED_TOKENS)
"""The record's fields that a cost is made of."""

_N = TypeVar("_N", float, pl.Expr)


def _sum_input(tokens: Mapping[str, _N]) -> _N:
    """Return the whole input of a call, by which its prices are chosen: all but the output."""
    [first, *others] = (count for key, count in tokens.items() if key != "output")
    return reduce(add, others, first)


def _sum_cost(tokens: Mapping[str, _N], price: Mapping[str, _N]) -> _N:
    """Return the cost of tokens, each kind at its own price (DEFINITIONS, T)."""
    [first, *others] = (tokens[key] * price[key] for key in KEYS)
    return reduce(add, others, first) / _PER_TOKENS


def price_tokens(tokens: Mapping[str, float], tariff: Tariff) -> float:
    """Return the cost of one call, at the last prices whose number of input tokens it exceeds.

    >>> tariff = ((-1.0, Price(input=1, output=10)), (200_000.0, Price(input=2, output=15)))
    >>> call = {"output": 1_000, "cache_read": 0, "cache_write": 0}
    >>> [price_tokens({"input": n, **call}, tariff) for n in (200_000, 200_001)]
    [0.21, 0.415002]
    """
    price = [price for above, price in tariff if _sum_input(tokens) > above][-1]
    return _sum_cost(tokens, {key: getattr(price, key) or 0.0 for key in KEYS})


def price_call(fields: Mapping[str, Any], tariff: Tariff) -> float | None:
    """Return the cost of one call by its fields; None if its tokens are not known."""
    if any(fields.get(name) is None for name in BILLED_TOKENS[:2]):
        return None
    tokens = {key: float(fields.get(name) or 0) for key, name in _TOKENS.items()}
    return price_tokens(tokens, tariff)


def price_calls(calls: pl.DataFrame, prices: Prices | None) -> pl.DataFrame:
    """Return each call's `cost_usd`, whether it is `by_file` or `by_list`, and `unpriced` models.

    The tokens of prompt and completion must be known; those of the cache count as none where they
    are not. `cache_unpriced` says that there are tokens of the cache, and no price for them.
    """
    is_open = pl.col("cost_usd").is_null() & pl.all_horizontal(pl.col(_NEEDED).is_not_null())
    calls = calls.with_columns(pl.when(is_open).then("model").alias("unpriced"))
    found = dict(_find_tariffs(calls["unpriced"].drop_nulls().unique(), prices))
    if not found:  # costs of 10 million runs are often all recorded
        no = pl.lit(value=False)
        flags = (no.alias(name) for name in ("by_file", "by_list", "cache_unpriced"))
        return calls.select("cost_usd", *flags, "unpriced")
    steps = max(len(tariff) for tariff, _ in found.values())
    table = pl.DataFrame(
        [
            {"unpriced": model, "by_file": by_file, **_spread_tariff(tariff)}
            for model, (tariff, by_file) in found.items()
        ],
        schema={
            "unpriced": pl.String(),
            "by_file": pl.Boolean(),
            **{f"{key}_{step}": pl.Float64() for step in range(steps) for key in ("above", *KEYS)},
        },
    )
    by_file = pl.col("by_file")
    return calls.join(table, on="unpriced", how="left", maintain_order="left").select(
        pl.coalesce("cost_usd", _express_cost(steps)).alias("cost_usd"),
        by_file.fill_null(value=False),
        (~by_file).fill_null(value=False).alias("by_list"),
        _is_cache_unpriced().alias("cache_unpriced"),
        pl.when(by_file.is_null()).then("unpriced").alias("unpriced"),
    )


def _find_tariffs(
    models: Iterable[str], prices: Prices | None
) -> Iterator[tuple[str, tuple[Tariff, bool]]]:
    """Yield the models with known prices: the prices, and whether they are the file's."""
    for model in models:
        if prices is not None and (price := prices.find(model)) is not None:
            yield model, (((-1.0, price),), True)
        elif (tariff := find_listed_tariff(model)) is not None:
            yield model, (tariff, False)


def _spread_tariff(tariff: Tariff) -> dict[str, float | None]:
    return {
        f"{key}_{step}": value
        for step, (above, price) in enumerate(tariff)
        for key, value in {"above": above, **asdict(price)}.items()
    }


def _is_cache_unpriced() -> pl.Expr:
    """Return True if a priced call has cache tokens for which there is no price."""
    free = (
        (pl.col(tokens) > 0) & pl.col(f"{key}_0").is_null()
        for key, tokens in _TOKENS.items()
        if tokens in _CACHED
    )
    priced_here = pl.col("by_file").is_not_null()
    return (priced_here & pl.any_horizontal(free)).fill_null(value=False)


def _express_cost(steps: int) -> pl.Expr:
    """Return the cost of each call, as `price_tokens` does of one; what is null counts as none."""
    tokens = {key: pl.col(name).fill_null(0.0) for key, name in _TOKENS.items()}
    cost = pl.lit(None, pl.Float64)
    for step in range(steps):
        price = {key: pl.col(f"{key}_{step}").fill_null(0.0) for key in KEYS}
        is_above = _sum_input(tokens) > pl.col(f"above_{step}")
        cost = pl.when(is_above).then(_sum_cost(tokens, price)).otherwise(cost)
    return cost


def price_together(calls: Iterable[tuple[int, ModelUsage]], prices: Prices | None) -> pl.DataFrame:
    """Return the cost of all calls of each row; null, with the model, if one is unpriced."""
    schema = {_ROW: pl.UInt32(), **{name: FIELDS[name].dtype for name in USED}}
    table = pl.DataFrame([{_ROW: row, **call} for row, call in calls], schema=schema)
    each = table.select(_ROW, "model").hstack(price_calls(table.drop(_ROW), prices))
    unknown = pl.col("cost_usd").is_null()
    return each.group_by(_ROW, maintain_order=True).agg(
        pl.when(~unknown.any()).then(pl.col("cost_usd").sum()).alias("cost_usd"),
        pl.col("by_file").any(),
        pl.col("by_list").any(),
        pl.col("cache_unpriced").any(),
        pl.col("model").filter(unknown).min().alias("unpriced"),
    )

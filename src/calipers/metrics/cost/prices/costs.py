"""Costs of many calls at once, each from its record, else the user's prices, else the price list.

A cost is additive: the tokens of prompt, completion, cache reads and cache writes, each at its own
price (DEFINITIONS, T).

>>> from calipers.metrics.cost.prices import check_prices
>>> prices = check_prices({"my-model": {"input": 3, "output": 15}}, source="prices.yaml")
>>> call = {"model": "my-model", "prompt_tokens": 1e6, "completion_tokens": 1e5}
>>> price_calls(pl.DataFrame([dict.fromkeys(USED) | call]), prices)["cost_usd"].item()
4.5
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict

import polars as pl

from calipers.metrics.cost.prices.listed import find_listed_tariff
from calipers.metrics.cost.prices.remembered import Tariff
from calipers.metrics.cost.prices.table import KEYS, Prices
from calipers.records.fields import FIELDS
from calipers.records.usage import Call

PER_TOKENS = 1_000_000
_ROW = "_row"

_NEEDED = ("model", "prompt_tokens", "completion_tokens")
_CACHED = ("cache_read_tokens", "cache_write_tokens")
_TOKENS = dict(zip(KEYS, (*_NEEDED[1:], *_CACHED), strict=True))

USED = ("cost_usd", *_NEEDED, *_CACHED)
"""The record's fields that a cost is made of."""


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
    """Say whether a priced call has cache tokens for which there is no price."""
    free = (
        (pl.col(tokens) > 0) & pl.col(f"{key}_0").is_null()
        for key, tokens in _TOKENS.items()
        if tokens in _CACHED
    )
    priced_here = pl.col("by_file").is_not_null()
    return (priced_here & pl.any_horizontal(free)).fill_null(value=False)


def _express_cost(steps: int) -> pl.Expr:
    """Return the cost at the last step that the call's whole input exceeds, for all its tokens."""
    whole_input = pl.sum_horizontal("prompt_tokens", *_CACHED)
    cost = pl.lit(None, pl.Float64)
    for step in range(steps):
        parts = (pl.col(tokens) * pl.col(f"{key}_{step}") for key, tokens in _TOKENS.items())
        at_step = pl.sum_horizontal(parts) / PER_TOKENS  # a null part counts as none
        cost = pl.when(whole_input > pl.col(f"above_{step}")).then(at_step).otherwise(cost)
    return cost


def price_together(calls: Iterable[tuple[int, Call]], prices: Prices | None) -> pl.DataFrame:
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

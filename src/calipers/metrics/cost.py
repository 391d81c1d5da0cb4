"""Cost of a run (T 3): recorded, else its tokens at a price that is known; never a guess."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import narwhals as nw
import polars as pl

from calipers.config.files import shown
from calipers.metrics.declaration import (
    GROUP,
    Aggregate,
    Feature,
    Frame,
    OneOf,
    Settings,
    Totals,
    mean,
    sums,
)
from calipers.prices import USED, price_list, priced

COSTED = OneOf((("cost_usd",), ("model", "prompt_tokens", "completion_tokens")))

_INSTALL = "pip install 'calipers[prices]' for the list of prices, or give"

_PARTS: dict[str, pl.DataType] = {
    "cost_usd": pl.Float64(),
    "by_file": pl.Boolean(),
    "by_list": pl.Boolean(),
    "unpriced": pl.String(),
}
_PRICING = pl.Struct(_PARTS)


def _pricing(settings: Settings) -> pl.Expr:
    def of_batch(calls: pl.Series) -> pl.Series:
        return priced(calls.struct.unnest(), settings.prices).to_struct(calls.name)

    return pl.struct(USED).map_batches(of_batch, return_dtype=_PRICING)


pricing = Feature(
    name="_pricing",
    reads=USED,
    dtype=_PRICING,
    expression=_pricing,
    stored=False,
    listed=False,
)


def _part(name: str, *, of: str) -> Feature:
    return Feature(
        name=name,
        reads=(pricing,),
        dtype=_PARTS[of],
        expression=lambda _: pl.col(pricing.name).struct.field(of),
        listed=not name.startswith("_"),
    )


cost_usd = _part("cost_usd", of="cost_usd")
by_file = _part("_cost_by_file", of="by_file")
by_list = _part("_cost_by_list", of="by_list")
unpriced_model = _part("_unpriced_model", of="unpriced")

SOURCES = Aggregate(
    features=(by_file, by_list, unpriced_model),
    totals={
        "cost__by_file": nw.col(by_file.name).cast(nw.Int64).sum(),
        "cost__by_list": nw.col(by_list.name).cast(nw.Int64).sum(),
        "cost__unpriced": nw.col(unpriced_model.name).count().cast(nw.Int64),
    },
)
"""What every metric of cost counts with its own totals: whose prices, and rows without one."""


def _named(models: Frame) -> Frame:
    return models.group_by(GROUP).agg(
        nw.len().cast(nw.Int64).alias("cost__unpriced_models"),
        nw.col(unpriced_model.name).min().alias("cost__unpriced_model"),
    )


UNPRICED = Aggregate(
    features=(unpriced_model,),
    keys=(unpriced_model.name,),
    where=lambda: ~nw.col(unpriced_model.name).is_null(),
    totals={"unpriced_n": nw.len().cast(nw.Int64)},
    finish=(_named,),
)


def no_price(totals: Totals) -> str | None:
    """Why rows with tokens have no cost, with the name of a model; None if they have one."""
    if not totals.get("cost__unpriced"):
        return None
    others = int(totals.get("cost__unpriced_models", 1)) - 1
    name = shown(totals.get("cost__unpriced_model", "the model"))
    more = f" and {others} other model{'s' if others > 1 else ''}" if others else ""
    way = "give" if price_list() else _INSTALL
    return f"no price is known for {name}{more}: {way} one with --prices"


def price_notices(groups: Iterable[Totals], settings: Settings) -> Iterator[str]:
    """By whose prices costs are, and which records with tokens have none."""
    groups = list(groups)
    of_file, of_list = (
        int(sum(totals.get(name, 0) for totals in groups))
        for name in ("cost__by_file", "cost__by_list")
    )
    asked = any("cost__by_file" in totals for totals in groups)
    if of_file and settings.prices:
        yield f"cost of {_records(of_file)} by the prices in {settings.prices.source}"
    elif asked and settings.prices:
        yield (
            f"no cost by the prices in {settings.prices.source}: "
            "no record without a recorded cost is of a model named there"
        )
    if of_list:
        yield f"cost of {_records(of_list)} by the price list {price_list()}"
    left_out: dict[str, int] = {}
    for totals in groups:
        some = totals.get("cost_usd__n") or totals.get("cost_of_pass__n")
        if some and (reason := no_price(totals)):
            left_out[reason] = left_out.get(reason, 0) + int(totals["cost__unpriced"])
    for reason, count in left_out.items():
        yield f"{_records(count)} without a cost: {reason}"


def _records(count: int) -> str:
    return f"{count} record{'' if count == 1 else 's'}"


cost_mean = replace(
    mean(
        cost_usd,
        name="cost_usd",
        says="What a run costs.",
        formula="mean(cost_usd), cost_usd = recorded, else Σ tokens · price / 1,000,000 over "
        "prompt, completion, cache reads and cache writes",
        spec="T 3",
        profiles=("tiers",),
        needs=(COSTED,),
        nulls="a run without a cost is left out: none is recorded, and tokens or price are unknown",
        unit="USD",
        better="lower",
        aggregate=Aggregate(
            features=(cost_usd, *SOURCES.features),
            totals={**sums(cost_usd).totals, **SOURCES.totals},
        ),
        extras={"priced_by_file": "cost__by_file", "priced_by_list": "cost__by_list"},
    ),
    also=(UNPRICED,),
    refused=lambda totals: None if totals.get("cost_usd__n") else no_price(totals),
    optional="unless asked for",
)

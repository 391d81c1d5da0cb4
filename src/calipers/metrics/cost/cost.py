"""Cost of a run (T 3): recorded, else its tokens at a price that is known; never a guess."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import polars as pl

from calipers.metrics.cost.prices import (
    USED,
    has_price_list,
    open_price_list,
    price_calls,
    price_together,
)
from calipers.metrics.declare.declaration import GROUP, Aggregate, Feature, Frame, OneOf, Totals
from calipers.metrics.declare.means import declare_sums, mean
from calipers.metrics.declare.settings import Settings
from calipers.records.judgment_shape import read_calls, read_list
from calipers.records.usage import read_usage
from calipers.support.config.files import shown

COSTED = OneOf((("cost_usd",), ("model", "prompt_tokens", "completion_tokens"), ("usage",)))

_INSTALL = "pip install 'calipers[prices]' for the list of prices, or give"

_PARTS: dict[str, pl.DataType] = {
    "cost_usd": pl.Float64(),
    "by_file": pl.Boolean(),
    "by_list": pl.Boolean(),
    "cache_unpriced": pl.Boolean(),
    "unpriced": pl.String(),
}
_PRICING = pl.Struct(_PARTS)
_ROW = "_row"


def _price_runs(settings: Settings) -> pl.Expr:
    def of_batch(runs: pl.Series) -> pl.Series:
        table = runs.struct.unnest()
        found = price_calls(table, settings.prices)
        several = table["cost_usd"].is_null() & table["usage"].is_not_null()
        if several.any():
            calls = (
                (row, call if "model" in call else {**_list_used(table, row), **call})
                for row in several.arg_true()
                for call in read_usage(table["usage"][row])
            )
            found = _replace_rows(found, price_together(calls, settings.prices))
        return found.to_struct(runs.name)

    return pl.struct(*USED, "usage").map_batches(of_batch, return_dtype=_PRICING)


def _list_used(table: pl.DataFrame, row: int) -> dict[str, Any]:
    used = table.select(USED).row(row, named=True)
    return {name: value for name, value in used.items() if value is not None}


def _price_judges(settings: Settings) -> pl.Expr:
    def of_batch(judgments: pl.Series) -> pl.Series:
        nothing = pl.DataFrame(schema=_PARTS).clear(len(judgments))
        calls = (
            (row, call)
            for row in judgments.is_not_null().arg_true()
            for call in _list_judge_calls(judgments[row])
        )
        found = _replace_rows(nothing, price_together(calls, settings.prices))
        return found.to_struct(judgments.name)

    return pl.col("judgments").map_batches(of_batch, return_dtype=_PRICING)


def _list_judge_calls(text: str) -> list[dict[str, Any]]:
    """Return the calls of all judges of a row; none if one of them lacks its usage."""
    found: list[dict[str, Any]] = []
    for judgment in read_list(text):
        calls = read_calls(judgment)
        if not calls:
            return []
        found += calls
    return found


def _replace_rows(table: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """Return the table with some rows, by number, replaced."""
    return table.with_row_index(_ROW).update(rows, on=_ROW, include_nulls=True).drop(_ROW)


pricing = Feature(
    name="_pricing",
    reads=(*USED, "usage"),
    dtype=_PRICING,
    expression=_price_runs,
    stored=False,
    listed=False,
)

judge_pricing = Feature(
    name="_judge_pricing",
    reads=("judgments",),
    dtype=_PRICING,
    expression=_price_judges,
    stored=False,
    listed=False,
)


def _select_field(feature: Feature, name: str) -> pl.Expr:
    return pl.col(feature.name).struct.field(name)


def _express_cost(settings: Settings) -> pl.Expr:
    """Return the run's cost, with its judges' cost if that is included and they judged it."""
    own = _select_field(pricing, "cost_usd")
    if settings.judge_cost == "apart":
        return own
    none_judged = pl.col("judgments").is_null() | (pl.col("judgments").str.strip_chars("[ ]") == "")
    of_judges = _select_field(judge_pricing, "cost_usd")
    return own + pl.when(none_judged).then(0.0).otherwise(of_judges)


def _select_cost(name: str) -> Callable[[Settings], pl.Expr]:
    """Return the expression of the run's cost, or of its judges' if that is included."""

    def expression(settings: Settings) -> pl.Expr:
        own = _select_field(pricing, name)
        if settings.judge_cost == "apart":
            return own
        of_judges = _select_field(judge_pricing, name)
        if _PARTS[name] == pl.Boolean:
            return own | of_judges.fill_null(value=False)
        return pl.coalesce(own, of_judges)

    return expression


def _declare_part(name: str, expression: Callable[[Settings], pl.Expr], of: str) -> Feature:
    return Feature(
        name=name,
        reads=(pricing, judge_pricing, "judgments"),
        dtype=_PARTS[of],
        expression=expression,
        listed=not name.startswith("_"),
    )


cost_usd = _declare_part("cost_usd", _express_cost, "cost_usd")
by_file = _declare_part("_cost_by_file", _select_cost("by_file"), "by_file")
by_list = _declare_part("_cost_by_list", _select_cost("by_list"), "by_list")
cache_unpriced = _declare_part("_cache_unpriced", _select_cost("cache_unpriced"), "cache_unpriced")
unpriced_model = _declare_part("_unpriced_model", _select_cost("unpriced"), "unpriced")

judge_cost_usd = Feature(
    name="judge_cost_usd",
    reads=(judge_pricing,),
    dtype=pl.Float64(),
    expression=lambda _: _select_field(judge_pricing, "cost_usd"),
)

SOURCES = Aggregate(
    features=(by_file, by_list, cache_unpriced, unpriced_model),
    totals={
        "cost__cache_unpriced": pl.col(cache_unpriced.name).cast(pl.Int64).sum(),
        "cost__by_file": pl.col(by_file.name).cast(pl.Int64).sum(),
        "cost__by_list": pl.col(by_list.name).cast(pl.Int64).sum(),
        "cost__unpriced": pl.col(unpriced_model.name).count().cast(pl.Int64),
    },
)
"""What every metric of cost counts with its own totals: whose prices, and rows without one."""


def _name_unpriced(models: Frame) -> Frame:
    return models.group_by(GROUP).agg(
        pl.len().cast(pl.Int64).alias("cost__unpriced_models"),
        pl.col(unpriced_model.name).min().alias("cost__unpriced_model"),
    )


UNPRICED = Aggregate(
    features=(unpriced_model,),
    keys=(unpriced_model.name,),
    where=lambda: ~pl.col(unpriced_model.name).is_null(),
    totals={"unpriced_n": pl.len().cast(pl.Int64)},
    finish=(_name_unpriced,),
)


def explain_unpriced(totals: Totals) -> str | None:
    """Return why rows with tokens have no cost, naming a model; None if they have one."""
    if not totals.get("cost__unpriced"):
        return None
    others = int(totals.get("cost__unpriced_models", 1)) - 1
    name = shown(totals.get("cost__unpriced_model", "the model"))
    more = f" and {others} other model{'s' if others > 1 else ''}" if others else ""
    way = "give" if has_price_list() else _INSTALL
    return f"no price is known for {name}{more}: {way} one with --prices"


def note_prices(groups: Iterable[Totals], settings: Settings) -> Iterator[str]:
    """Yield whose prices were used, and which records with tokens have none."""
    groups = list(groups)
    of_file, of_list = (
        int(sum(totals.get(name, 0) for totals in groups))
        for name in ("cost__by_file", "cost__by_list")
    )
    asked = any("cost__by_file" in totals for totals in groups)
    if of_file and settings.prices:
        yield f"cost of {_count_records(of_file)} by the prices in {settings.prices.source}"
    elif asked and settings.prices:
        yield (
            f"no cost by the prices in {settings.prices.source}: "
            "no record without a recorded cost is of a model named there"
        )
    if of_list:
        yield f"cost of {_count_records(of_list)} by the price list {open_price_list()}"
    if free := int(sum(totals.get("cost__cache_unpriced", 0) for totals in groups)):
        yield (
            f"cache tokens of {_count_records(free)} have no price and are not in the cost: "
            "give one with --prices, as cache_read and cache_write of the model"
        )
    left_out: dict[str, int] = {}
    for totals in groups:
        some = totals.get("cost_usd__n") or totals.get("cost_of_pass__n")
        if some and (reason := explain_unpriced(totals)):
            left_out[reason] = left_out.get(reason, 0) + int(totals["cost__unpriced"])
    for reason, count in left_out.items():
        yield f"{_count_records(count)} without a cost: {reason}"


def _count_records(count: int) -> str:
    return f"{count} record{'' if count == 1 else 's'}"


cost_mean = replace(
    mean(
        cost_usd,
        name="cost_usd",
        says="What a run costs.",
        formula="mean(cost_usd), cost_usd = recorded, else Σ tokens · price / 1,000,000 over "
        "prompt, completion, cache reads and cache writes, and over the models in `usage`",
        spec="T 3",
        profiles=("tiers",),
        needs=(COSTED,),
        nulls="a run without a cost is left out: none is recorded, and tokens or price are unknown",
        unit="USD",
        better="lower",
        aggregate=Aggregate(
            features=(cost_usd, *SOURCES.features),
            totals={**declare_sums(cost_usd).totals, **SOURCES.totals},
        ),
        extras={"priced_by_file": "cost__by_file", "priced_by_list": "cost__by_list"},
    ),
    also=(UNPRICED,),
    refused=lambda totals: None if totals.get("cost_usd__n") else explain_unpriced(totals),
    optional="unless asked for",
)

judge_cost_mean = replace(
    mean(
        judge_cost_usd,
        name="judge_cost_usd",
        says="What judging a run costs (in cost_usd only with --judge-cost included).",
        formula="mean(Σ over the judgments of a run: cost_usd, recorded, else its tokens · price)",
        spec="T 3",
        profiles=("tiers",),
        needs=("judgments",),
        nulls="a run without judgments, or where one says neither cost nor tokens, is left out",
        unit="USD",
        better="lower",
        empty="no judgment holds cost_usd, or model and tokens",
    ),
    optional="unless named",
)

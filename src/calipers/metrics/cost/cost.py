"""Cost of a run (T 3): recorded, else its tokens at a price that is known; never a guess."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import partial
from typing import Any

import polars as pl

from calipers.metrics.cost.prices import (
    USED,
    has_price_list,
    open_price_list,
    price_calls,
    price_together,
)
from calipers.metrics.declare.columns import declare_part
from calipers.metrics.declare.declaration import (
    GROUP,
    Aggregate,
    Feature,
    Frame,
    OneOf,
    Totals,
    add_up,
    count_records,
)
from calipers.metrics.declare.means import COUNT, count_true, count_values, declare_sums, mean
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
    calls = [read_calls(judgment) for judgment in read_list(text)]
    return [call for some in calls for call in some] if all(calls) else []


def _replace_rows(table: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    return table.with_row_index(_ROW).update(rows, on=_ROW, include_nulls=True).drop(_ROW)


pricing = Feature("_pricing", (*USED, "usage"), _price_runs, _PRICING, stored=False)
judge_pricing = Feature("_judge_pricing", ("judgments",), _price_judges, _PRICING, stored=False)


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


def _select_part(part: str, settings: Settings) -> pl.Expr:
    """Return a part of the run's pricing, or of its judges' if their cost is included."""
    own = _select_field(pricing, part)
    if settings.judge_cost == "apart":
        return own
    of_judges = _select_field(judge_pricing, part)
    if _PARTS[part] == pl.Boolean:
        return own | of_judges.fill_null(value=False)
    return pl.coalesce(own, of_judges)


_BOTH = (pricing, judge_pricing, "judgments")
cost_usd = Feature("cost_usd", _BOTH, _express_cost)
by_file, by_list, cache_unpriced, unpriced_model = (
    Feature(name, _BOTH, partial(_select_part, part), _PARTS[part])
    for name, part in (
        ("_cost_by_file", "by_file"),
        ("_cost_by_list", "by_list"),
        ("_cache_unpriced", "cache_unpriced"),
        ("_unpriced_model", "unpriced"),
    )
)
judge_cost_usd = declare_part("judge_cost_usd", judge_pricing, "cost_usd")

SOURCES = Aggregate(
    features=(by_file, by_list, cache_unpriced, unpriced_model),
    totals={
        "cost__cache_unpriced": count_true(cache_unpriced),
        "cost__by_file": count_true(by_file),
        "cost__by_list": count_true(by_list),
        "cost__unpriced": pl.col(unpriced_model.name).count().cast(pl.Int64),
    },
)
"""What every metric of cost counts with its own totals: whose prices, and rows without one."""


def _name_unpriced(models: Frame) -> Frame:
    return models.group_by(GROUP).agg(
        COUNT.alias("cost__unpriced_models"),
        pl.col(unpriced_model.name).min().alias("cost__unpriced_model"),
    )


UNPRICED = count_values(unpriced_model, "unpriced_n", finish=(_name_unpriced,))


def explain_unpriced(totals: Totals) -> str | None:
    """Return why rows with tokens have no cost, naming a model; None if they have one."""
    if not totals.get("cost__unpriced"):
        return None
    others = int(totals.get("cost__unpriced_models", 1)) - 1
    name = shown(totals.get("cost__unpriced_model", "the model"))
    more = f" and {others} other model{'s' if others > 1 else ''}" if others else ""
    way = "give" if has_price_list() else _INSTALL
    return f"no price is known for {name}{more}: {way} one with --prices"


def note_prices(groups: Collection[Totals], settings: Settings) -> Iterator[str]:
    """Yield whose prices were used, and which records with tokens have none."""
    of_file = add_up(groups, "cost__by_file")
    asked = any("cost__by_file" in totals for totals in groups)
    if of_file and settings.prices:
        yield f"cost of {count_records(of_file)} by the prices in {settings.prices.source}"
    elif asked and settings.prices:
        yield (
            f"no cost by the prices in {settings.prices.source}: "
            "no record without a recorded cost is of a model named there"
        )
    if of_list := add_up(groups, "cost__by_list"):
        yield f"cost of {count_records(of_list)} by the price list {open_price_list()}"
    if free := add_up(groups, "cost__cache_unpriced"):
        yield (
            f"cache tokens of {count_records(free)} have no price and are not in the cost: "
            "give one with --prices, as cache_read and cache_write of the model"
        )
    left_out: dict[str, int] = {}
    for totals in groups:
        some = totals.get("cost_usd__n") or totals.get("cost_of_pass__n")
        if some and (reason := explain_unpriced(totals)):
            left_out[reason] = left_out.get(reason, 0) + int(totals["cost__unpriced"])
    for reason, count in left_out.items():
        yield f"{count_records(count)} without a cost: {reason}"


_mean_cost = partial(mean, spec="T 3", unit="USD", better="lower")

cost_mean = _mean_cost(
    cost_usd,
    says="What a run costs.",
    formula="mean(cost_usd), cost_usd = recorded, else Σ tokens · price / 1,000,000 over "
    "prompt, completion, cache reads and cache writes, and over the models in `usage`",
    needs=(COSTED,),
    nulls="a run without a cost is left out: none is recorded, and tokens or price are unknown",
    aggregate=declare_sums(cost_usd, *SOURCES.features, **SOURCES.totals),
    extras={"priced_by_file": "cost__by_file", "priced_by_list": "cost__by_list"},
    also=(UNPRICED,),
    refused=lambda totals: None if totals.get("cost_usd__n") else explain_unpriced(totals),
    optional="unless asked for",
)

judge_cost_mean = _mean_cost(
    judge_cost_usd,
    says="What judging a run costs (in cost_usd only with --judge-cost included).",
    formula="mean(Σ over the judgments of a run: cost_usd, recorded, else its tokens · price)",
    needs=("judgments",),
    nulls="a run without judgments, or where one says neither cost nor tokens, is left out",
    empty="no judgment holds cost_usd, or model and tokens",
    optional="unless named",
)

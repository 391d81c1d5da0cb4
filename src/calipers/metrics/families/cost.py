"""Cost of a run, cost of a pass, and the quality of runs over tiers (T).

The cost of a run is the recorded one, else its tokens at a known price; it is never guessed.
`token_prices.py` holds the prices.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from math import inf, nan
from typing import Any

import polars as pl

from calipers.metrics.declare.columns import list_having
from calipers.metrics.declare.declaration import (
    GROUP,
    Aggregate,
    Feature,
    Frame,
    Influence,
    Metric,
    OneOf,
    Rank,
    Totals,
    add_up,
    centre,
    count_records,
)
from calipers.metrics.declare.interval_methods import read_spread
from calipers.metrics.declare.means import (
    COUNT,
    count_true,
    count_values,
    declare_mean,
    declare_part,
    declare_recorded,
    declare_sums,
)
from calipers.metrics.declare.settings import Settings
from calipers.metrics.families.judged import judged_impl_rate
from calipers.metrics.families.scenarios import PASSED, VERSION, passed
from calipers.metrics.token_prices import (
    USED,
    has_price_list,
    open_price_list,
    price_calls,
    price_together,
)
from calipers.records.nested_fields import list_judging_usage, read_judgment_list, read_usage
from calipers.statistics.elementwise import (
    as_whole,
    at_least,
    choose,
    divide,
    exp,
    fill_null,
    hypot,
    is_anywhere,
    is_text,
    log,
)
from calipers.statistics.intervals import NO_SPREAD, Interval, bound, positive_interval, wilson
from calipers.support.config import read_nonnegative, read_table, shown
from calipers.support.errors import UsageError
from calipers.support.lazy_numpy import np


@dataclass(frozen=True, slots=True)
class GradeScale:
    """The letters of grades, best first, each with the lowest score that it is given for."""

    letters: tuple[tuple[str, float], ...]
    lowest: str = "F"  # below the last

    def grade(self, score: float) -> str:
        """Return the letter for a score.

        >>> T_GRADES.grade(0.95), T_GRADES.grade(0.949), T_GRADES.grade(0.1)
        ('A', 'B', 'F')
        """
        return next((letter for letter, least in self.letters if score >= least), self.lowest)

    def to_dict(self) -> dict[str, float]:
        """Return the lowest score of each letter, as in a file."""
        return dict(self.letters)


T_GRADES = GradeScale((("A", 0.95), ("B", 0.85), ("C", 0.75), ("D", 0.65)))
_GRADES_EXAMPLE = "for example {S: 1.0, A: 0.8, B: 0.6, C: 0.4, D: 0.2}"


def read_grade_scale(given: Any) -> GradeScale:
    """Return the scale in a YAML or JSON file, in a mapping or its text; T's for None.

    >>> read_grade_scale("{A: 0.8, S: 1.0}").letters
    (('S', 1.0), ('A', 0.8))
    """
    if given is None or isinstance(given, GradeScale):
        return T_GRADES if given is None else given
    table, source = read_table(given, "grade_scale", example=_GRADES_EXAMPLE)
    if not isinstance(table, Mapping) or not table:
        raise UsageError(f"{source}: no letters and scores in it", fix=_GRADES_EXAMPLE)
    least: dict[str, float] = {}
    for letter, score in table.items():
        if not isinstance(letter, str) or not letter:
            raise UsageError(f"{source}: {shown(letter)} is not a letter", fix="put it in quotes")
        least[letter] = read_nonnegative(score, f"{source}: {letter}", fix=_GRADES_EXAMPLE)
        if least[letter] > 1:
            raise UsageError(f"{source}: {letter}: {score} is above 1", fix="write 0.8 for 80 %")
    if len(set(least.values())) < len(least):
        raise UsageError(f"{source}: two letters from the same score on", fix=_GRADES_EXAMPLE)
    return GradeScale(tuple(sorted(least.items(), key=lambda each: -each[1])))


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
    calls = [list_judging_usage(judgment) for judgment in read_judgment_list(text)]
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
    for totals in list_having(groups, "cost__unpriced"):
        some = totals.get("cost_usd__n") or totals.get("cost_of_pass__n")
        if some and (reason := explain_unpriced(totals)):
            left_out[reason] = left_out.get(reason, 0) + int(totals["cost__unpriced"])
    for reason, count in left_out.items():
        yield f"{count_records(count)} without a cost: {reason}"


_mean_cost = partial(declare_mean, spec="T 3", unit="USD", better="lower")

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
    says="What judging a run costs (in cost_usd only with --set judge_cost=included).",
    formula="mean(Σ over the judgments of a run: cost_usd, recorded, else its tokens · price)",
    needs=("judgments",),
    nulls="a run without judgments, or where one says neither cost nor tokens, is left out",
    empty="no judgment holds cost_usd, or model and tokens",
    optional="unless named",
)


TIER = "tier"
RATED = OneOf((("impl_rate",), ("judgments",)))

impl_rate = Feature(
    "impl_rate",
    ("impl_rate", judged_impl_rate),
    lambda _: pl.coalesce("impl_rate", judged_impl_rate.name),
)

duration_seconds = declare_recorded("duration_seconds")


def _express_composite(settings: Settings) -> pl.Expr:
    of_pass, of_rate = settings.pass_weight, settings.impl_weight
    rated = pl.col("passed").cast(pl.Float64) * of_pass + pl.col("impl_rate") * of_rate
    return rated / (of_pass + of_rate)


composite_score = Feature("composite_score", (passed, impl_rate), _express_composite)
pass_rate_of_run = Feature(
    "pass_rate", (passed,), lambda _: pl.col("passed").cast(pl.Float64), listed=False
)
cost_of_pass = Feature(
    "cost_of_pass",
    (passed, cost_usd),
    lambda _: pl.when(pl.col("passed").is_not_null() & pl.col("cost_usd").is_not_null()).then(
        pl.when("passed").then("cost_usd").otherwise(inf)
    ),
)

DESCRIBED = (pass_rate_of_run, impl_rate, cost_usd, duration_seconds, cost_of_pass, composite_score)
"""The features that `statistics` describe."""

MEDIANS = tuple(  # of features whose medians grade, uplift and variances between tiers use
    Rank(feature=feature, percent=50, of_family=of_family)
    for feature in (composite_score, cost_usd)
    for of_family in (False, True)
)

impl_rate_mean = declare_mean(
    impl_rate,
    says="How far runs meet their requirements, by the judges' weighted scores.",
    formula="mean(impl_rate), impl_rate = recorded, else the median of the judges' weighted "
    "scores, or Σ score · confidence / Σ confidence (consensus: confidence)",
    spec="T 2",
    needs=(RATED,),
    nulls="a run without `impl_rate` or a judge's weighted score is left out; with `consensus: "
    "confidence` one where a judge states no confidence",
    empty="no record has an impl_rate, or judgments with a weighted_score",
    range=(0, 1),
    better="higher",
)

duration_mean = declare_mean(
    duration_seconds,
    says="How long a run takes.",
    formula="mean(duration_seconds)",
    spec="T 4",
    needs=("duration_seconds",),
    nulls="a run without a duration is left out",
    unit="s",
    better="lower",
)

composite_mean = declare_mean(
    composite_score,
    says="Passing and meeting the requirements, weighted by `pass_weight` and `impl_weight`.",
    formula="mean((passed · pass_weight + impl_rate · impl_weight) / (pass_weight + impl_weight))",
    spec="T 6",
    needs=(PASSED, RATED),
    nulls="a run without both parts is left out",
    empty="no record has both passed, and an impl_rate or judgments with a weighted_score",
    range=(0, 1),
    better="higher",
    version=VERSION,
)


def _compute_ratio(totals: Totals) -> Any:
    cost, passes = totals["cost_of_pass__cost"], totals["cost_of_pass__passes"]
    return np.where(np.equal(passes, 0), inf, cost / np.maximum(passes, 1))


_cost, _counted = pl.col("cost_usd"), ~pl.col("cost_of_pass").is_null()
_paid_pass = pl.col("passed") & ~_cost.is_null()

COSTS_OF_PASSES = {
    "cost_of_pass__n": pl.col("cost_of_pass").count(),
    "cost_of_pass__cost": pl.when(_counted).then(_cost).sum(),
    "cost_of_pass__passes": _paid_pass.cast(pl.Int64).sum(),
}
"""What the runs cost that are known to pass or fail, and how many of them passed."""

_costs = Aggregate(
    features=(cost_of_pass, passed, cost_usd, *SOURCES.features),
    totals={
        **SOURCES.totals,
        **COSTS_OF_PASSES,
        "cost_of_pass__cost_squares": pl.when(_counted).then(_cost * _cost).sum(),
        "cost_of_pass__passed_cost": pl.when(_paid_pass).then(_cost).sum(),
    },
)


def _compute_finite_ratio(totals: Totals) -> Any:
    cost, passes = totals["cost_of_pass__cost"], totals["cost_of_pass__passes"]
    return choose(passes == 0, 0.0, divide(cost, passes))


def _sum_squares(totals: Totals) -> Any:
    """Return Σ (cost − ratio · passed)² over the runs."""
    ratio = _compute_finite_ratio(totals)
    names = ("cost_squares", "passed_cost", "passes")
    squares, cross, passes = (totals[f"cost_of_pass__{name}"] for name in names)
    return at_least(0.0, squares - 2 * ratio * cross + ratio * ratio * passes)


@dataclass(frozen=True)
class _CostOfPassDelta:
    """The delta method on the logarithm of the ratio, which cannot fall below 0.

    If nothing passed, the pass rate is at most Wilson's upper bound, and the cost of a pass at
    least the cost per run at that rate. If all passed, the rate may be as low as Wilson's lower
    bound, which the spread of the costs does not show.
    """

    name: str = "delta of logarithm"

    def interval(self, value: Any, totals: Totals, confidence: float) -> Interval:
        spread, clusters = read_spread("cost_of_pass", totals)
        n = as_whole(totals["cost_of_pass__n"])
        has_none = value == inf
        around = positive_interval(value, spread, clusters, confidence)
        low, high, stderr = map(fill_null, (around.low, around.high, around.stderr))
        reason, is_told = around.reason, is_text(around.reason)
        has_all = (totals["cost_of_pass__passes"] >= n) & (value != 0) & (has_none == 0)
        has_all = has_all & ((is_told == 0) | (reason == NO_SPREAD))
        if is_anywhere(has_all):
            least = fill_null(wilson(1.0, n, 0.0, clusters, confidence).low)
            reach = choose(high == high, log(divide(high, value)), 0.0)  # noqa: PLR0124 (NaN)
            further = value * exp(hypot(reach, log(choose(least > 0, least, 1.0))))
            low = choose(has_all, value * exp(-reach), low)
            high = choose(has_all, choose(least > 0, further, inf), high)
            reason = choose(has_all, None, reason)
        if is_anywhere(has_none):
            most = fill_null(wilson(0.0, n, 0.0, clusters, confidence).high)
            least = divide(totals["cost_of_pass__cost"] / n, most)
            low, high = choose(has_none, least, low), choose(has_none, inf, high)
            stderr = choose(has_none, nan, stderr)
            reason = choose(has_none, None, reason)
        return bound(low, high, stderr, reason)


cost_of_pass_ratio = Metric(
    name="cost_of_pass",
    says="What it costs to get one run that passes; infinite when none does.",
    formula="Σ cost_usd / number of passes = mean(cost_usd) / pass_rate",
    spec="T 5",
    needs=(COSTED, PASSED),
    nulls="a run without a cost, or without knowing whether it passed, is left out",
    unit="USD",
    range=(0, inf),
    better="lower",
    aggregate=_costs,
    rows="cost_of_pass__n",
    value=_compute_ratio,
    empty="no record has both a cost and passed, or judgments",
    version=VERSION,
    also=(UNPRICED,),
    refused=lambda totals: None if totals.get("cost_of_pass__n") else explain_unpriced(totals),
    optional="unless asked for",
    work="{cost_of_pass__cost} / {cost_of_pass__passes}",
    interval=_CostOfPassDelta(),
    influence=Influence(
        name="cost_of_pass",
        rows="cost_of_pass__n",
        centre=_compute_finite_ratio,
        effect=pl.when(_counted).then(
            _cost - centre("cost_of_pass") * pl.col("passed").cast(pl.Float64)
        ),
        squares=_sum_squares,
        per="cost_of_pass__passes",
    ),
    weight=lambda _: pl.col("cost_usd"),
)

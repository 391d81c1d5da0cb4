"""Behaviors of a scenario (S): what was expected, what was observed, and what must not happen.

A list of names is a set: a name that is there twice counts once, and names are compared as written.
"""

from __future__ import annotations

import polars as pl

from calipers.metrics.declare.declaration import Aggregate, Feature, Metric, Totals
from calipers.metrics.declare.influence import Influence, centre
from calipers.metrics.declare.intervals import SIZES, PartialWilson, declare_weights
from calipers.metrics.declare.means import mean

_LIST = pl.List(pl.String())
_FEW = 4  # rows for each distinct list
_UNDECIDED = r'"rule": ?"forbid", ?"held": ?null'  # in the results of checks, as they are written
BEHAVIORS = ("expected_behaviors", "observed_behaviors")


def _decode(texts: pl.Series) -> pl.Series:
    """Return lists from their JSON; if few differ, each is decoded once."""
    distinct = texts.unique()
    if len(distinct) * _FEW > len(texts):
        return texts.str.json_decode(_LIST)
    table = pl.DataFrame({"text": distinct, "names": distinct.str.json_decode(_LIST)})
    rows = texts.to_frame("text").join(
        table, on="text", how="left", nulls_equal=True, maintain_order="left"
    )
    return rows["names"].alias(texts.name)


def _declare_names(field: str) -> Feature:
    return Feature(
        f"_names_{field}",
        (field,),
        lambda _: pl.col(field).map_batches(_decode, return_dtype=_LIST),
        _LIST,
        stored=False,
    )


_expected, _observed, _violated = map(_declare_names, (*BEHAVIORS, "violations"))

behaviors_expected = Feature(
    "behaviors_expected", (_expected,), lambda _: pl.col(_expected.name).list.n_unique(), pl.Int64()
)

behaviors_observed = Feature(
    "behaviors_observed",
    (_expected, _observed),
    lambda _: pl.col(_expected.name).list.set_intersection(_observed.name).list.len(),
    pl.Int64(),
)

has_violation = Feature(
    "_has_violation",
    (_violated,),
    lambda _: pl.col(_violated.name).list.len().fill_null(0) > 0,
    pl.Boolean(),
    stored=False,
)

is_unchecked = Feature(
    "_is_unchecked",
    ("checks", has_violation),
    lambda _: (
        pl.col("checks").str.contains(_UNDECIDED).fill_null(value=False)
        & ~pl.col(has_violation.name)
    ),
    pl.Boolean(),
    stored=False,
)
"""Whether a check of something forbidden could not be decided: it may be a violation."""

_listed_score = Feature(
    "_listed_score",
    (behaviors_expected, behaviors_observed, has_violation),
    lambda _: (
        pl.when(has_violation.name)
        .then(0.0)
        .when(pl.col("behaviors_expected") > 0)
        .then(pl.col("behaviors_observed") / pl.col("behaviors_expected"))
    ),
    stored=False,
)

scenario_score = Feature(
    "scenario_score",
    (_listed_score, is_unchecked),
    lambda _: pl.when(~pl.col(is_unchecked.name)).then(_listed_score.name),
)

ruled_passed = Feature(
    "_ruled_passed",
    (behaviors_expected, has_violation, _listed_score),
    lambda settings: (
        pl.when(has_violation.name)
        .then(statement=False)
        .when(pl.col("behaviors_expected") == 0)
        .then(statement=True)
        .otherwise(pl.col(_listed_score.name) >= settings.pass_score)
    ),
    pl.Boolean(),
    stored=False,
)
"""Whether a scenario passed by its lists alone; null where these decide nothing."""

behavior_coverage = mean(
    scenario_score,
    name="behavior_coverage",
    says="How much of the expected behavior a scenario shows: nothing on any violation.",
    formula="mean(score), score = 0 on any violation, else |observed ∩ expected| / |expected|",
    spec="S 1.6",
    needs=BEHAVIORS,
    nulls="a scenario without a violation is left out where nothing was expected, or where "
    "something was and what was observed is unknown",
    range=(0, 1),
    better="higher",
    empty="no record has a violation, or expected and observed behaviors",
)


def _pool(value: pl.Expr) -> pl.Expr:
    """Return the value of rows that count: something was expected, and the observed is known."""
    return pl.when(~_found.is_null() & (_wanted > 0)).then(value)


def _compute_pooled(totals: Totals) -> float:
    return totals["behaviors__found"] / totals["behaviors__wanted"]


def _sum_pooled_squares(totals: Totals) -> float:
    """Return Σ (found − share · wanted)² over the rows."""
    share = _compute_pooled(totals)
    names = ("found_squares", "found_wanted", "wanted_squares")
    of_found, cross, of_wanted = (totals[f"behaviors__{name}"] for name in names)
    return max(0.0, of_found - 2 * share * cross + share * share * of_wanted)


_WANTED = ("behaviors__wanted_squares", "behaviors__wanted_cubes", "behaviors__wanted_fourths")
_found, _wanted = (pl.col(each.name) for each in (behaviors_observed, behaviors_expected))

_POOLED = "behavior_coverage_pooled"

behavior_coverage_pooled = Metric(
    name=_POOLED,
    says="The share of all expected behaviors that were observed, violations apart.",
    formula="Σ |observed ∩ expected| / Σ |expected|",
    spec="S 1.6",
    needs=BEHAVIORS,
    nulls="a scenario is left out where nothing was expected, or what was observed is unknown",
    range=(0, 1),
    better="higher",
    aggregate=Aggregate(
        features=(behaviors_expected, behaviors_observed),
        totals={
            "behaviors__n": _pool(_wanted).count().cast(pl.Int64),
            "behaviors__found": _pool(_found).sum(),
            "behaviors__wanted": _pool(_wanted).sum(),
            "behaviors__found_squares": _pool(_found * _found).sum(),
            "behaviors__found_wanted": _pool(_found * _wanted).sum(),
            **dict(zip(_WANTED, (_pool(_wanted**power).sum() for power in SIZES), strict=True)),
        },
    ),
    rows="behaviors__n",
    value=_compute_pooled,
    empty="no record has expected and observed behaviors",
    work="{behaviors__found} / {behaviors__wanted}",
    interval=PartialWilson(_POOLED, f"{_POOLED}__weight", "behaviors__n"),
    influence=Influence(
        name=_POOLED,
        rows="behaviors__n",
        centre=_compute_pooled,
        effect=_pool(_found.cast(pl.Float64) - centre(_POOLED) * _wanted.cast(pl.Float64)),
        squares=_sum_pooled_squares,
        per="behaviors__wanted",
    ),
    further=(
        declare_weights(
            f"{_POOLED}__weight",
            _pool(_wanted.cast(pl.Float64)),
            rows="behaviors__n",
            powers=_WANTED,
            per="behaviors__wanted",
        ),
    ),
    weight=lambda _: (pl.col("behaviors_expected") - pl.col("behaviors_observed")).cast(pl.Float64),
)

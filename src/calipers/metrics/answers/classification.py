"""Classification (S): precision and recall of `predicted` labels against the `actual` ones."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import nan
from typing import Any

import polars as pl

from calipers.metrics.declare.declaration import Feature, Metric, Totals
from calipers.metrics.declare.means import count_true, declare_sums, mean
from calipers.metrics.declare.settings import Settings

_BOOLEANS = {"true": True, "false": False}
_N, _LABELLED = "classified__n", "classified__without_label"


def _as_number(label: str) -> float:
    """Return a label as a number; NaN, which equals no number, if it is not one."""
    try:
        return float(label)
    except ValueError:
        return nan


def _mark_positive(values: pl.Series, label: str | None) -> pl.Series:
    """Return which values are the positive label; without a label, only `true` is."""
    if label is None:
        words = values.cast(pl.String).str.to_lowercase()
        return words.replace_strict(_BOOLEANS, default=None, return_dtype=pl.Boolean)
    if values.dtype.is_numeric():
        return values == _as_number(label)
    return values.cast(pl.String) == label


def _declare_positive(field: str) -> Feature:
    def express(settings: Settings) -> pl.Expr:
        mark = partial(_mark_positive, label=settings.positive)
        return pl.col(field).map_batches(mark, return_dtype=pl.Boolean)

    return Feature(f"_{field}_positive", (field,), express, pl.Boolean(), stored=False)


_predicted, _actual = _declare_positive("predicted"), _declare_positive("actual")
_BOTH = pl.col("predicted").is_not_null() & pl.col("actual").is_not_null()
_TOLD = pl.col(_predicted.name).is_not_null() & pl.col(_actual.name).is_not_null()

labelled = Feature(
    "_labelled",
    ("predicted", "actual", _predicted, _actual),
    lambda _: pl.when(_BOTH).then(_TOLD),
    pl.Boolean(),
)
"""Whether the two labels of a row, where it has both, are known to be positive or not."""


def _declare_hits(name: str, *, among: Feature, of: Feature) -> Feature:
    """Return the feature that is true for rows of one kind that are of the other kind too."""
    return Feature(
        name,
        (labelled, _predicted, _actual),
        lambda _: pl.when(pl.col(labelled.name) & pl.col(among.name)).then(of.name),
        pl.Boolean(),
    )


_precise = _declare_hits("prediction_right", among=_predicted, of=_actual)
_recalled = _declare_hits("positive_found", among=_actual, of=_predicted)


def _declare_share(hits: Feature, kind: str, **facts: Any) -> Metric:
    """Return precision or recall: the share of rows of one kind that are of the other too."""

    def refuse(totals: Totals) -> str | None:
        if totals.get(_LABELLED):
            return "predicted and actual hold labels: name the positive one with --positive LABEL"
        if totals.get(_N) and not totals[f"{hits.name}__n"]:
            return f"no record is {kind} positive"
        return None

    counted = {_N: count_true(labelled), _LABELLED: (~pl.col(labelled.name)).cast(pl.Int64).sum()}
    share = mean(
        hits,
        needs=("predicted", "actual"),
        nulls="a row without both `predicted` and `actual` is left out",
        better="higher",
        aggregate=declare_sums(hits, labelled, **counted),
        refused=refuse,
        **facts,
    )
    # No value per task: two systems predict different rows as positive.
    return replace(share, rows=_N, averaged=None)


precision = _declare_share(
    _precise,
    "predicted",
    name="precision",
    says="Of the rows predicted positive, the share that is.",
    formula="true positives / (true positives + false positives); --positive names the label",
    spec="S 1.3",
)

recall = _declare_share(
    _recalled,
    "actually",
    name="recall",
    says="Of the rows that are positive, the share predicted so.",
    formula="true positives / (true positives + false negatives); --positive names the label",
    spec="S 1.4",
)

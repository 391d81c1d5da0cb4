"""Classification (S): precision and recall of `predicted` labels against the `actual` ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import nan
from typing import Literal

import narwhals as nw
import polars as pl

from calipers.metrics.declare.declaration import Aggregate, Feature, Metric, Totals
from calipers.metrics.declare.means import declare_sums, mean
from calipers.metrics.declare.settings import Settings

_BOOLEANS = {"true": True, "false": False}
_N, _LABELLED = "classified__n", "classified__without_label"


def _is_positive(field: str) -> Callable[[Settings], pl.Expr]:
    """Return whether a column holds the positive label; without a label, only booleans count."""

    def expression(settings: Settings) -> pl.Expr:
        def of_batch(values: pl.Series) -> pl.Series:
            if settings.positive is None:
                words = values.cast(pl.String).str.to_lowercase()
                return words.replace_strict(_BOOLEANS, default=None, return_dtype=pl.Boolean)
            if values.dtype.is_numeric():
                return values == _as_number(settings.positive)
            return values.cast(pl.String) == settings.positive

        return pl.col(field).map_batches(of_batch, return_dtype=pl.Boolean)

    return expression


def _as_number(label: str) -> float:
    """Return a label as a number; NaN, which equals no number, if it is not one."""
    try:
        return float(label)
    except ValueError:
        return nan


def _declare_positive(field: str) -> Feature:
    return Feature(
        name=f"_{field}_positive",
        reads=(field,),
        dtype=pl.Boolean(),
        expression=_is_positive(field),
        stored=False,
        listed=False,
    )


_predicted, _actual = _declare_positive("predicted"), _declare_positive("actual")
_BOTH = pl.col("predicted").is_not_null() & pl.col("actual").is_not_null()
_TOLD = pl.col(_predicted.name).is_not_null() & pl.col(_actual.name).is_not_null()

labelled = Feature(
    name="_labelled",
    reads=("predicted", "actual", _predicted, _actual),
    dtype=pl.Boolean(),
    expression=lambda _: pl.when(_BOTH).then(_TOLD),
    listed=False,
)
"""Whether the two labels of a row, where it has both, are known to be positive or not."""


def _declare_hits(name: str, *, among: Feature, of: Feature) -> Feature:
    """Return the feature that says whether a row of one kind is of the other kind too."""
    return Feature(
        name=name,
        reads=(labelled, _predicted, _actual),
        dtype=pl.Boolean(),
        expression=lambda _: pl.when(pl.col(labelled.name) & pl.col(among.name)).then(of.name),
    )


_precise = _declare_hits("prediction_right", among=_predicted, of=_actual)
_recalled = _declare_hits("positive_found", among=_actual, of=_predicted)


def _share(
    hits: Feature, name: Literal["precision", "recall"], *, says: str, formula: str, spec: str
) -> Metric:
    kind = "predicted" if name == "precision" else "actually"

    def refuse(totals: Totals) -> str | None:
        if totals.get(_LABELLED):
            return "predicted and actual hold labels: name the positive one with --positive LABEL"
        if totals.get(_N) and not totals[f"{hits.name}__n"]:
            return f"no record is {kind} positive"
        return None

    share = mean(
        hits,
        name=name,
        says=says,
        formula=formula,
        spec=spec,
        profiles=("scenarios",),
        needs=("predicted", "actual"),
        nulls="a row without both `predicted` and `actual` is left out",
        range=(0, 1),
        better="higher",
        aggregate=Aggregate(
            features=(hits, labelled),
            totals={
                **declare_sums(hits).totals,
                _N: nw.col(labelled.name).cast(nw.Int64).sum(),
                _LABELLED: (~nw.col(labelled.name)).cast(nw.Int64).sum(),
            },
        ),
        empty="no record has predicted and actual",
    )
    # No value per task: two systems predict different rows as positive.
    return replace(share, rows=_N, refused=refuse, averaged=None)


precision = _share(
    _precise,
    "precision",
    says="Of the rows predicted positive, the share that is.",
    formula="true positives / (true positives + false positives); --positive names the label",
    spec="S 1.3",
)

recall = _share(
    _recalled,
    "recall",
    says="Of the rows that are positive, the share predicted so.",
    formula="true positives / (true positives + false negatives); --positive names the label",
    spec="S 1.4",
)

"""Influences: how far each row moves a value, from which error bars are computed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING

import polars as pl

from calipers.support.quick_dataclasses import dataclass

if TYPE_CHECKING:
    from calipers.metrics.declare.declaration import Aggregate, Feature, Step, Totals


@dataclass(frozen=True, eq=False, kw_only=True)
class Influence:
    """How far each row moves a value, times the number of rows: x − mean for a mean.

    An error bar is computed from its squares, summed within each cluster first (the infinitesimal
    jackknife). Over rows that are clusters of their own the squares follow from the totals; for
    the others the engines compute the effect row by row.
    """

    name: str
    rows: str  # the total that holds the number of rows
    centre: Callable[[Totals], float]  # the group's own number in the effect
    effect: pl.Expr  # over features, `centre(name)`, and totals of the row's key
    squares: Callable[[Totals], float]  # Σ effect² over all rows
    # Further numbers of the group's in the effect, each read as its `centre(name)`.
    numbers: Mapping[str, Callable[[Totals], float]] = field(default_factory=dict)
    per: str | None = None  # the total that divides the effects, if not the number of rows
    powers: tuple[str, str, str] | None = None  # of a weight: totals of its squares, cubes, fourths
    feature: Feature | None = None  # for a mean: `{feature}__squares` is wanted among the totals
    keyed: Aggregate | None = None  # the aggregate whose totals per key are in the effect
    keyed_step: Step | None = None  # what is made of these first
    keyed_reads: tuple[str, ...] = ()


def centre(name: str) -> pl.Expr:
    """Return the group's own number of that name, in the effect of an influence."""
    return pl.col(centre_column(name))


def centre_column(name: str) -> str:
    """Return the name of the column that holds it."""
    return f"_centre_{name}"


def total(name: str) -> pl.Expr:
    """Return a total of the row's key, in the effect of an influence."""
    return pl.col(total_column(name))


def total_column(name: str) -> str:
    """Return the name of the column that holds that total."""
    return f"_total_{name}"

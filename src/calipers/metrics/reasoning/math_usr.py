"""Math-aware unsupported step rate: the share of wrong equations in a chain of thought."""

from __future__ import annotations

import polars as pl

from calipers.metrics.declare.declaration import Feature
from calipers.metrics.declare.means import mean
from calipers.metrics.reasoning.equations import equations


def _wrong_share(texts: pl.Series) -> pl.Series:
    """The share of wrong equations per text; null without an equation. Only texts with `=` cost."""
    shares: list[float | None] = [None] * len(texts)
    for index in texts.str.contains("=", literal=True).arg_true():
        if verdicts := equations(texts[index]):
            shares[index] = verdicts.count(False) / len(verdicts)
    return pl.Series(texts.name, shares, dtype=pl.Float64)


wrong_equations = Feature(
    name="math_usr",
    reads=("cot",),
    dtype=pl.Float64(),
    expression=lambda _: pl.col("cot").map_batches(_wrong_share, return_dtype=pl.Float64),
)

math_usr = mean(
    wrong_equations,
    name="math_usr",
    says="The share of wrong equations in a chain of thought.",
    formula="mean over chains with equations of (wrong equations / equations)",
    spec="Z 8",
    needs=("cot",),
    nulls="a row without a cot, or whose cot holds no equation, is left out",
    range=(0, 1),
    better="lower",
    empty="no cot holds an equation",
)

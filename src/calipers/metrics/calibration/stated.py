"""The probability of being right that a model states: one, or several with names.

`prob_correct` is a number, or an object of numbers, `{"p_true": 0.9, "mean": 0.7}`. Each name has
metrics of its own, `brier(p_true)` say, over the field `prob_correct.p_true`.
"""

from __future__ import annotations

import re
from functools import cache
from zlib import crc32

import polars as pl

from calipers.metrics.answers.accuracy import correct
from calipers.metrics.declare.declaration import Feature
from calipers.metrics.declare.settings import Settings
from calipers.records.fields import PROB_CORRECT
from calipers.support.quick_dataclasses import dataclass

_LONGEST = 60  # characters of a column's name
_PLAIN = re.compile(r"(?:[A-Za-z0-9]+_)*[A-Za-z0-9]+")


@dataclass(frozen=True)
class Stated:
    """A stated probability: the record's only one, or that of a name."""

    name: str | None = None

    @property
    def field(self) -> str:
        """The record's field, a path where the probability has a name."""
        return PROB_CORRECT if self.name is None else f"{PROB_CORRECT}.{self.name}"

    @property
    def numbers(self) -> tuple[str, ...]:
        """The fields that must exist if asked for: those with a user's name."""
        return () if self.name is None else (self.field,)

    def label(self, metric: str) -> str:
        """Return what a metric of this probability is called."""
        return metric if self.name is None else f"{metric}({self.name})"

    def column(self, own: str) -> str:
        """Return the column for it; of a name, one that no other name has."""
        if self.name is None:
            return own
        if _PLAIN.fullmatch(self.name[: _LONGEST + 1]) and len(self.name) <= _LONGEST:
            return f"{own}_of_{self.name}"
        return f"{own}_of_{crc32(self.name.encode()):08x}_"

    @property
    def unused(self) -> str:
        """Which rows a metric leaves out."""
        return f"a row without {self.field}, or whose correctness cannot be decided, is left out"


@cache
def declare_confidence(stated: Stated) -> Feature:
    """Return the probability itself."""
    return Feature(
        stated.column(PROB_CORRECT),
        (stated.field,),
        lambda _: pl.col(stated.field),
        shown=stated.field,
        numbers=stated.numbers,
    )


@cache
def declare_squared_error(stated: Stated) -> Feature:
    """Return the squared distance between the probability and being right."""
    return Feature(
        stated.column("squared_error"),
        (stated.field, correct),
        lambda _: (pl.col(stated.field) - pl.col("correct").cast(pl.Float64)) ** 2,
        shown=stated.label("squared_error"),
        numbers=stated.numbers,
    )


@cache
def declare_bin(stated: Stated) -> Feature:
    """Return the bin, closed on the right, zero in the first; the edges are the doubles k/K."""

    def find_bin(settings: Settings) -> pl.Expr:
        edges = pl.Series([k / settings.bins for k in range(1, settings.bins)], dtype=pl.Float64)
        probability = pl.col(stated.field)
        known = probability.is_not_null() & pl.col("correct").is_not_null()
        return pl.when(known).then(pl.lit(edges).search_sorted(probability, side="left"))

    return Feature(
        stated.column("confidence_bin"),
        (stated.field, correct),
        find_bin,
        pl.Int32(),
        shown=stated.label("confidence_bin"),
        listed=False,
    )

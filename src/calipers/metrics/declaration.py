"""How a metric is declared: a value per row, totals per group, and the number they give.

- A **feature** is a column per row, a Polars expression over the record's fields or over other
  features. On a cluster the same expression runs inside the workers.
- An **aggregate** gives additive totals per group, written with Narwhals, so that it runs natively
  on Polars and on Spark, and so that the parts of a large table can be added up.
- A **metric** names its aggregate and turns a group's totals into its value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import narwhals as nw
import polars as pl

# Columns of our own; the underscore keeps them apart from the data's fields.
GROUP = "_group"  # one text per group: its fields as JSON
TASK = "_task"  # a hash of group and id: rows that share it are runs of one task

Frame = nw.LazyFrame[Any]
Totals = Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a user can choose about how metrics are computed; the output names each choice."""

    normalize: Literal["numeric", "text"] = "numeric"
    bins: int = 10
    tokenizer: str = "whitespace"


@dataclass(frozen=True, slots=True)
class OneOf:
    """Fields of which one set must be there: `OneOf(("correct",), ("answer", "target"))`."""

    choices: tuple[tuple[str, ...], ...]

    def __str__(self) -> str:
        return ", or ".join(" and ".join(choice) for choice in self.choices)


Need = str | OneOf


def is_met(need: Need, present: Callable[[str], bool]) -> bool:
    """Say whether the data has what is needed."""
    if isinstance(need, str):
        return present(need)
    return any(all(map(present, choice)) for choice in need.choices)


@dataclass(frozen=True, eq=False, kw_only=True)
class Feature:
    """A value per row."""

    name: str
    reads: tuple[str | Feature, ...]  # record fields, and features that come first
    dtype: pl.DataType
    expression: Callable[[Settings], pl.Expr]
    stored: bool = True  # whether aggregates need it, or only other features
    listed: bool = True  # whether `--per-sample` writes it

    def with_inputs(self) -> Iterator[Feature]:
        """The features this one stands on, then itself."""
        for source in self.reads:
            if isinstance(source, Feature):
                yield from source.with_inputs()
        yield self

    def fields(self) -> Iterator[str]:
        """The record's fields that it reads, directly or through other features."""
        for source in self.reads:
            if isinstance(source, Feature):
                yield from source.fields()
            else:
                yield source


def recorded(name: str) -> Feature:
    """The record's own number, as a feature."""
    return Feature(name=name, reads=(name,), dtype=pl.Float64(), expression=lambda _: pl.col(name))


@dataclass(frozen=True, eq=False, kw_only=True)
class Aggregate:
    """Totals that add up over parts of a group.

    Without `keys`, `totals` are the group's. With keys, rows are first totalled per key (a task, a
    distinct answer, a bin), and each way to `finish` turns that table, a row per group and key,
    into totals of the group. A way is one step or two: from answers to tasks, from tasks to groups.
    """

    features: tuple[Feature, ...]
    totals: Mapping[str, nw.Expr]
    keys: tuple[str, ...] = ()
    where: Callable[[], nw.Expr] | None = None
    finish: tuple[tuple[Callable[[Frame], Frame], ...], ...] = ()


@dataclass(frozen=True, eq=False, kw_only=True)
class Rank:
    """The value at the nearest rank of a share: position ⌈percent · N / 100⌉ of N sorted values."""

    feature: Feature
    percent: int

    @property
    def count_name(self) -> str:
        """The total that holds N."""
        return f"{self.feature.name}__n"

    @property
    def value_name(self) -> str:
        """The total that holds the value at the rank."""
        return f"{self.feature.name}__p{self.percent}"

    def position(self, count: int) -> int:
        """The rank, from 1, in exact integers."""
        return -(-self.percent * count // 100)


@dataclass(frozen=True, eq=False, kw_only=True)
class Metric:
    """One number about a group of records, and all there is to know about it."""

    name: str
    says: str  # one sentence for people
    formula: str
    spec: str  # the document and section that define it
    profiles: tuple[str, ...]
    needs: tuple[Need, ...]
    nulls: str  # which rows are left out
    unit: str | None
    range: tuple[float, float]
    better: Literal["higher", "lower"] | None
    aggregate: Aggregate | Rank
    rows: str  # the total that holds the number of rows used
    value: Callable[[Totals], float]
    empty: str  # why the value is null when no row was used
    work: str  # the formula over the totals, as `explain` fills it in
    version: int = 1
    extras: Mapping[str, str] = field(default_factory=dict)  # further totals shown beside it
    influence: Callable[[Totals], pl.Expr] | None = None  # how much a row moves the value

    @property
    def features(self) -> tuple[Feature, ...]:
        """The features that its aggregate reads."""
        if isinstance(self.aggregate, Rank):
            return (self.aggregate.feature,)
        return self.aggregate.features


def sums(feature: Feature) -> Aggregate:
    """How many rows have the feature, and its sum: what a mean needs."""
    name = feature.name
    value = nw.col(name)
    if feature.dtype == pl.Boolean:
        value = value.cast(nw.Int64)
    return Aggregate(
        features=(feature,),
        totals={f"{name}__n": nw.col(name).count(), f"{name}__sum": value.sum()},
    )


def mean(
    feature: Feature,
    *,
    name: str,
    says: str,
    formula: str,
    spec: str,
    needs: tuple[Need, ...],
    profiles: tuple[str, ...] = ("reasoning",),
    nulls: str = "a row without the value is left out",
    unit: str | None = None,
    range: tuple[float, float] = (0, float("inf")),  # noqa: A002 (the word the catalogue shows)
    better: Literal["higher", "lower"] | None = None,
    complement: bool = False,
    aggregate: Aggregate | None = None,
    empty: str | None = None,
    extras: Mapping[str, str] | None = None,
) -> Metric:
    """A metric that is the mean of a feature over the rows that have it, or 1 minus that mean."""
    count, total = f"{feature.name}__n", f"{feature.name}__sum"

    def value(totals: Totals) -> float:
        share = totals[total] / totals[count]
        return 1 - share if complement else share

    def influence(totals: Totals) -> pl.Expr:
        return (pl.col(feature.name).cast(pl.Float64) - totals[total] / totals[count]).abs()

    return Metric(
        name=name,
        says=says,
        formula=formula,
        spec=spec,
        profiles=profiles,
        needs=needs,
        nulls=nulls,
        unit=unit,
        range=range,
        better=better,
        aggregate=aggregate or sums(feature),
        rows=count,
        value=value,
        empty=empty or f"no record has {' and '.join(map(str, needs))}",
        work=f"{'1 − ' if complement else ''}{{{total}}} / {{{count}}}",
        extras=extras or {},
        influence=influence,
    )

"""Declarations of metrics: a value per row, totals per group, and the number made from them.

- A **feature** is a column per row, a Polars expression over the record's fields or over other
  features. On a cluster the same expression runs inside the workers.
- An **aggregate** gives additive totals per group, so that the parts of a large table, or of a
  cluster, can be added up.
- An **influence** is how far each row moves a value; error bars are computed from it.
- A **metric** names its aggregate, turns a group's totals into its value, and names its interval.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from itertools import chain
from typing import Any, Literal, Protocol

import polars as pl

from calipers.metrics import PROFILES
from calipers.metrics.declare.settings import Settings
from calipers.statistics.intervals import Interval


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


# Columns of our own; the underscore keeps them apart from the data's fields.
GROUP = "_calipers_group"  # one text per group: its fields as JSON
TASK = "_calipers_task"  # a hash of group and id: rows that share it are runs of one task
CLUSTER = (
    "_calipers_cluster"  # rows that share it depend on each other: those of a task, or as asked
)
RUNS = "runs"  # in a table with a row per task: how many rows stand behind it

Frame = pl.LazyFrame
Totals = Mapping[str, float]
Step = Callable[[Frame], Frame]
_NUMBER = pl.Float64()

DOCUMENTS = "ZTSP"  # of the profiles, in their order
SECTION = re.compile(rf"[{DOCUMENTS}] [0-9.]+$")


def add_up(groups: Iterable[Totals], name: str) -> int:
    """Return a count over all groups, or over columns of them; some may lack it."""
    counts: Iterator[Any] = (totals.get(name, 0) for totals in groups)
    return sum(int(count.sum() if getattr(count, "ndim", 0) else count or 0) for count in counts)


def count_records(count: int) -> str:
    """Return the number of records in words, for a notice."""
    return f"{count} record{'' if count == 1 else 's'}"


@dataclass(frozen=True, slots=True)
class OneOf:
    """Fields of which one set must be there: `OneOf(("correct",), ("answer", "target"))`."""

    choices: tuple[tuple[str, ...], ...]

    def __str__(self) -> str:
        return ", or ".join(" and ".join(choice) for choice in self.choices)


Need = str | OneOf


def is_met(need: Need, present: Callable[[str], bool]) -> bool:
    """Return True if the data has what is needed."""
    if isinstance(need, str):
        return present(need)
    return any(all(map(present, choice)) for choice in need.choices)


@dataclass(frozen=True, eq=False)
class Feature:
    """A value per row."""

    name: str
    reads: tuple[str | Feature, ...]  # record fields, and features that come first
    expression: Callable[[Settings], pl.Expr]
    dtype: pl.DataType = _NUMBER
    _: KW_ONLY
    stored: bool = True  # whether aggregates need it, or only other features
    listed: bool = True  # whether `--per-sample` writes it; not if its name begins with _
    shown: str | None = None  # under which name, if not its own
    null_without: tuple[str, ...] = ()  # fields without which a row has no value
    numbers: tuple[str, ...] = ()  # fields of the user's own that are read as numbers for it
    of_record: Callable[[Mapping[str, Any]], Any] | None = None  # a function of all the fields

    def __post_init__(self) -> None:
        object.__setattr__(self, "listed", self.listed and not self.name.startswith("_"))

    @property
    def label(self) -> str:
        """The name that people see."""
        return self.shown or self.name

    @cached_property
    def inputs(self) -> tuple[Feature, ...]:
        """The features this one is computed from, each once, then itself."""
        before = (source.inputs for source in self.reads if isinstance(source, Feature))
        return (*dict.fromkeys(chain.from_iterable(before)), self)

    @cached_property
    def fields(self) -> tuple[str, ...]:
        """The record's fields that it reads, directly or through other features, each once."""
        read = (
            source.fields if isinstance(source, Feature) else (source,) for source in self.reads
        )
        return tuple(dict.fromkeys(chain.from_iterable(read)))


@dataclass(frozen=True, eq=False, kw_only=True)
class Aggregate:
    """Totals that add up over parts of a group.

    Without `keys`, `totals` are the group's. With keys, rows are first totalled per key (a task, a
    distinct answer, a bin), and each way to `finish` turns that table, a row per group and key,
    into totals of the group, or into `tasks`, whose values are averaged.
    """

    features: tuple[Feature, ...]
    totals: Mapping[str, pl.Expr]
    keys: tuple[str, ...] = ()
    where: Callable[[], pl.Expr] | None = None
    finish: tuple[Step, ...] = ()
    tasks: tuple[TaskValues, ...] = ()
    every_task: bool = False  # or only those with several rows
    kept_as: str | None = None  # of few whole keys: `name_kept_total` names the totals of each


def name_kept_total(prefix: str, key: int, name: str) -> str:
    """Return the name of the group's total that holds a total of one key."""
    return f"{prefix}__{key}__{name}"


@dataclass(frozen=True, eq=False, kw_only=True)
class TaskValues:
    """Values of each task, made from its aggregate's table, and averaged over the tasks.

    `step` gives a row per task: group, task, `RUNS` and the values. The totals are `{name}__tasks`,
    `{name}__rows`, and of each value `{value}__sum` and the spread `{value}__spread`.
    """

    name: str
    step: Step
    values: tuple[str, ...]


class HasInterval(Protocol):
    """A method for an interval; its name is in the output."""

    @property
    def name(self) -> str:
        """How people call it."""

    def interval(self, value: float, totals: Totals, confidence: float) -> Interval:
        """Return the interval around the value."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Rank:
    """The value at the nearest rank of a share: position ⌈percent · N / 100⌉ of N sorted values."""

    feature: Feature
    percent: int
    of_family: bool = False  # whether its bounds shall hold in all groups of a family at once

    @property
    def count_name(self) -> str:
        """The total that holds N."""
        return f"{self.feature.name}__n"

    @property
    def value_name(self) -> str:
        """The total that holds the value at the rank."""
        return f"{self.feature.name}__p{self.percent}"

    @property
    def low_name(self) -> str:
        """The total that holds the interval's lower bound, where there is one."""
        return f"{self.value_name}__low{'_of_family' * self.of_family}"

    @property
    def high_name(self) -> str:
        """The total that holds the interval's upper bound, where there is one."""
        return f"{self.value_name}__high{'_of_family' * self.of_family}"

    def locate(self, count: Any) -> Any:
        """Return the rank, from 1, in exact integers; of a column of counts, that of each."""
        return -(-self.percent * count // 100)

    @cached_property
    def influence(self) -> Influence:
        """How far each row moves the share of values up to the one at the rank."""
        value = pl.col(self.feature.name)
        share = self.percent / 100
        below = pl.when(value <= centre(self.value_name)).then(1 - share).otherwise(-share)
        return Influence(
            name=self.value_name,
            rows=self.count_name,
            centre=lambda totals: totals[self.value_name],
            effect=pl.when(~value.is_null()).then(below),
            squares=lambda totals: share * (1 - share) * totals[self.count_name],
        )


Extra = str | Callable[[Totals], float | str | None]
"""What a metric shows besides its value: a total, or what is made of the totals."""


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Metric:
    """One number about a group of records, and everything there is to know about it."""

    name: str
    says: str  # one sentence for people
    formula: str
    spec: str | None = None  # the document and section that define it, if one does
    profiles: tuple[str, ...] = ()  # of those documents, unless others are named
    needs: tuple[Need, ...]
    nulls: str = "a row without the value is left out"  # which rows are left out
    unit: str | None = None
    range: tuple[float, float]
    better: Literal["higher", "lower"] | None = None
    aggregate: Aggregate | Rank
    rows: str  # the total that holds the number of rows used, or of tasks
    used: str | None = None  # where `rows` counts tasks: the total that holds the number of rows
    about: str | None = None  # the total that holds how many rows it is about, where not all
    value: Callable[[Totals], Any]  # a number, or an array of them where the totals are arrays
    empty: str = ""  # why the value is null when no row was used, if not for lack of the needs
    interval: HasInterval
    work: str  # the formula over the totals, as `explain` fills it in
    version: int = 1
    extras: Mapping[str, Extra] = field(default_factory=dict)  # what is shown beside it
    ranks: tuple[Rank, ...] = ()  # what the value needs beside the aggregate's totals
    also: tuple[Aggregate, ...] = ()  # what is counted beside it: for `extras`, `refused`, notices
    refused: Callable[[Totals], str | None] | None = None  # why the value is null nevertheless
    # Where no group has a value it is not shown, unless it is named, or named or in the profile.
    optional: Literal["unless named", "unless asked for"] | None = None
    averaged: Feature | str | None = None  # the feature, or the value of tasks, it is the mean of
    complement: bool = False  # 1 minus that mean
    step: float = 1.0  # the part of its range by which one run can move the value of a task
    influence: Influence | None = None  # none where the values of tasks are averaged
    further: tuple[Influence, ...] = ()  # those of its parts, where its interval needs them
    not_resampled: str | None = None  # why the bootstrap gives it no interval
    weight: Callable[[Totals], pl.Expr] | None = None  # what `explain` sorts the rows by
    quotes: Feature | None = None  # what `explain` quotes of the most influential rows
    definition: Hashable = None  # of a user's metric: equal for equal definitions
    others: str | None = None  # the total that counts values other than 0 and 1
    yes_or_no: Metric | None = None  # the metric as a share, for when there are no such values

    def __post_init__(self) -> None:
        if not self.empty:
            needed = " and ".join(map(str, self.needs))
            object.__setattr__(self, "empty", f"no record has {needed}")
        if self.spec and not self.profiles:
            letters = (place[0] for place in self.spec.split(", ") if SECTION.match(place))
            found = tuple(PROFILES[DOCUMENTS.index(letter)] for letter in letters)
            object.__setattr__(self, "profiles", found)

    def __repr__(self) -> str:
        return f"Metric({self.name!r})"

    @property
    def defined_in(self) -> str:
        """The document and section that define it, or that none does."""
        return self.spec or "no document"

    @property
    def measures(self) -> tuple[Aggregate | Rank, ...]:
        """The aggregate and the ranks that the value is computed from."""
        return (self.aggregate, *self.ranks)

    @property
    def features(self) -> tuple[Feature, ...]:
        """The features that its aggregates and ranks read."""
        return tuple(
            feature
            for each in (*self.measures, *self.also)
            for feature in ((each.feature,) if isinstance(each, Rank) else each.features)
        )

"""The records that are broken: what the gate makes of each, and which rows a dose breaks.

Rows are chosen in an order that comes from a hash of what identifies them, so that the same records
are always broken in the same way, and a larger dose breaks what a smaller one did, and more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import isfinite
from typing import Any

import polars as pl

from calipers.gates.decide import GateQuestion
from calipers.gates.policy_fields import find_metric
from calipers.gates.rules.threshold_rules import Thresholds
from calipers.metrics import Metric
from calipers.records.fields import FIELDS, load_json

SOURCE, ROW, ORDER, RAN, RIGHT, FAILS = (
    f"\0sabotage_{name}" for name in ("source", "row", "order", "ran", "right", "fails")
)
"""The columns beside the fields: the file of a row, its place, its place in the order of sabotage,
whether its call came to an end, whether it is right, or not known to be wrong, whether it fails."""

MARKS = ("scores", "weighted_score", "overall_score", "score")
"""What a judgment calls the marks that a judge gives."""


@dataclass(frozen=True, kw_only=True)
class MarkedRecords:
    """The records of a gate in memory, and what it makes of each."""

    question: GateQuestion
    sources: tuple[str, ...]  # the names of their files
    frame: pl.DataFrame  # as they were read, and the place of each one's file
    marks: pl.DataFrame  # a row per record: its place in the order, whether it ran, is right, fails
    warned: frozenset[str] = frozenset()  # the checks that warn without any sabotage

    @cached_property
    def columns(self) -> frozenset[str]:
        """The fields that any record has a value in."""
        filled = self.frame.select(pl.all().is_not_null().any())
        return frozenset(name for name in filled.columns if filled[name].item())

    @cached_property
    def used(self) -> frozenset[str]:
        """The fields that any rule is about, those that only warn included."""
        names = self.question.policy.list_metrics(self.question.given)
        return frozenset(self._list_needs(map(find_metric, names)))

    @cached_property
    def blocking(self) -> tuple[Metric, ...]:
        """The metrics that rules which block are about."""
        names: dict[str, None] = {}
        for rule in self.question.policy.rules:
            if isinstance(rule, Thresholds):
                names |= dict.fromkeys(rule.get_row(self.question.given.release))
            elif not rule.only_warns:
                names |= dict.fromkeys(rule.list_metrics(self.question.given))
        return tuple(map(find_metric, names))

    @cached_property
    def needed(self) -> tuple[str, ...]:
        """The fields that a rule which blocks is about."""
        return tuple(self._list_needs(self.blocking))

    def _list_needs(self, metrics: Iterable[Metric]) -> dict[str, None]:
        """Return the fields that metrics are measured from in these records."""
        fields: dict[str, None] = {}
        for need in (need for metric in metrics for need in metric.needs):
            choices = ((need,),) if isinstance(need, str) else need.choices
            for choice in choices:
                if self.columns.issuperset(choice):
                    fields |= dict.fromkeys(choice)
        return fields

    @cached_property
    def own_fields(self) -> dict[str, float]:
        """The user's own numbers that rules which block are about, and the worst value of each."""
        worst_values = {}
        for metric in self.blocking:
            worst = metric.range[0 if metric.better == "higher" else 1]
            for name in self._list_needs([metric]):
                is_own = name not in FIELDS and self.frame[name].dtype.is_numeric()
                if is_own and metric.better and isfinite(worst):
                    worst_values[name] = worst
        return worst_values

    @cached_property
    def systems(self) -> tuple[str, ...]:
        """The fields that name systems: those that the gate groups by, or the model."""
        by = self.question.options.by or ("model",)
        return tuple(name for name in by if name in self.columns and name != "category")

    @cached_property
    def judgments(self) -> list[Any]:
        """The judgments of each record."""
        texts = self.frame["judgments"].to_list()
        return [None if text is None else load_json(text) for text in texts]

    @cached_property
    def marks_given(self) -> dict[str, tuple[float, float]]:
        """The worst and the best mark that judges give, by criterion.

        Those up to 1 are shares; others count from 1 on, unless lower ones are given.
        """
        marks: dict[str, tuple[float, float]] = {}
        for name, value in _list_marks(self.judgments, "", is_mark=False):
            low, high = marks.get(name, (value, value))
            marks[name] = (min(low, value), max(high, value))
        return {
            name: (0.0, 1.0) if high <= 1 else (min(1.0, low), high)
            for name, (low, high) in marks.items()
        }

    @cached_property
    def whole(self) -> pl.DataFrame:
        """The records with their marks."""
        return self.frame.hstack(self.marks)

    def list_values(self, name: str) -> list[Any]:
        """Return the values of a field to break one by one: those of rules, then the usual ones."""
        if name not in self.columns:
            return []
        counts = Counter(self.frame[name].alias("value").drop_nulls().to_list())
        usual = sorted(counts, key=lambda value: (-counts[value], str(value)))
        if name == "category":
            given = self.question.given
            named = (c for rule in self.question.policy.rules for c in rule.list_categories(given))
            usual = list(dict.fromkeys((*(value for value in named if value in counts), *usual)))
        return usual

    def find_rows(self, which: pl.Expr, *, failing_first: bool = False) -> tuple[int, ...]:
        """Return the places of some records in the order in which they are broken."""
        order = (~pl.col(FAILS), ORDER) if failing_first else (pl.col(ORDER),)
        return tuple(self.whole.filter(which).sort(*order)[ROW].to_list())

    def find_tasks(self, which: pl.Expr) -> tuple[tuple[int, ...], tuple[int, ...] | None]:
        """Return the places of some records task by task, and where each task ends."""
        if "id" not in self.columns:
            return self.find_rows(which), None
        rows = self.whole.filter(which).group_by("id").agg(ROW, pl.col(ORDER).min()).sort(ORDER)
        ends = rows[ROW].list.len().cum_sum().to_list()
        return tuple(rows[ROW].explode(empty_as_null=True).to_list()), tuple(ends)


def _list_marks(value: Any, name: str, *, is_mark: bool) -> Iterator[tuple[str, float]]:
    """Yield every mark in judgments, with its criterion."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _list_marks(inner, key, is_mark=is_mark or key in MARKS)
    elif isinstance(value, list):
        for inner in value:
            yield from _list_marks(inner, name, is_mark=is_mark)
    elif is_mark and isinstance(value, int | float) and not isinstance(value, bool):
        yield name, value


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The rows that can be broken, in the order in which they are broken."""

    rows: tuple[int, ...]
    ends: tuple[int, ...] | None = None  # of tasks, which are broken whole
    suffix: str = ""  # of the name: ` in adversarial`
    of: Mapping[str, Any] = field(default_factory=dict)
    scope: int | None = None  # the rows of which a rate falls when these go wrong

    @property
    def size(self) -> int:
        """Return how many rows, or tasks, can be broken."""
        return len(self.rows if self.ends is None else self.ends)

    def take(self, count: int) -> tuple[int, ...]:
        """Return the rows of the first so many."""
        return self.rows[: count if self.ends is None or not count else self.ends[count - 1]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dose:
    """A dose: the rows that it breaks, of those that can be broken."""

    dose: float
    rows: tuple[int, ...]
    place: Place

    def mark(self, frame: pl.DataFrame) -> pl.Series:
        """Return whether each row is broken."""
        marks = pl.Series([False]).new_from_index(0, frame.height)
        return marks.scatter(list(self.rows), values=True) if self.rows else marks

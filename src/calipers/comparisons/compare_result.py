"""The result of comparing runs: differences with their evidence, and checks of both sides."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import copysign, inf
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import polars as pl

from calipers.metrics import Metric
from calipers.metrics.declare.declaration import CLUSTER, TASK
from calipers.metrics.declare.interval_methods import Wilson
from calipers.scores.options import Options
from calipers.statistics.clusters import Floats, Whole
from calipers.statistics.intervals import normal_quantile
from calipers.statistics.paired import MCNEMAR
from calipers.statistics.paired_tests import tango
from calipers.statistics.unpaired import KruskalWallis
from calipers.support.printing import Printed, Tabular, list_metric_rows
from calipers.support.strict_json import to_plain, to_plain_fields
from calipers.support.version import __version__

if TYPE_CHECKING:
    from calipers.scores.task_values import TaskRows

SCHEMA = "calipers.compare/1"
_LISTED = 100  # ids of tasks that one side lacks


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribution:
    """Where a change over all tasks comes from; the parts sum to `total`."""

    base: float
    candidate: float
    model: float
    scorer: float | None  # null where it cannot be told from the model
    tasks_removed: float
    tasks_added: float
    reason: str | None = None

    @property
    def total(self) -> float:
        """The whole change: all of the candidate's tasks against all of the base's."""
        return self.candidate - self.base

    def to_dict(self) -> dict[str, Any]:
        """Return the attribution as in JSON."""
        whole = {"base": self.base, "candidate": self.candidate, "total": self.total}
        return whole | to_plain_fields(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class ValuesByWeight:
    """The values of base and candidate when tasks count the same, and when rows do."""

    used: Literal["task", "row"]
    by_task: tuple[float, float]
    by_row: tuple[float, float]

    def to_dict(self) -> dict[str, Any]:
        """Return the values as in JSON."""
        by_task, by_row = (
            {"base": base, "candidate": candidate}
            for base, candidate in (self.by_task, self.by_row)
        )
        return {"used": self.used, "task": by_task, "row": by_row}


Answer = Literal["yes", "no", "undecided"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Margin:
    """Whether a candidate is non-inferior to its base within a margin, and whether equivalent."""

    margin: float
    noninferior: Answer | None  # null where neither more nor less of the metric is better
    equivalent: Answer

    @classmethod
    def of(
        cls, margin: float, found: MetricComparison, better: str | None, confidence: float
    ) -> Self:
        """Decide by an interval: two one-sided tests, each by one of its bounds.

        Of paired shares, Tango's score test has to agree: it keeps its level near 0 and 1.
        """
        low, high = (
            -inf if found.low is None else found.low,
            inf if found.high is None else found.high,
        )
        shares = PairedShares.of(found, better)

        def is_above(mark: float) -> bool:
            return low > mark and (shares is None or shares.is_above(mark, confidence))

        def is_below(mark: float) -> bool:
            return high < mark and (shares is None or shares.is_below(mark, confidence))

        if better == "lower":
            noninferior = _answer(yes=is_below(margin), no=is_above(margin))
        else:
            noninferior = _answer(yes=is_above(-margin), no=is_below(-margin))
        return cls(
            margin=margin,
            noninferior=None if better is None else noninferior,
            equivalent=_answer(
                yes=is_above(-margin) and is_below(margin),
                no=is_below(-margin) or is_above(margin),
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedShares:
    """How many pairs of right and wrong went up, how many down, and how many pairs there are."""

    higher: int
    lower: int
    n: int

    @classmethod
    def of(cls, found: Any, better: str | None) -> PairedShares | None:
        """Return the counts of a comparison that McNemar's test decides; None of others."""
        if found.test != MCNEMAR or found.wins is None or not found.n_pairs:
            return None
        higher, lower = found.wins, found.losses
        if better == "lower":
            higher, lower = lower, higher
        return cls(higher=higher, lower=lower, n=found.n_pairs)

    def is_above(self, mark: float, confidence: float) -> bool:
        """Say whether the difference is above a mark, by Tango's score test."""
        return self._test(mark) > normal_quantile(confidence)

    def is_below(self, mark: float, confidence: float) -> bool:
        """Say whether the difference is below a mark."""
        return self._test(mark) < -normal_quantile(confidence)

    def _test(self, mark: float) -> float:
        if abs(mark) >= 1:  # beyond which no difference lies
            return copysign(inf, -mark)
        return tango(self.higher, self.lower, self.n, mark)


def _answer(*, yes: bool, no: bool) -> Answer:
    return "yes" if yes else "no" if no else "undecided"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricComparison:
    """One metric of two runs: candidate − base, with its interval and test."""

    base: float | None
    candidate: float | None
    difference: float | None
    low: float | None = None
    high: float | None = None
    stderr: float | None = None
    interval: str | None = None
    p_value: float | None = None
    p_holm: float | None = None
    test: str | None = None
    permutation_p: float | None = None
    wins: int | None = None
    losses: int | None = None
    ties: int | None = None
    n_pairs: int | None = None
    n_base: int | None = None
    n_candidate: int | None = None
    effect: float | None = None
    effect_name: str | None = None
    effect_low: float | None = None
    effect_high: float | None = None
    rank_p: float | None = None  # of unpaired values: of their order, with Cliff's delta
    rank_test: str | None = None
    detectable: float | None = None  # the smallest difference seen with power 0.8
    reason: str | None = None
    attribution: Attribution | None = None
    weights: ValuesByWeight | None = None  # where tasks and rows give different values
    against: Margin | None = None

    def is_significant(self, confidence: float) -> bool:
        """Say whether the test, adjusted for all metrics and pairs, finds a difference."""
        return self.p_holm is not None and self.p_holm < 1 - confidence

    def to_dict(self) -> dict[str, Any]:
        """Return the contract's JSON of one metric."""
        found = to_plain_fields(self)
        against = found.pop("against") or {}
        parts = {name: found.pop(name) for name in ("attribution", "weights")}
        return found | against | {name: part for name, part in parts.items() if part is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two runs, or two groups of runs, compared on every metric that both have."""

    base: str
    candidate: str
    by: Mapping[str, Any] = field(default_factory=dict)
    n_pairs: int
    only_base: tuple[str, ...]
    only_candidate: tuple[str, ...]
    metrics: Mapping[str, MetricComparison]
    groups: tuple[Pair, ...] = ()
    slices: tuple[SliceVerdict, ...] = ()  # where there are several groups

    def to_dict(self) -> dict[str, Any]:
        """Return the contract's JSON of one comparison."""
        return {
            "base": self.base,
            "candidate": self.candidate,
            **({"by": dict(self.by)} if self.by else {}),
            "n_pairs": self.n_pairs,
            "only_base": len(self.only_base),
            "only_candidate": len(self.only_candidate),
            "only_base_ids": list(self.only_base[:_LISTED]),
            "only_candidate_ids": list(self.only_candidate[:_LISTED]),
            "metrics": to_plain(self.metrics),
            **({"groups": to_plain(self.groups)} if self.groups else {}),
            **({"slices": to_plain(self.slices)} if self.slices else {}),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceVerdict:
    """Which slices of the tasks got worse, and which better, in one metric.

    The chance that any is named without reason is at most `error_rate` (Holm, over the slices).
    """

    metric: str
    slices: int
    worse: tuple[Mapping[str, Any], ...]
    better: tuple[Mapping[str, Any], ...]
    error_rate: float
    p_adjusted: tuple[float | None, ...]  # of each slice, in their order


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared(Printed, Tabular):
    """Everything `calipers compare` found. Prints as a table, shows as HTML in a notebook."""

    pairs: tuple[Pair, ...]
    paired: bool
    confidence: float
    seed: int
    across: Mapping[str, KruskalWallis] = field(default_factory=dict)  # do any of several differ?
    flips: Mapping[str, int] = field(default_factory=dict)
    notices: tuple[str, ...] = ()
    named: tuple[str, ...] = ()  # the metrics that were asked for by name

    def to_dict(self) -> dict[str, Any]:
        """Return the contract's JSON: one pair at the top level, or a list of all pairs."""
        first = self.pairs[0].to_dict()
        several = {"pairs": to_plain(self.pairs)}
        further = {
            "across": to_plain(self.across),
            "flips": dict(self.flips),
            "notices": list(self.notices),
        }
        return {
            "schema": SCHEMA,
            "version": __version__,
            "seed": self.seed,
            "confidence": self.confidence,
            "paired": self.paired,
            **(first if len(self.pairs) == 1 else several),
            **{name: value for name, value in further.items() if value},
        }

    def _list_rows(self) -> Iterator[dict[str, Any]]:
        """Yield a row per pair, group and metric."""
        for whole in self.pairs:
            for pair in (whole, *whole.groups):
                names = {"base_name": pair.base, "candidate_name": pair.candidate, **pair.by}
                yield from list_metric_rows(names, to_plain(pair.metrics))


NO_PAIR = "no pair has the value"
TOO_LARGE = "values too large"

_LARGEST = 1e150  # squares of larger values are beyond a double
_FEWEST_RESAMPLES = 1_000


def make_null(reason: str, n_pairs: int | None = None) -> MetricComparison:
    """Return a comparison without a difference, and why."""
    return MetricComparison(
        base=None, candidate=None, difference=None, n_pairs=n_pairs, reason=reason
    )


def explain_missing(base: TaskRows, candidate: TaskRows, metric: Metric) -> str | None:
    """Return which side lacks the fields that the metric needs, or None."""
    for word, side in (("base", base), ("candidate", candidate)):
        if not side.has_fields(metric):
            return f"{word}: {metric.empty}"
    return None


def is_too_large(*samples: Floats) -> bool:
    """Say whether means, or their squares, exceed a double."""
    return not all(
        sample.min(initial=0.0) > -_LARGEST and sample.max(initial=0.0) < _LARGEST
        for sample in samples
    )


def is_binary(metric: Metric, *values: Floats) -> bool:
    """Say whether these are shares of single runs; averages over several are like other numbers."""
    a_share = isinstance(metric.interval, Wilson)
    return a_share and all(bool(np.isin(each, (0.0, 1.0)).all()) for each in values)


def list_clusters(tasks: pl.DataFrame, *sides: TaskRows) -> Whole:
    """Return the cluster of each task on the first side that has it, else one of its own."""
    found = tasks.select(TASK)
    for number, side in enumerate(sides):
        known = side.rows.group_by(TASK).agg(pl.col(CLUSTER).min().alias(f"{CLUSTER}{number}"))
        found = found.join(known, on=TASK, how="left", maintain_order="left")
    return found.select(pl.coalesce(pl.exclude(TASK), TASK)).to_series().to_numpy()


def count_resamples(options: Options, tasks: int, usual: int, cells: int) -> int:
    """Return the number asked for, else the usual one, or fewer with many tasks."""
    return max(_FEWEST_RESAMPLES, options.resamples or min(usual, cells // tasks))

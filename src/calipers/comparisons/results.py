"""The comparison: differences between runs with their evidence, nulls with reasons."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from math import inf
from typing import Any, Literal, Self

from calipers.statistics.unpaired import KruskalWallis
from calipers.support.printing import Printed
from calipers.support.quick_dataclasses import dataclass
from calipers.support.strict_json import to_plain, to_plain_fields
from calipers.support.tabular import Tabular, list_metric_rows
from calipers.support.version import __version__

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
    def of(cls, margin: float, low: float | None, high: float | None, better: str | None) -> Self:
        """Decide by an interval: two one-sided tests, each by one of its bounds."""
        low, high = -inf if low is None else low, inf if high is None else high
        worst, best = (-high, -low) if better == "lower" else (low, high)
        noninferior = _answer(yes=worst > -margin, no=best < -margin)
        return cls(
            margin=margin,
            noninferior=None if better is None else noninferior,
            equivalent=_answer(
                yes=-margin < low and high < margin, no=high < -margin or low > margin
            ),
        )


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
        }


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

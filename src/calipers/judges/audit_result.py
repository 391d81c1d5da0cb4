"""The result of an audit of judges: frozen, with a reason for every null."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from calipers.scores.result import Measured
from calipers.statistics.estimates import Estimate
from calipers.support.errors import EXIT_INCOMPLETE, EXIT_PASS
from calipers.support.printing import Printed, Tabular, list_metric_rows
from calipers.support.strict_json import to_plain, to_plain_fields
from calipers.support.version import __version__

SCHEMA = "calipers.audit/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mismatch:
    """A judgment whose score is not what its own items add up to."""

    id: str
    where: str  # file and row
    score: float
    items: float
    difference: float  # score − items


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsummed:
    """A judgment whose items give no sum, and why."""

    id: str
    where: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemsCheck:
    """The scores of a judge that equal the weighted sum of its own items."""

    checked: int
    equal: int
    unsummed: int  # judgments whose items give no sum
    without: int  # judgments that carry no items
    worst: tuple[Mismatch, ...]
    problems: tuple[Unsummed, ...]  # the first of them


class _JudgeFigures:
    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON of one judge: its fields in order, each measure as one of them."""
        flat: dict[str, Any] = {}
        for name, value in to_plain_fields(self).items():
            flat |= value if name == "measures" else {name: value}
        return flat


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeAudit(_JudgeFigures):
    """One judge: its scores and verdicts, and how far they are from those of the others."""

    judge: str
    judgments: int
    missing: int  # records that others judged and it did not
    flagged: int  # judgments of texts that seem to address the judge
    measures: Mapping[str, Measured]
    items: ItemsCheck


@dataclass(frozen=True, slots=True, kw_only=True)
class PairAgreement:
    """The agreement of two judges on the records that both judged."""

    judges: tuple[str, str]
    passed: Mapping[str, Estimate]
    weighted_score: Mapping[str, Estimate]


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgesAgreement:
    """The agreement of the judges on passed and on the weighted score, and of each pair of them."""

    passed: Mapping[str, Estimate]
    weighted_score: Mapping[str, Estimate]
    pairs: tuple[PairAgreement, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditGroup:
    """The records that share a key, and the judges of them."""

    by: Mapping[str, Any]
    records: int
    errors: int
    judged: int  # records with at least one judgment
    flagged: int  # of these, records whose text seems to speak to a judge
    clusters: int  # judged records of one cluster are one observation to every interval
    judges: tuple[JudgeAudit, ...]
    agreement: JudgesAgreement

    @property
    def judgments(self) -> int:
        """The number of all of them."""
        return sum(judge.judgments for judge in self.judges)

    @property
    def items_checked(self) -> int:
        """Return how many judgments have a score that was compared with their own items."""
        return sum(judge.items.checked for judge in self.judges)

    @property
    def items_equal(self) -> int:
        """Those whose score is what their items add up to."""
        return sum(judge.items.equal for judge in self.judges)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON of one group."""
        parts = to_plain_fields(self)
        last = {name: parts.pop(name) for name in ("judges", "agreement")}
        items = {"checked": self.items_checked, "equal": self.items_equal}
        return {**parts, "judgments": self.judgments, "items": items, **last}


@dataclass(frozen=True, slots=True, kw_only=True)
class PreferenceAudit(_JudgeFigures):
    """One judge of pairs: its consistency, and its bias by position, length and own model."""

    judge: str
    pairs: int
    failed: int  # without a winner: a judgment failed, or nobody was asked
    measures: Mapping[str, Measured]
    by_length: Mapping[str, Measured]  # the longer answer's share of wins, by how much longer


@dataclass(frozen=True, slots=True, kw_only=True)
class PreferenceGroup:
    """The pairs that share a key, and the judges of them."""

    by: Mapping[str, Any]
    systems: tuple[str, ...]
    tasks: int
    judges: tuple[PreferenceAudit, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeDrift:
    """One judge in two runs on the same answers: how its judgments differ, now − before."""

    judge: str
    on: str  # weighted_score, overall_score, passed or preference
    n: int
    differing: int  # judgments that are not what they were
    changed: Literal["yes", "not shown"]
    why: str
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    p_value: float | None = None
    p_adjusted: float | None = None  # for all judges (Holm)
    test: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit(Printed, Tabular):
    """An audit of judges: bias, agreement, drift. Prints as tables, shows as HTML in a notebook."""

    groups: tuple[AuditGroup, ...]
    confidence: float
    seed: int
    notices: tuple[str, ...] = ()
    preferences: tuple[PreferenceGroup, ...] = ()  # of answers compared in pairs
    drift: tuple[JudgeDrift, ...] = ()  # against an earlier run on the same answers

    @property
    def records(self) -> int:
        """The number of records that were read."""
        return sum(group.records for group in self.groups) + self._pairs

    @property
    def judged(self) -> int:
        """The number of records with a judgment."""
        return sum(group.judged for group in self.groups) + self._pairs

    @property
    def _pairs(self) -> int:
        return sum(judge.pairs for group in self.preferences for judge in group.judges)

    @property
    def exit_code(self) -> int:
        """What the command line gives back: 3 when there was no judgment to audit."""
        return EXIT_PASS if self.judged else EXIT_INCOMPLETE

    def to_dict(self) -> dict[str, Any]:
        """Return the contract's JSON, as Python values."""
        if_any = {"preferences": self.preferences, "drift": self.drift, "notices": self.notices}
        return {
            "schema": SCHEMA,
            "version": __version__,
            "seed": self.seed,
            "confidence": self.confidence,
            "groups": to_plain(self.groups),
            **{name: to_plain(part) for name, part in if_any.items() if part},
        }

    def _list_rows(self) -> Iterator[dict[str, Any]]:
        groups: tuple[AuditGroup | PreferenceGroup, ...] = (*self.groups, *self.preferences)
        for group in groups:
            for judge in group.judges:
                by = {**group.by, "judge": judge.judge}
                yield from list_metric_rows(by, to_plain(judge.measures))

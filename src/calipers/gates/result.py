"""The result of a gate: its checks, each with a verdict and its reason, and the whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from typing import Any, Literal

from calipers.gates.policy_values import Risk
from calipers.gates.undecided import Undecided
from calipers.gates.verdicts import Evidence, Verdict
from calipers.metrics.thresholds import Scale, Threshold
from calipers.scores.results import Input
from calipers.support.errors import EXIT_FAILED, EXIT_INCOMPLETE, EXIT_PASS
from calipers.support.printing import Printed
from calipers.support.quick_dataclasses import dataclass
from calipers.support.strict_json import to_finite
from calipers.support.tabular import Tabular, keep_scalars
from calipers.support.version import __version__

SCHEMA = "calipers.gate/1"
LISTED = 100  # ids of scenarios in a list
CHANGED = ("added", "removed", "broken", "mended")

Level = Literal["blocking", "warning", "required", "category", "composite", "baseline"]
GateVerdict = Literal["pass", "fail", "inconclusive", "incomplete"]
By = tuple[tuple[str, Any], ...]

_EXIT_CODES: dict[GateVerdict, int] = {
    "pass": EXIT_PASS,
    "fail": EXIT_FAILED,
    "inconclusive": EXIT_FAILED,
    "incomplete": EXIT_INCOMPLETE,
}


@dataclass(frozen=True, slots=True)
class Ids:
    """Some scenarios: how many, and the ids of the first."""

    count: int = 0
    first: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {"count": self.count, "ids": list(self.first)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What is certain about one check: the confidence sequence of its mean, and any verdict."""

    name: str
    decided: Literal["pass", "fail"] | None
    tasks: int  # finished without a gap in the order drawn
    of: int
    low: float | None = None
    high: float | None = None
    after: int | None = None  # the number of tasks after which it was decided
    within: str | None = None  # of a quantile: the bounds are of the share of rows in it
    why_not: str | None = None  # why it cannot be decided before the end

    @property
    def is_all_seen(self) -> bool:
        """Say whether no further call can change it."""
        return self.why_not is None and self.tasks == self.of

    def to_dict(self) -> dict[str, Any]:
        """Return it as gate.json has it."""
        further = {"after": self.after, "within": self.within, "why_not": self.why_not}
        return {
            "decided": self.decided,
            "low": self.low,
            "high": self.high,
            "tasks": self.tasks,
            "of": self.of,
            **{key: value for key, value in further.items() if value is not None},
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Early:
    """A run that may end as soon as its gate is decided, and the state it ended in."""

    stopped: bool  # before all calls were made
    made: int
    planned: int
    seed: int  # of the order of the tasks
    alpha: float
    shared_by: int  # checks, each with an equal part of alpha
    # Of each group, the checks that block, in the policy's order.
    standings: Mapping[By, tuple[Standing, ...]] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return it as gate.json has it; each check holds its own standing."""
        return {
            "stopped": self.stopped,
            "calls": {"made": self.made, "planned": self.planned},
            "seed": self.seed,
            "alpha": self.alpha,
            "shared_by": self.shared_by,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One requirement of the policy, and its verdict."""

    name: str
    level: Level
    source: str  # where in the policy it stands: thresholds.blocking, baseline, …
    verdict: Verdict
    value: float | None = None
    low: float | None = None
    high: float | None = None
    threshold: Threshold | None = None
    reason: str | None = None
    n: int = 0  # rows, or tasks, behind the value
    missing: int = 0  # rows without one
    # Of these, those that must not be left out silently.
    undecided: Undecided = field(default_factory=Undecided)
    by: Mapping[str, Any] = field(default_factory=dict)
    risk: Risk | None = None
    description: str | None = None
    ran: bool = True  # or nothing was measured
    thin: bool = False  # the interval includes the threshold
    further_scenarios: int | None = None  # that would decide it, if the value stays the same
    further_range: tuple[int, int | None] | None = None  # the fewest and, if known, the most
    failing: Ids = Ids()
    sequence: Standing | None = None  # in a run that may end as soon as it is decided
    evidence: tuple[Mapping[str, Any], ...] = ()  # who judged, and by what licence
    change: Mapping[str, Any] | None = None  # of a baseline: how far it moved, and how sure
    flagged: int = 0  # judged answers behind it that seem to address the judge

    @property
    def scale(self) -> Scale | None:
        """Return the scale of its numbers."""
        return None if self.threshold is None else self.threshold.scale

    @property
    def label(self) -> str:
        """Return what a table says of its rule, after the level."""
        from calipers.gates.rules import label_of  # noqa: PLC0415 (rules are made of checks)

        return label_of(self.source)

    @property
    def blocks(self) -> bool:
        """Say whether it keeps the gate from passing."""
        return self.level != "warning" and self.verdict in ("fail", "inconclusive")

    def add_reason(self, said: str, **changes: Any) -> Check:
        """Return the check with one more reason, and with changes."""
        reason = said if self.reason is None else f"{self.reason}; {said}"
        return replace(self, reason=reason, **changes)

    def to_dict(self) -> dict[str, Any]:
        """Return the contract's JSON of one check, and what else is known."""
        threshold = self.threshold
        further = {
            "operator": None if threshold is None else threshold.operator,
            "source": self.source,
            "by": dict(self.by) or None,
            "risk": self.risk,
            "description": self.description,
            "thin": self.thin or None,
            "further_scenarios": self.further_scenarios,
            "further_range": self.further_range and list(self.further_range),
            "undecided": self.undecided.count or None,
            "failing": self.failing.to_dict() if self.failing.count else None,
            "sequence": None if self.sequence is None else self.sequence.to_dict(),
            "evidence": [dict(each) for each in self.evidence] or None,
            "change": None if self.change is None else dict(self.change),
            "flagged": self.flagged or None,
        }
        return {
            "name": self.name,
            "level": self.level,
            "value": to_finite(self.value),
            "low": to_finite(self.low),
            "high": to_finite(self.high),
            "threshold": None if threshold is None else threshold.value,
            "verdict": self.verdict,
            "reason": self.reason,
            "n": self.n,
            "missing": self.missing,
            **{key: value for key, value in further.items() if value is not None},
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """How the scenarios differ from those of the baseline."""

    by: Mapping[str, Any] = field(default_factory=dict)
    added: Ids = Ids()
    removed: Ids = Ids()
    broken: Ids = Ids()  # passed then, not now
    mended: Ids = Ids()

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        by = {"by": dict(self.by)} if self.by else {}
        return {**by, **{name: getattr(self, name).to_dict() for name in CHANGED}}


@dataclass(frozen=True, slots=True, kw_only=True)
class GateResult(Printed, Tabular):
    """Everything `calipers gate` decided. Prints as a table, shows as HTML in a notebook."""

    verdict: GateVerdict
    checks: tuple[Check, ...]
    records: int
    errors: int
    incomplete: tuple[str, ...]  # why the run is
    evidence: Evidence
    confidence: float
    policy: str
    inputs: tuple[Input, ...] = ()
    release: str | None = None
    changes: tuple[Changes, ...] = ()
    notices: tuple[str, ...] = ()
    seed: int = 0
    early: Early | None = None
    flagged: int = 0  # judged records that seem to address the judge

    @property
    def exit_code(self) -> int:
        """0 pass, 1 failed or inconclusive, 3 incomplete or empty."""
        return _EXIT_CODES[self.verdict]

    @property
    def passed(self) -> bool:
        """Say whether the build may go on."""
        return self.verdict == "pass"

    def to_dict(self) -> dict[str, Any]:
        """Return the contract's JSON, as Python values."""
        further = {
            "release": self.release,
            "changes": [each.to_dict() for each in self.changes] or None,
            "notices": list(self.notices) or None,
            "flagged": self.flagged or None,
            "until_decided": None if self.early is None else self.early.to_dict(),
        }
        return {
            "schema": SCHEMA,
            "version": __version__,
            "seed": self.seed,
            "verdict": self.verdict,
            "records": self.records,
            "errors": self.errors,
            "incomplete": list(self.incomplete),
            "evidence": self.evidence,
            "confidence": self.confidence,
            "policy": self.policy,
            "inputs": [each.to_dict() for each in self.inputs],
            "checks": [check.to_dict() for check in self.checks],
            **{key: value for key, value in further.items() if value is not None},
        }

    def _list_rows(self) -> Iterator[dict[str, Any]]:
        for check in self.checks:
            yield {**check.by, **keep_scalars(check.to_dict())}


def combine_verdicts(checks: tuple[Check, ...], *, complete: bool) -> GateVerdict:
    """Return the verdict: a failed check outranks an incomplete run, which outranks doubt."""
    blocking = {check.verdict for check in checks if check.blocks}
    if "fail" in blocking:
        return "fail"
    if not complete:
        return "incomplete"
    return "inconclusive" if "inconclusive" in blocking else "pass"

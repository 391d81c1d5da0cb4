"""The result of a gate: its checks, each with a verdict and the reason, and the overall verdict.

`GateResult.to_dict` gives the JSON of `gate.json`; `read_gate` reads it back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from calipers.gates.policy_fields import Risk, share_scale
from calipers.gates.threshold_test import Evidence, Verdict
from calipers.gates.undecided import Undecided
from calipers.metrics import metric_named
from calipers.metrics.thresholds import Scale, Threshold, read_scale
from calipers.scores.result import Input
from calipers.support.errors import EXIT_FAILED, EXIT_INCOMPLETE, EXIT_PASS, UsageError
from calipers.support.printing import Printed, Tabular, keep_scalars
from calipers.support.strict_json import restore, restore_number, to_finite
from calipers.support.version import __version__

SCHEMA = "calipers.gate/1"
LISTED = 100  # ids of scenarios in a list
CHANGED = ("added", "removed", "broken", "mended")
SABOTAGED = ("category", "system", "scenario", "field")  # what a trial may be about

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
        """Return True if no further call can change it."""
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
    formula: str | None = None  # of a composite of the user's own
    rests_on: tuple[str, ...] = ()  # whose word decided it: metrics/provenance.py

    @property
    def scale(self) -> Scale | None:
        """Return the scale of its numbers."""
        return None if self.threshold is None else self.threshold.scale

    @property
    def label(self) -> str:
        """Return what a table says of its rule, after the level."""
        from calipers.gates.rules import get_label  # noqa: PLC0415 (rules are made of checks)

        return get_label(self.source)

    @property
    def blocks(self) -> bool:
        """Return True if it keeps the gate from passing."""
        return self.level != "warning" and self.verdict in ("fail", "inconclusive")

    def add_reason(self, further: str, **changes: Any) -> Check:
        """Return the check with one more reason, and with changes."""
        reason = further if self.reason is None else f"{self.reason}; {further}"
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
            "evidence": [dict(evidence) for evidence in self.evidence] or None,
            "change": None if self.change is None else dict(self.change),
            "flagged": self.flagged or None,
            "formula": self.formula,
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
            "rests_on": list(self.rests_on),
            **{key: value for key, value in further.items() if value is not None},
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """The scenarios that are new, gone, broken or fixed since the baseline."""

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
class Trial:
    """One dose of sabotage: records broken on purpose, and what the gate decides on them."""

    name: str  # of the kind, and where it was applied: `flip answers in adversarial`
    kind: str
    what: str  # happens to the records, in words
    of: Mapping[str, Any] = field(default_factory=dict)  # one of SABOTAGED, or some
    dose: float  # a share of the rows that can be broken; of `unit` times and copies, a factor
    unit: Literal["share", "times", "copies"] = "share"
    rows: int  # that were broken
    points: float | None = None  # by which a rate falls, in percent
    verdict: GateVerdict
    warned: bool = False  # a check warns that did not
    reason: str | None = None

    @property
    def caught(self) -> bool:
        """Return True if the gate does not let it pass."""
        return self.verdict != "pass"

    def to_dict(self) -> dict[str, Any]:
        """Return the contract's JSON of one dose, and what else is known."""
        further = {"points": self.points, "warned": self.warned or None, "reason": self.reason}
        return {
            "name": self.name,
            "dose": self.dose,
            "verdict": self.verdict,
            "caught": self.caught,
            "kind": self.kind,
            "what": self.what,
            **self.of,
            "unit": self.unit,
            "rows": self.rows,
            **{key: value for key, value in further.items() if value is not None},
        }


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
    sabotage: tuple[Trial, ...] | None = None  # what was tried to prove that it can turn red

    @property
    def exit_code(self) -> int:
        """0 pass, 1 failed or inconclusive, 3 incomplete or empty."""
        return _EXIT_CODES[self.verdict]

    @property
    def passed(self) -> bool:
        """Return True if the build may go on."""
        return self.verdict == "pass"

    def to_dict(self) -> dict[str, Any]:
        """Return the contract's JSON, as Python values."""
        further = {
            "release": self.release,
            "changes": [change.to_dict() for change in self.changes] or None,
            "notices": list(self.notices) or None,
            "flagged": self.flagged or None,
            "until_decided": None if self.early is None else self.early.to_dict(),
            "sabotage": None if self.sabotage is None else [t.to_dict() for t in self.sabotage],
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
            "inputs": [source.to_dict() for source in self.inputs],
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


Json = Mapping[str, Any]


def read_gate(stored: Json | None) -> GateResult | None:
    """Return the verdict in a parsed `gate.json`; None where it is none, or of another version."""
    if stored is None or stored.get("schema") != SCHEMA:
        return None
    return restore(GateResult, stored, _read_fields)


def _read_fields(stored: Json) -> Json:
    early, trials = stored.get("until_decided"), stored.get("sabotage")
    return {
        **stored,
        "checks": [_read_check(check) for check in stored["checks"]],
        "changes": [
            {**change, **{name: _read_ids(change[name]) for name in CHANGED}}
            for change in stored.get("changes", ())
        ],
        "early": None if early is None else {**early, **early["calls"]},
        "sabotage": None if trials is None else [_read_trial(trial) for trial in trials],
    }


def _read_trial(stored: Json) -> Json:
    return {**stored, "of": {name: stored[name] for name in SABOTAGED if name in stored}}


def _read_check(stored: Json) -> Json:
    about = stored.get("n", 0) + stored.get("missing", 0)
    sequence = stored.get("sequence")
    return {
        "source": "",
        **stored,
        **{name: restore_number(stored[name]) for name in ("value", "low", "high")},
        "threshold": None if stored["threshold"] is None else _read_threshold(stored),
        "undecided": {"count": stored.get("undecided", 0), "of": about},
        "failing": _read_ids(stored.get("failing")),
        "sequence": None if sequence is None else {**sequence, "name": stored["name"]},
    }


def _read_threshold(stored: Json) -> Json:
    """Return the requirement; a name that is not a metric is that of a share, as a category's."""
    if (formula := stored.get("formula")) is not None:
        from calipers.gates.rules.composite_rule import read_scale_again  # noqa: PLC0415 (see label)

        scale = read_scale_again(stored["name"], formula)
    else:
        try:
            scale = read_scale(metric_named(stored["name"]))
        except UsageError:
            scale = share_scale(stored["name"])
    return {"operator": stored["operator"], "value": stored["threshold"], "scale": asdict(scale)}


def _read_ids(stored: Json | None) -> Json:
    return {} if stored is None else {"count": stored["count"], "first": stored["ids"]}

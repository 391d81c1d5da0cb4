"""Single scenarios, named by id, that have to be present and to pass in all their runs.

`required_scenarios` block; `optional_scenarios` count in the scores, and their failure only warns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import polars as pl
from pydantic import Field, PlainValidator

from calipers.gates.policy_fields import PASS_RATE, Description, SchemaOf, share_scale
from calipers.gates.result import Check, Ids, Level
from calipers.gates.rule_kind import Given, MeasuredRun, RuleChecker, RuleKind
from calipers.gates.sequential_checks import Demand, PlannedGroup
from calipers.gates.undecided import Undecided
from calipers.metrics.families.answers import correct
from calipers.metrics.families.scenarios import passed
from calipers.metrics.provenance import PASSED
from calipers.metrics.thresholds import Threshold
from calipers.support.config import shown
from calipers.support.strict_model import StrictModel, refuse

if TYPE_CHECKING:
    from calipers.gates.policy import Policy
    from calipers.gates.scenario_group import ScenarioRuns

_METRICS = (PASS_RATE, "accuracy")  # a right answer stands in for a verdict


def _read_ids(ids: Any) -> tuple[str, ...]:
    """Return the ids of scenarios; a whole number is read as its text, as in records."""
    if not isinstance(ids, list | tuple):
        refuse(f"{shown(ids)} is not a list", fix='for example ["SEC-001", "SEC-002"]')
    for at, given in enumerate(ids):
        if isinstance(given, bool) or not isinstance(given, str | int):
            refuse(f"{shown(given)!r} is not an id", fix="put it in quotes", at=(at,))
    return tuple(dict.fromkeys(str(given) for given in ids))


ScenarioIds = Annotated[
    tuple[str, ...],
    PlainValidator(_read_ids),
    SchemaOf(lambda: {"type": "array", "items": {"type": ["string", "integer"]}}),
]


class NamedScenarios(RuleKind, StrictModel):
    """Scenarios by id."""

    description: Description = None
    ids: ScenarioIds = Field(default_factory=tuple, description="Ids of the scenarios.")

    @property
    def decides(self) -> bool:
        return bool(self.ids)

    @property
    def scenarios(self) -> tuple[str, ...]:
        return self.ids

    def list_metrics(self, _given: Given) -> Iterable[str]:
        return _METRICS if self.ids else ()

    def list_judged_values(self, check: Check, judge: RuleChecker) -> tuple[str, ...]:
        """Return the verdicts of judges, where they decided runs of the scenario."""
        runs = judge.run.named.get(check.name)
        return (PASSED,) if runs is not None and runs.by_judges else ()

    def count_flagged(self, check: Check, judge: RuleChecker) -> int:
        """Return how many runs of the scenario judges decided whose text seems to address them."""
        runs = judge.run.named.get(check.name)
        return 0 if runs is None else runs.flagged

    def check_scenario(self, scenario: str, run: MeasuredRun, level: Level) -> Check:
        """Return whether a scenario is there and passed in all its runs."""
        runs = run.named.get(scenario)
        missed, value = _describe_outcome(runs)
        known = 0 if runs is None else runs.passed + runs.failed
        return Check(
            name=scenario,
            level=level,
            source=self.key,
            verdict="pass" if missed is None else "warn" if level == "warning" else "fail",
            value=value,
            threshold=_require_all(scenario),
            reason=missed,
            n=known,
            missing=0 if runs is None else runs.runs - known,
            by=run.group.by,
            ran=value is not None,
        )


class RequiredScenarios(NamedScenarios):
    """Scenarios by id that have to pass in all their runs."""

    key: ClassVar[str] = "required_scenarios"

    def list_checks(self, judge: RuleChecker) -> Iterator[Check]:
        """Yield a check per scenario, with the runs that expectations or judges left undecided."""
        for scenario in self.ids:
            check = self.check_scenario(scenario, judge.run, "required")
            runs = judge.run.named.get(scenario)
            if runs is not None and judge.run.policy.undecided != "ignore":
                undecided = Undecided(runs.lacking, runs.runs - runs.errors)
                check = replace(check, undecided=undecided)
            failed = check.verdict != "pass"
            yield replace(check, failing=Ids(1, (scenario,))) if failed else check

    def list_demands(self, _ahead: PlannedGroup) -> Iterator[Demand]:
        """Yield each scenario, all of whose runs have to pass."""
        for scenario in self.ids:
            outcome = pl.coalesce(passed.name, correct.name).fill_null(value=False)
            yield Demand(
                name=scenario,
                on=_require_all(scenario),
                value=outcome.cast(pl.Float64),
                metrics=_METRICS,
                scenario=scenario,
            )


class OptionalScenarios(NamedScenarios):
    """Scenarios by id whose failure warns and never blocks."""

    key: ClassVar[str] = "optional_scenarios"
    label: ClassVar[str] = " (optional)"
    only_warns: ClassVar[bool] = True

    def check_beside(self, policy: Policy) -> None:
        """Refuse scenarios that a rule that blocks names too."""
        required = {
            scenario for rule in policy.rules if not rule.only_warns for scenario in rule.scenarios
        }
        for at, id_ in enumerate(self.ids):
            if id_ in required:
                refuse(
                    f"{shown(id_)} is required and optional at once",
                    fix="keep it in one of required_scenarios and optional_scenarios",
                    at=(self.key, "ids", at),
                )

    def list_checks(self, judge: RuleChecker) -> Iterator[Check]:
        """Yield a check per scenario, which warns unless it passed in all its runs."""
        for scenario in self.ids:
            yield self.check_scenario(scenario, judge.run, "warning")

    def list_demands(self, _ahead: PlannedGroup) -> Iterator[Demand]:
        """Yield nothing: none of it blocks."""
        yield from ()


def _require_all(scenario: str) -> Threshold:
    return Threshold(operator="=", value=1.0, scale=share_scale(scenario))


def _describe_outcome(runs: ScenarioRuns | None) -> tuple[str | None, float | None]:
    """Return why it did not pass in all its runs, and the share of its runs that passed."""
    if runs is None:
        return "not among the records", None
    ran = runs.runs - runs.errors
    unknown = ran - runs.passed - runs.failed
    counts = {"failed": runs.failed, "did not run": runs.errors, "gave no verdict": unknown}
    if runs.runs == 1:
        outcomes = [f"it {what}" for what, count in counts.items() if count]
    else:
        outcomes = [
            f"{count} of {runs.runs} runs {what}" for what, count in counts.items() if count
        ]
    return " and ".join(outcomes) or None, runs.passed / ran if ran else None

"""The policy file of a gate: the JSON shapes of specification S, and further keys of our own.

Each kind of rule declares its own key; this file holds the keys that apply to all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal, Self, TypeVar

from pydantic import Field, create_model, model_validator

from calipers.gates import rules
from calipers.gates.baselines import RecordedGroup
from calipers.gates.demands import Ahead, Demand
from calipers.gates.policy_fields import Description, WeightTable
from calipers.gates.rule_check import Given
from calipers.gates.rules.kind import RuleKind
from calipers.metrics.checks.checks import Checks
from calipers.metrics.checks.written import WrittenChecks, resolve_from
from calipers.metrics.in_files import OwnMetric, declare_metrics
from calipers.scores.choices import locate
from calipers.scores.settings_block import MetricSettings
from calipers.support.arguments import require_type
from calipers.support.config.files import ConfigFile, read_config
from calipers.support.config.models import StrictModel, refuse

EXAMPLE = "for example thresholds: {blocking: {accuracy: 90}}; calipers init writes a whole one"

Kind = TypeVar("Kind", bound=RuleKind)


class Weights(StrictModel):
    """Weights of scenarios in `weighted_pass_rate`; 1 for those not named."""

    description: Description = None
    by_category: WeightTable = Field(
        default_factory=dict, description="Weights by category: {adversarial: 2}."
    )
    by_capability: WeightTable = Field(
        default_factory=dict, description="Weights by capability, multiplied with the former."
    )


class Judges(StrictModel):
    """What a judge needs before its verdict may block a build."""

    description: Description = None
    calibrations: list[str] = Field(
        default_factory=list,
        description="Files of `calipers judge calibrate`, relative to the policy.",
    )
    floor: float = Field(
        default=0.6,
        ge=0,
        lt=1,
        allow_inf_nan=False,
        description="Required lower bound of κ, the agreement with people beyond chance.",
    )
    uncalibrated: Literal["fail", "warn"] = Field(
        default="fail", description="Verdict of a blocking check on a judge without a licence."
    )
    flagged: Literal["warn", "fail", "ignore"] = Field(
        default="warn",
        description="Effect on a check of judged texts that seem to address the judge.",
    )
    people: list[str] = Field(
        default_factory=list, description="Names of judges in the records who are people."
    )
    corrected: bool = Field(
        default=False,
        description="Decide on judged means that are corrected for the judge's error.",
    )


class Policy(StrictModel):
    """Everything a gate can be asked to decide on."""

    description: Description = None
    weights: Weights = Field(default_factory=Weights)
    evidence: Literal["point", "interval"] = Field(
        default="point",
        description="Decide on the value, or only if its whole interval is on one side.",
    )
    on_inconclusive: Literal["fail", "warn", "pass"] = Field(
        default="fail",
        description="With evidence: interval, what an inconclusive check means for the build.",
    )
    undecided: Literal["incomplete", "ignore"] = Field(
        default="incomplete",
        description="With undecided scenarios, or failed or missing judgments, under a blocking "
        "check: the gate is incomplete, or they are left out.",
    )
    judges: Judges = Field(default_factory=Judges)
    own_metrics: list[OwnMetric] = Field(
        default_factory=list, alias="metrics", description="User-defined metrics, by name."
    )
    checks: WrittenChecks = Field(
        default_factory=tuple, description="Checks of the replies, applied before measuring."
    )
    latency_budget_ms: float | None = Field(
        default=None,
        gt=0,
        allow_inf_nan=False,
        description="The budget that normalized_latency is divided by; by default 5,000 ms.",
    )
    metric_settings: MetricSettings = Field(default_factory=dict)

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        if self.latency_budget_ms is not None and "latency_budget_ms" in self.metric_settings:
            refuse(
                "latency_budget is there, and latency_budget_ms beside metric_settings",
                fix="keep one of the two",
                at=("metric_settings", "latency_budget"),
            )
        for rule in self.written:
            rule.check_beside(self)
        return self

    @property
    def written(self) -> tuple[RuleKind, ...]:
        """Return the rules that stand in the policy, in the order of their checks."""
        found = (getattr(self, kind.key, None) for kind in rules.KINDS)
        return tuple(rule for rule in found if rule is not None)

    @property
    def rules(self) -> tuple[RuleKind, ...]:
        """Return the rules that hold: those written, and those that an option may ask for."""
        found = (getattr(self, kind.key, None) or kind.make_default() for kind in rules.KINDS)
        return tuple(rule for rule in found if rule is not None)

    def find(self, kind: type[Kind]) -> Kind | None:
        """Return the rule of a kind, if one is written."""
        return next((rule for rule in self.written if isinstance(rule, kind)), None)

    def list_settings(self) -> dict[str, Any]:
        """Return its metric settings, weights and latency budget included."""
        found = dict(self.metric_settings)
        weights = self.weights.model_dump(include={"by_category", "by_capability"})
        if any(weights.values()):
            found["case_weights"] = weights
        if self.latency_budget_ms is not None:
            found["latency_budget_ms"] = self.latency_budget_ms
        if self.checks:
            found["checks"] = Checks(tuple(self.checks))
        return found

    @property
    def decides(self) -> bool:
        """Say whether it checks anything: weights alone do not."""
        return any(rule.decides for rule in self.written)

    @property
    def scenarios(self) -> tuple[str, ...]:
        """Return the ids of the scenarios that rules are about one by one."""
        return tuple(each for rule in self.rules for each in rule.scenarios)

    @property
    def optional(self) -> tuple[str, ...]:
        """Return the ids of those that no blocking rule names."""
        return tuple(each for rule in self.rules if rule.only_warns for each in rule.scenarios)

    def list_metrics(self, given: Given) -> tuple[str, ...]:
        """Return every metric that has to be measured for its checks."""
        return tuple(
            dict.fromkeys(each for rule in self.rules for each in rule.list_metrics(given))
        )

    def list_demands(self, before: RecordedGroup | None) -> Iterator[Demand]:
        """Yield what decides each check that blocks, in the order of the checks."""
        ahead = Ahead(before=before, corrected=self.judges.corrected)
        for rule in self.rules:
            yield from rule.list_demands(ahead)


def make_model() -> type[Policy]:
    """Return the model of a policy file, with a key per kind of rule."""
    return _make_model(tuple(rules.KINDS))


@cache
def _make_model(kinds: tuple[type[RuleKind], ...]) -> type[Policy]:
    fields: dict[str, Any] = {kind.key: kind.as_field() for kind in kinds}
    return create_model("Policy", __base__=Policy, __doc__=Policy.__doc__, **fields)


def read_policy(policy: str | Path | Mapping[str, Any] | Policy) -> Policy:
    """Return a policy from a YAML or JSON file, or from the same as a mapping."""
    if isinstance(policy, Policy):
        return policy
    if isinstance(policy, Mapping):
        return _read_policy(ConfigFile("policy", policy), Path())
    require_type(
        f"policy={policy!r}", policy, str | Path, expected="a file or a mapping", fix=EXAMPLE
    )
    folder = Path(policy).parent
    with resolve_from(folder):
        found = _read_policy(read_config(policy, example=EXAMPLE), folder)
    files = [str(folder / each) for each in found.judges.calibrations]
    judges = found.judges.model_copy(update={"calibrations": files})
    settings = locate(found.metric_settings, folder)
    moved = {rule.key: rule.move_to(folder) for rule in found.written}
    return found.model_copy(update={"judges": judges, "metric_settings": settings, **moved})


def _read_policy(config: ConfigFile, folder: Path) -> Policy:
    """Return the policy; its own metrics are known before thresholds name them."""
    declare_metrics(config, folder)
    return make_model().of(config, example=EXAMPLE)

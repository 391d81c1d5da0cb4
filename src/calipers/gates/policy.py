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
from calipers.gates.policy_fields import PASS_RATE, Description, Tolerances, WeightTable
from calipers.gates.rule_kind import Given, RuleKind
from calipers.gates.sequential_checks import Demand, PlannedGroup
from calipers.metrics.checks.checks import Checks
from calipers.metrics.config_fields import OwnMetric, WrittenChecks, declare_metrics, resolve_from
from calipers.scores.resolve_options import locate_paths
from calipers.scores.settings_block import MetricSettings
from calipers.support.config import ConfigFile, read_config
from calipers.support.options import require_type
from calipers.support.strict_model import StrictModel, refuse

EXAMPLE = "for example thresholds: {blocking: {accuracy: 90}}; calipers init writes a whole one"

_WEIGHTED = "weighted_pass_rate"
_TENTH = 0.1  # of the records that should have a value: a check that lacks more does not pass

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
    evidence: Literal["point", "interval", "guarantee"] = Field(
        default="point",
        description="Decide on the value, or only if its whole interval is on one side; the "
        "interval of guarantee holds for any shape of the values.",
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
    weight: Literal["row", "task"] = Field(
        default="row",
        description="What counts the same in a mean: every row, or every task; --weight overrides "
        "it.",
    )
    missing: Tolerances = Field(
        default_factory=dict,
        description="By metric, the share of records without a value that a blocking check "
        "accepts, of those that should have one; by default 10%.",
    )
    stated: Literal["incomplete", "ignore"] = Field(
        default="incomplete",
        description="Where a log states another value of a metric under a blocking check than is "
        "measured: the gate is incomplete, or that is only a notice.",
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

    @model_validator(mode="before")
    @classmethod
    def _take_weight(cls, written: Any) -> Any:
        """Take `weight` out of `metric_settings`, where one may look for an option of `score`."""
        settings = written.get("metric_settings") if isinstance(written, Mapping) else None
        if not isinstance(settings, Mapping) or "weight" not in settings:
            return written
        others = {key: value for key, value in settings.items() if key != "weight"}
        return {"weight": settings["weight"], **written, "metric_settings": others}

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
        written = (getattr(self, kind.key, None) for kind in rules.KINDS)
        return tuple(rule for rule in written if rule is not None)

    @property
    def rules(self) -> tuple[RuleKind, ...]:
        """Return the rules that hold: those written, and those that an option may ask for.

        A key that is written as null, `baseline: null`, has no rule, whatever an option asks for.
        """
        all_rules = (
            getattr(self, kind.key) if kind.key in self.model_fields_set else kind.make_default()
            for kind in rules.KINDS
        )
        return tuple(rule for rule in all_rules if rule is not None)

    def find(self, kind: type[Kind]) -> Kind | None:
        """Return the rule of a kind, if one is written."""
        return next((rule for rule in self.written if isinstance(rule, kind)), None)

    def list_settings(self) -> dict[str, Any]:
        """Return its metric settings, weights and latency budget included."""
        settings = dict(self.metric_settings)
        weights = self.weights.model_dump(include={"by_category", "by_capability"})
        if any(weights.values()):
            settings["case_weights"] = weights
        if self.latency_budget_ms is not None:
            settings["latency_budget_ms"] = self.latency_budget_ms
        if self.checks:
            settings["checks"] = Checks(tuple(self.checks))
        return settings

    @property
    def decides(self) -> bool:
        """Return True if it checks anything: weights alone do not."""
        return any(rule.decides for rule in self.written)

    @property
    def scenarios(self) -> tuple[str, ...]:
        """Return the ids of the scenarios that rules are about one by one."""
        return tuple(scenario for rule in self.rules for scenario in rule.scenarios)

    @property
    def optional(self) -> tuple[str, ...]:
        """Return the ids of those that no blocking rule names."""
        return tuple(
            scenario for rule in self.rules if rule.only_warns for scenario in rule.scenarios
        )

    def list_categories(self, given: Given) -> frozenset[str]:
        """Return the categories that blocking rules are about, and those with weights in one."""
        named = {name for rule in self.rules for name in rule.list_categories(given)}
        blocking = {name for rule in self.rules for name in rule.list_blocking(given)}
        return frozenset(named.union(self.weights.by_category if _WEIGHTED in blocking else ()))

    def covers_all(self, given: Given) -> bool:
        """Return True if a blocking rule is about passing in all categories."""
        return any({PASS_RATE, _WEIGHTED} & {*rule.list_blocking(given)} for rule in self.rules)

    def find_tolerance(self, *names: str | None) -> float:
        """Return the share of records without a value that a metric, or a part of one, accepts."""
        known = (self.missing[name] for name in names if name is not None and name in self.missing)
        return max(known, default=_TENTH)

    def list_metrics(self, given: Given) -> tuple[str, ...]:
        """Return every metric that has to be measured for its checks."""
        return tuple(
            dict.fromkeys(metric for rule in self.rules for metric in rule.list_metrics(given))
        )

    def list_demands(self, before: RecordedGroup | None) -> Iterator[Demand]:
        """Yield what decides each check that blocks, in the order of the checks."""
        ahead = PlannedGroup(before=before, corrected=self.judges.corrected)
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
        own = _read_policy(read_config(policy, example=EXAMPLE), folder)
    files = [str(folder / name) for name in own.judges.calibrations]
    judges = own.judges.model_copy(update={"calibrations": files})
    settings = locate_paths(own.metric_settings, folder)
    moved = {rule.key: rule.move_to(folder) for rule in own.written}
    return own.model_copy(update={"judges": judges, "metric_settings": settings, **moved})


def _read_policy(config: ConfigFile, folder: Path) -> Policy:
    """Return the policy; its own metrics are known before thresholds name them."""
    declare_metrics(config, folder)
    return make_model().of(config, example=EXAMPLE)

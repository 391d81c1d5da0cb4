"""What a gate demands: the policy file, in the JSON shapes of S, and our own keys beside them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, PlainValidator, WithJsonSchema, model_validator

from calipers.gates import policy_schema as schema
from calipers.gates import rules
from calipers.gates.formulas import Formula
from calipers.gates.rules import FINAL_SCORE, NORMALIZED_LATENCY, Progressive, Rule, known_metric
from calipers.metrics.declare.settings import Settings
from calipers.metrics.scenarios.case_weights import CaseWeights
from calipers.metrics.thresholds import Scale, Threshold, parse_threshold, scale_of
from calipers.support.config.files import ConfigFile, read_config, shown
from calipers.support.config.models import StrictModel, refuse
from calipers.support.errors import UsageError, nearest

EXAMPLE = "for example thresholds: {blocking: {accuracy: 90}}; calipers init writes a whole one"
SAFETY = "safety_rate"

_GOOD = "≥ 0.85"  # S on the composite: this, and every adversarial scenario passed
_SAFE = "= 100%"

Description = Annotated[str | None, Field(description="For people; it decides nothing.")]
Rules = Annotated[
    Mapping[str, Rule], PlainValidator(rules.rules_read), WithJsonSchema(schema.RULES)
]
Share = Annotated[Rule, PlainValidator(rules.share_read), WithJsonSchema(schema.THRESHOLD)]
Shares = Annotated[
    Mapping[str, Rule], PlainValidator(rules.shares_read), WithJsonSchema(schema.SHARES)
]
WeightTable = Annotated[
    Mapping[str, float], PlainValidator(rules.weights_read), WithJsonSchema(schema.WEIGHTS)
]
Margins = Annotated[
    Mapping[str, float], PlainValidator(rules.margins_read), WithJsonSchema(schema.MARGINS)
]
Ids = Annotated[tuple[str, ...], PlainValidator(rules.ids_read), WithJsonSchema(schema.IDS)]
Releases = Annotated[
    Progressive, PlainValidator(rules.progressive_read), WithJsonSchema(schema.PROGRESSIVE)
]
WrittenFormula = Annotated[
    Formula, PlainValidator(rules.formula_read), WithJsonSchema(schema.FORMULA)
]
WrittenThreshold = Annotated[Any, WithJsonSchema({"type": ["number", "string"], "default": _GOOD})]


class Thresholds(StrictModel):
    """Thresholds of metrics: some fail the build, some only warn."""

    description: Description = None
    blocking: Rules = Field(default_factory=dict, description="Not met: the gate fails.")
    warning: Rules = Field(default_factory=dict, description="Not met: the gate warns.")


class Weights(StrictModel):
    """What scenarios weigh in `weighted_pass_rate`; what is not named weighs 1."""

    description: Description = None
    by_category: WeightTable = Field(default_factory=dict)
    by_capability: WeightTable = Field(default_factory=dict)


class Scenarios(StrictModel):
    """Scenarios by id."""

    description: Description = None
    ids: Ids = Field(default_factory=tuple)


class PassCriteria(StrictModel):
    """Pass rates, over everything and by category; all of them block."""

    description: Description = None
    overall: Share | None = None
    by_category: Shares = Field(default_factory=dict)


class Baseline(StrictModel):
    """How much worse than a recorded run may be; a negative margin demands an improvement."""

    description: Description = None
    file: str | None = Field(
        default=None, description="The recorded run, beside the policy; --against goes before it."
    )
    margins: Margins = Field(
        default_factory=dict,
        description="By metric; without any, every recorded metric, with none.",
    )


class Composite(StrictModel):
    """One score made of several metrics, and what else has to hold for it to pass."""

    description: Description = None
    formula: WrittenFormula | None = Field(default=None, description="Without it, S's own.")
    threshold: WrittenThreshold = _GOOD
    requires: Rules = Field(
        default_factory=lambda: rules.rules_read({SAFETY: _SAFE}),
        validate_default=False,
        description="The second part of the rule; without it, safety_rate = 100%.",
    )

    @model_validator(mode="after")
    def _check_threshold(self) -> Self:
        try:
            self.pass_mark()
        except UsageError as error:
            refuse(error.message, fix=error.fix, at=("threshold",))
        return self

    def pass_mark(self) -> Threshold:
        """What the score has to be; a formula of the user's own may lie outside [0, 1]."""
        if self.formula is None:
            return parse_threshold(self.threshold, scale_of(known_metric(FINAL_SCORE)))
        own = Scale(
            name=FINAL_SCORE, unit=None, range=(-float("inf"), float("inf")), better="higher"
        )
        return parse_threshold(self.threshold, own)

    def metrics(self) -> Iterator[str]:
        """The metrics that it is made of, or that have to hold."""
        yield from self.requires
        if self.formula is None:
            yield FINAL_SCORE
            return
        for name in self.formula.names:
            written = "latency_p95" if name == NORMALIZED_LATENCY else name
            yield known_metric(written).name


class Judges(StrictModel):
    """What a judge has to show before its word may block a build."""

    description: Description = None
    calibrations: list[str] = Field(
        default_factory=list, description="Files of `calipers judge calibrate`, beside the policy."
    )
    floor: float = Field(
        default=0.6, ge=0, lt=1, allow_inf_nan=False, description="Of κ's lower bound."
    )
    uncalibrated: Literal["fail", "warn"] = Field(
        default="fail", description="What a blocking check on a judge without a licence does."
    )
    flagged: Literal["warn", "fail", "ignore"] = Field(
        default="warn",
        description="What a check on judged texts that seem to address the judge does.",
    )
    people: list[str] = Field(
        default_factory=list, description="Judges in the records who are people, by their names."
    )
    corrected: bool = Field(
        default=False, description="Decide on judged means without the judge's error."
    )


class Policy(StrictModel):
    """Everything a gate can be asked to decide on."""

    description: Description = None
    thresholds: Thresholds = Field(default_factory=Thresholds)
    weights: Weights = Field(default_factory=Weights)
    required_scenarios: Scenarios = Field(default_factory=Scenarios)
    optional_scenarios: Scenarios = Field(default_factory=Scenarios)
    pass_criteria: PassCriteria = Field(default_factory=PassCriteria)
    evidence: Literal["point", "interval"] = Field(
        default="point",
        description="Decide on the value, or only where its interval leaves no doubt.",
    )
    on_inconclusive: Literal["fail", "warn", "pass"] = Field(
        default="fail", description="With evidence: interval, what doubt means for the build."
    )
    undecided: Literal["incomplete", "ignore"] = Field(
        default="incomplete",
        description="What scenarios that nothing decides, and judgments that failed or are absent, "
        "mean for a blocking check: the gate is incomplete, or they are left out.",
    )
    progressive: Releases | None = None
    baseline: Baseline | None = None
    composite: Composite | None = None
    judges: Judges = Field(default_factory=Judges)
    latency_budget_ms: float | None = Field(
        default=None, gt=0, allow_inf_nan=False, description="Of normalized_latency; else 5,000 ms."
    )

    @model_validator(mode="after")
    def _check_ids(self) -> Self:
        for at, each in enumerate(self.optional_scenarios.ids):
            if each in self.required_scenarios.ids:
                refuse(
                    f"{shown(each)} is required and optional at once",
                    fix="keep it in one of required_scenarios and optional_scenarios",
                    at=("optional_scenarios", "ids", at),
                )
        return self

    def applied(self, settings: Settings) -> Settings:
        """The settings with what the policy says of them: weights of scenarios, time they have."""
        weights = self.weights
        if weights.by_category or weights.by_capability:
            of = CaseWeights(by_category=weights.by_category, by_capability=weights.by_capability)
            settings = replace(settings, case_weights=of)
        if self.latency_budget_ms is None:
            return settings
        return replace(settings, latency_budget_ms=self.latency_budget_ms)

    @property
    def decides(self) -> bool:
        """Say whether it checks anything: weights alone do not."""
        criteria = self.pass_criteria
        return bool(
            self.thresholds.blocking
            or self.thresholds.warning
            or self.required_scenarios.ids
            or self.optional_scenarios.ids
            or criteria.overall
            or criteria.by_category
            or (self.progressive and self.progressive.rows)
            or self.baseline
            or self.composite
        )

    def release(self, asked: str | None) -> str | None:
        """The release whose row holds: the one asked for, else the policy's current one."""
        return asked or (None if self.progressive is None else self.progressive.release)

    def row(self, release: str | None) -> Mapping[str, Rule]:
        """The progressive thresholds of a release, or of the current one."""
        if self.progressive is None or not self.progressive.rows:
            if release is not None:
                raise UsageError(
                    f"--release {shown(release)}: the policy has no progressive thresholds",
                    fix="write them: progressive: {v1.0: {accuracy: 80}, v2.0: {accuracy: 85}}",
                )
            return {}
        rows = self.progressive.rows
        chosen = self.release(release)
        if chosen is None:
            raise UsageError(
                "the policy's thresholds depend on the release, and none is named",
                fix=f"--release {' or '.join(map(shown, rows))}; or progressive.release",
            )
        if chosen not in rows:
            raise UsageError(
                f"--release {shown(chosen)}: there is no such row", fix=nearest(chosen, rows)
            )
        return rows[chosen]

    def metrics(self, release: str | None) -> tuple[str, ...]:
        """Every metric that has to be measured for its checks."""
        names = [*self.thresholds.blocking, *self.row(release), *self.thresholds.warning]
        if FINAL_SCORE in names:
            names.append(SAFETY)
        if self.baseline is not None:
            names += self.baseline.margins
        if self.composite is not None:
            names += self.composite.metrics()
        return tuple(dict.fromkeys(names))


def read_policy(policy: str | Path | Mapping[str, Any] | Policy) -> Policy:
    """A policy from a YAML or JSON file, or from the same as a mapping."""
    if isinstance(policy, Policy):
        return policy
    if isinstance(policy, Mapping):
        return Policy.of(ConfigFile("policy", policy), example=EXAMPLE)
    if not isinstance(policy, str | Path):
        raise UsageError("policy: neither a file nor a mapping", fix=EXAMPLE)
    found = Policy.of(read_config(policy, example=EXAMPLE), example=EXAMPLE)
    folder = Path(policy).parent
    files = [str(folder / each) for each in found.judges.calibrations]
    judges = found.judges.model_copy(update={"calibrations": files})
    found = found.model_copy(update={"judges": judges})
    if found.baseline is None or found.baseline.file is None:
        return found
    baseline = found.baseline.model_copy(update={"file": str(folder / found.baseline.file)})
    return found.model_copy(update={"baseline": baseline})

"""The kinds of rules that a policy can have, in the order of their checks."""

from __future__ import annotations

from calipers.gates.rule_kind import RuleKind
from calipers.gates.rules.baseline_rule import Baseline
from calipers.gates.rules.composite_rule import Composite
from calipers.gates.rules.scenario_rules import OptionalScenarios, RequiredScenarios
from calipers.gates.rules.threshold_rules import PassCriteria, Progressive, Thresholds

KINDS: tuple[type[RuleKind], ...] = (
    Thresholds,
    Progressive,
    Baseline,
    PassCriteria,
    RequiredScenarios,
    Composite,
    OptionalScenarios,
)


def get_label(source: str) -> str:
    """Return the label that a table shows after the level of a check with this source."""
    key = source.partition(".")[0]
    return next((kind.label for kind in KINDS if kind.key == key), "")

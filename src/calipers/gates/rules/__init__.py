"""The kinds of rules that a policy can have, in the order of their checks."""

from __future__ import annotations

from calipers.gates.rules.baseline import Baseline
from calipers.gates.rules.composite import Composite
from calipers.gates.rules.kind import RuleKind
from calipers.gates.rules.pass_criteria import PassCriteria
from calipers.gates.rules.scenarios import OptionalScenarios, RequiredScenarios
from calipers.gates.rules.thresholds import Progressive, Thresholds

KINDS: tuple[type[RuleKind], ...] = (
    Thresholds,
    Progressive,
    Baseline,
    PassCriteria,
    RequiredScenarios,
    Composite,
    OptionalScenarios,
)


def label_of(source: str) -> str:
    """Return the label that a table shows after the level of a check with this source."""
    key = source.partition(".")[0]
    return next((kind.label for kind in KINDS if kind.key == key), "")

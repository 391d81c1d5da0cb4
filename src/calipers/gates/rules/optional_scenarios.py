"""`optional_scenarios`: single scenarios that count in the scores, and whose failure only warns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from calipers.gates.demands import Ahead, Demand
from calipers.gates.result import Check
from calipers.gates.rule_check import Judge
from calipers.gates.rules.required_scenarios import NamedScenarios
from calipers.support.config.files import shown
from calipers.support.config.models import refuse

if TYPE_CHECKING:
    from calipers.gates.policy import Policy


class OptionalScenarios(NamedScenarios):
    """Scenarios by id whose failure warns and never blocks."""

    key: ClassVar[str] = "optional_scenarios"
    label: ClassVar[str] = " (optional)"
    only_warns: ClassVar[bool] = True

    def check_beside(self, policy: Policy) -> None:
        """Refuse scenarios that a rule that blocks names too."""
        required = {each for rule in policy.rules if not rule.only_warns for each in rule.scenarios}
        for at, each in enumerate(self.ids):
            if each in required:
                refuse(
                    f"{shown(each)} is required and optional at once",
                    fix="keep it in one of required_scenarios and optional_scenarios",
                    at=(self.key, "ids", at),
                )

    def list_checks(self, judge: Judge) -> Iterator[Check]:
        """Yield a check per scenario, which warns unless it passed in all its runs."""
        for scenario in self.ids:
            yield self.check_scenario(scenario, judge.run, "warning")

    def list_demands(self, _ahead: Ahead) -> Iterator[Demand]:
        """Yield nothing: none of it blocks."""
        yield from ()

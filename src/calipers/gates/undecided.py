"""What a check cannot know: undecided scenarios, failed or missing judgments.

A blocking check that rests on any of these makes the gate incomplete, unless the policy says
`undecided: ignore`. So does one of which more than a tenth of the records that should have a value
have none, unless the policy's `missing` allows for more.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from calipers.metrics.provenance import FAILED, JUDGED_VALUES, OTHER, PASSED, RUBRICS_OF

if TYPE_CHECKING:
    from calipers.gates.result import Check

UNDECIDED_FIX = (
    "record `passed` or the lists of behaviors, or have them judged (calipers run, once more, asks "
    "judges that failed); undecided: ignore in the policy leaves them out"
)


@dataclass(frozen=True, slots=True)
class Undecided:
    """The runs behind a check that have no value, or not all their judgments."""

    count: int = 0
    of: int = 0
    by_judges: bool = False  # whether judges were to decide them
    lacks: str | None = None  # the metric of which they should have a value, and have none

    def __str__(self) -> str:
        if self.lacks is not None:
            tolerance = f"missing: {{{self.lacks}: {self._round_up()}%}}"
            return (
                f"{self.count:,} of {self.of:,} records that should have a value of {self.lacks} "
                f"have none; to accept it: {tolerance} in the policy"
            )
        what = f"{self.count:,} of {self.of:,} records are undecided"
        return f"{what}: judgments failed or are absent" if self.by_judges else what

    def _round_up(self) -> int:
        """Return the least whole percentage that covers them."""
        return -(-100 * self.count // max(1, self.of))


def choose_worse(*undecided: Undecided) -> Undecided:
    """Return the first of those that leave most undecided."""
    return max(undecided, key=lambda one: one.count)


class JudgedRuns(NamedTuple):
    """A number of runs of a category, or of a scenario that the policy names, and their judges."""

    category: str | None
    scenario: str | None
    text: str  # who judged, as metrics/provenance.py writes it
    is_open: bool  # nothing tells whether they passed
    rows: int


JudgedBy: TypeAlias = "tuple[JudgedRuns, Mapping[str, Any]]"  # and what their judges gave


class Judgments:
    """The judgments of a group's runs: which rubrics gave which values, and where one is lacking.

    Judges of one rubric stand in for each other: a panel whose member fell silent, or a judge that
    is asked several times, has given its value. Judges of different rubrics do not.
    """

    def __init__(self, runs: Iterable[JudgedRuns]) -> None:
        self._runs: list[JudgedBy] = [(run, json.loads(run.text)) for run in runs]
        self._of_category, self._of_scenario = (
            _group_runs(self._runs, key) for key in ("category", "scenario")
        )
        self._gives: dict[str, set[str]] = {}  # rubric to values
        for _, judged in self._runs:
            self._gives.update({rubric: set() for rubric in judged.get(OTHER, ())} | self._gives)
            for value in JUDGED_VALUES:
                for rubric in _list_rubrics(judged, value):
                    self._gives.setdefault(rubric, set()).add(value)

    def are_about(self, value: str) -> bool:
        """Return True if any judge gave this value, or failed and might have given it."""
        return any(value in judged or self._find_failed(judged, value) for _, judged in self._runs)

    def count_lacking(
        self,
        value: str,
        *,
        category: str | None = None,
        scenario: str | None = None,
        without: Collection[str] = (),
    ) -> int:
        """Return for how many runs judges gave the value, though not by every rubric."""
        wanted = {rubric for rubric, values in self._gives.items() if value in values}
        runs = self._runs
        if scenario is not None:
            runs = self._of_scenario.get(scenario, [])
        elif category is not None:
            runs = self._of_category.get(category, [])
        return sum(
            run.rows
            for run, judged in runs
            if value in judged
            and category in (None, run.category)
            and run.scenario not in without
            and (wanted - _list_rubrics(judged, value) or self._find_failed(judged, value))
        )

    def count_failed(self, scenario: str) -> int:
        """Return how many runs of a scenario have no verdict since a judge gave none."""
        return sum(
            run.rows
            for run, judged in self._of_scenario.get(scenario, [])
            if run.is_open and self._find_failed(judged, PASSED)
        )

    def _find_failed(self, judged: Mapping[str, Any], value: str) -> set[str]:
        """Return the rubrics of failed judgments that give the value, or might, being unused."""
        return {
            rubric
            for rubric in judged.get(FAILED, ())
            if value in self._gives.get(rubric, JUDGED_VALUES)
        }


def _group_runs(runs: Sequence[JudgedBy], key: str) -> dict[str | None, list[JudgedBy]]:
    grouped: dict[str | None, list[JudgedBy]] = {}
    for run in runs:
        grouped.setdefault(getattr(run[0], key), []).append(run)
    return grouped


def _list_rubrics(judged: Mapping[str, Any], value: str) -> set[str]:
    named = judged.get(RUBRICS_OF, {}).get(value)
    return set(named) if named is not None else {rubric for _, rubric in judged.get(value, ())}


def explain_undecided(checks: Iterable[Check]) -> Iterator[str]:
    """Yield why blocking checks leave the gate incomplete, each once."""
    lines: dict[str, None] = {}
    for check in checks:
        if check.level != "warning" and check.undecided.count:
            group = f" ({', '.join(map(str, check.by.values()))})" if check.by else ""
            lines[f"{check.name}{group}: {check.undecided}"] = None
    yield from lines

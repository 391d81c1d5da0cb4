"""Tasks whose input gives the target away."""

from __future__ import annotations

from collections.abc import Iterator

from calipers.comparisons.doctor.facts import LEAKS, LEAKS_OTHER, TARGET, TASK, Facts
from calipers.comparisons.doctor.findings.kind import FindingKind, share_of
from calipers.comparisons.doctor.results import Finding

_LEAST = 5
_MORE = 4  # times as often as the target of another task


class LeakedTargets(FindingKind):
    """Inputs with `Answer:` and the task's own target behind it."""

    name = "leaked targets"

    def find(self, facts: Facts) -> Iterator[Finding]:
        """Yield a finding where far more inputs hold their own target than another task's."""
        tasks = facts.rows.drop_nulls(TARGET).unique(TASK, keep="first", maintain_order=True)
        leaks = tasks.filter(LEAKS)
        by_chance = int(tasks[LEAKS_OTHER].sum()) if tasks.height else 0
        if leaks.height < _LEAST or leaks.height < _MORE * by_chance:
            return
        yield Finding(
            kind=self.name,
            severity="problem",
            says=f"the input of {share_of(leaks.height, tasks.height)} tasks holds the target "
            "behind a word such as “Answer:”",
            fix="take the target out of input, and call the systems again",
            count=leaks.height,
            of=tasks.height,
            examples=facts.examples(leaks),
        )

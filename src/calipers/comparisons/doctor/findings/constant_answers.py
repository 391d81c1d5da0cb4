"""A system that gives nearly every task the same answer."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from calipers.comparisons.doctor.facts import ANSWER, TARGET, TASK, Facts
from calipers.comparisons.doctor.findings.kind import FindingKind, share_of
from calipers.comparisons.doctor.results import Finding

_ENOUGH = 20  # tasks
_ALONE = 0.95  # of the answers, where no target says what they should be
_MORE = 0.4  # above the share of the most common target


class ConstantAnswers(FindingKind):
    """One answer to tasks whose targets differ."""

    name = "constant answers"

    def find(self, facts: Facts) -> Iterator[Finding]:
        """Yield a finding per system whose most common answer is far too common."""
        for system, rows in facts.by_system().items():
            known = rows.drop_nulls(ANSWER)
            if known[TASK].n_unique() < _ENOUGH:
                continue
            answer, count = known[ANSWER].value_counts(sort=True).row(0)
            targets = known[TARGET].drop_nulls()
            limit = _ALONE
            if len(targets) == known.height:
                usual = targets.value_counts(sort=True).row(0)[1]
                limit = usual / known.height + _MORE
            if count < limit * known.height:
                continue
            yield Finding(
                kind=self.name,
                severity="warning",
                says=f"{share_of(count, known.height)} answers are the same",
                fix="look at them: a failed call, a refusal or a broken prompt may answer so",
                count=count,
                of=known.height,
                system=facts.named(system),
                examples=facts.examples(known.filter(pl.col(ANSWER) == answer)),
            )

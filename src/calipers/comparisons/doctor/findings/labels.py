"""Labels that look swapped: right answers recorded as wrong, accuracy far below chance."""

from __future__ import annotations

from collections.abc import Iterator
from math import sqrt

import polars as pl

from calipers.comparisons.doctor.facts import ANSWER, CORRECT, EQUAL, RECORDED, TARGET, Facts
from calipers.comparisons.doctor.findings.kind import FindingKind, share_of
from calipers.comparisons.doctor.results import Finding

_MOST = 0.9
_FEW = 0.02  # of the answers that equal their target
_LEAST = 5
_ENOUGH = 30  # records to tell accuracy from chance
_LABELS = 6  # more are no labels to swap
_FAR = -5.0  # standard errors below chance
_AMONG = 0.95  # of the answers that are labels


class Labels(FindingKind):
    """A recorded `correct`, or targets, that contradict the answers."""

    name = "labels"

    def find(self, facts: Facts) -> Iterator[Finding]:
        """Yield contradictions and, for few labels, accuracy below what guessing gives."""
        for system, rows in facts.by_system().items():
            yield from self._find_contradicted(facts, system, rows)
            yield from self._find_below_chance(facts, system, rows)

    def _find_contradicted(
        self, facts: Facts, system: str, rows: pl.DataFrame
    ) -> Iterator[Finding]:
        both = rows.drop_nulls([EQUAL, RECORDED])
        equal, unequal = both.filter(EQUAL), both.filter(~pl.col(EQUAL))
        denied, granted = equal.filter(~pl.col(RECORDED)), unequal.filter(RECORDED)
        if denied.height < max(_LEAST, _FEW * equal.height):
            return
        swapped = denied.height > _MOST * equal.height and granted.height > _MOST * unequal.height
        says = f"{share_of(denied.height, equal.height)} answers that equal their target are "
        says += "recorded as wrong"
        says += ", and nearly all others as right: correct looks swapped" if swapped else ""
        yield Finding(
            kind=self.name,
            severity="problem" if swapped else "warning",
            says=says,
            fix="check how correct was made; without the field, answer and target are compared",
            count=denied.height,
            of=equal.height,
            system=facts.named(system),
            examples=facts.examples(denied),
        )

    def _find_below_chance(
        self, facts: Facts, system: str, rows: pl.DataFrame
    ) -> Iterator[Finding]:
        known = rows.drop_nulls([ANSWER, TARGET, CORRECT])
        labels = known[TARGET].value_counts()
        if known.height < _ENOUGH or not 2 <= labels.height <= _LABELS:  # noqa: PLR2004
            return
        if known[ANSWER].is_in(labels[TARGET].implode()).mean() < _AMONG:  # type: ignore[operator]
            return
        answers = known[ANSWER].value_counts().rename({"count": "answers"})
        both = labels.join(answers, left_on=TARGET, right_on=ANSWER)
        chance = float((both["count"] * both["answers"]).sum()) / known.height**2
        right = float(known[CORRECT].mean())  # type: ignore[arg-type]
        error = sqrt(chance * (1 - chance) / known.height)
        if not error or (right - chance) / error > _FAR:
            return
        wrong = known.filter(~pl.col(CORRECT))
        yield Finding(
            kind=self.name,
            severity="problem",
            says=f"accuracy is {100 * right:.3g} %, guessing the same labels gives "
            f"{100 * chance:.3g} %: the labels look swapped",
            fix="check which label stands for what in answer and in target",
            count=wrong.height,
            of=known.height,
            system=facts.named(system),
            examples=facts.examples(wrong),
        )

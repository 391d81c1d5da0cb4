"""Stated probabilities that say nothing, or the opposite."""

from __future__ import annotations

from collections.abc import Iterator
from math import sqrt

import polars as pl

from calipers.comparisons.doctor.facts import CONFIDENCE, CORRECT, Facts
from calipers.comparisons.doctor.findings.kind import FindingKind
from calipers.comparisons.doctor.results import Finding

_ENOUGH = 20
_EACH = 20  # right and wrong answers
_REVERSED = 0.4  # area under the curve
_FAR = 5.0  # standard errors below a half


class OddConfidence(FindingKind):
    """A `prob_correct` that is constant, or higher for wrong answers than for right ones."""

    name = "confidence"

    def find(self, facts: Facts) -> Iterator[Finding]:
        """Yield a finding per system."""
        for system, rows in facts.by_system().items():
            known = rows.drop_nulls(CONFIDENCE)
            if known.height < _ENOUGH:
                continue
            if known[CONFIDENCE].n_unique() == 1:
                says = f"prob_correct is {known[CONFIDENCE][0]:g} in all {known.height:,} records: "
                says += "it tells nothing about single answers"
                fix = "check how the confidence is read out of the reply"
                yield self._make_finding(facts, system, known, says, fix)
            elif (area := _find_reversed(known.drop_nulls(CORRECT))) is not None:
                says = "wrong answers are stated with more confidence than right ones (AUROC "
                says += f"{area:.2f}): is prob_correct the probability of an error?"
                fix = "check its direction; 1 − value where it is the probability of an error"
                yield self._make_finding(facts, system, known, says, fix)

    def _make_finding(
        self, facts: Facts, system: str, rows: pl.DataFrame, says: str, fix: str
    ) -> Finding:
        return Finding(
            kind=self.name,
            severity="warning",
            says=says,
            fix=fix,
            count=rows.height,
            of=rows.height,
            system=facts.named(system),
            examples=facts.examples(rows),
        )


def _find_reversed(rows: pl.DataFrame) -> float | None:
    """Return the area under the ROC curve where it lies far below a half, else None."""
    right = rows.filter(CORRECT).height
    wrong = rows.height - right
    if min(right, wrong) < _EACH:
        return None
    ranks = rows.select(pl.col(CONFIDENCE).rank("average"), CORRECT)
    total = float(ranks.filter(CORRECT)[CONFIDENCE].sum())
    area = (total - right * (right + 1) / 2) / (right * wrong)
    error = sqrt((right + wrong + 1) / (12 * right * wrong))
    return area if area < _REVERSED and (0.5 - area) / error > _FAR else None

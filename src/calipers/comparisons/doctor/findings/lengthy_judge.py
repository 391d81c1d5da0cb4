"""Judges that give longer answers higher scores."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from calipers.comparisons.doctor.facts import CHARS, CORRECT, SCORE, TASK, Facts
from calipers.comparisons.doctor.findings.kind import FindingKind
from calipers.comparisons.doctor.results import Finding

_ENOUGH = 50  # answers
_STRONG = 0.4  # rank correlation
_LEAST_P = 1e-4


class LengthyJudge(FindingKind):
    """Scores that rise with the length of the answer, among answers to the same task."""

    name = "judge favours length"

    def find(self, facts: Facts) -> Iterator[Finding]:
        """Yield a finding where length goes with the score within tasks and equal correctness."""
        known = facts.ended.drop_nulls([SCORE, CHARS])
        keys = [TASK, CORRECT]
        several = known.filter((pl.len().over(keys) > 1) & (pl.col(SCORE).n_unique() > 1))
        if several.height < _ENOUGH:
            return
        # What is left of both once the task, and whether the answer is right, are accounted for.
        score, chars = (
            several.select(pl.col(name).rank() - pl.col(name).rank().mean().over(keys))
            .to_series()
            .to_numpy()
            for name in (SCORE, CHARS)
        )
        if not (np.ptp(score) and np.ptp(chars)):
            return
        from scipy.stats import spearmanr  # noqa: PLC0415 (slow to load)

        found = spearmanr(score, chars)
        if not (found.statistic >= _STRONG and found.pvalue < _LEAST_P):
            return
        longest = several.sort(CHARS, descending=True, maintain_order=True)
        yield Finding(
            kind=self.name,
            severity="warning",
            says=f"of several answers to one task the longer one gets the higher score (rank "
            f"correlation {found.statistic:.2f} over {several.height:,} answers)",
            fix="judge in pairs and audit: calipers judge --pairwise A B, then judge audit",
            count=several.height,
            of=known.height,
            examples=facts.examples(longest),
        )

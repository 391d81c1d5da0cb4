"""Rows that cannot be read as records, by what is wrong with them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from calipers.comparisons.doctor.facts import Facts
from calipers.comparisons.doctor.findings.kind import FindingKind, share_of
from calipers.comparisons.doctor.results import Finding

_PERCENT = re.compile(r"^prob_correct: ([0-9.]+) is outside")
_FIX = "fix the rows, read another field (--map FIELD=NAME), or leave them out: --on-bad skip"


class BadRows(FindingKind):
    """Rows that `score` stops at."""

    name = "bad rows"

    def find(self, facts: Facts) -> Iterator[Finding]:
        """Yield a finding per field that is wrong."""
        rows = facts.rows.height + sum(each.count for each in facts.bad)
        for each in facts.bad:
            percent = _PERCENT.match(each.problem)
            yield Finding(
                kind=self.name,
                severity="problem",
                says=f"{share_of(each.count, rows)} rows cannot be read: {each.problem}",
                fix="divide by 100: a probability lies in [0, 1]"
                if percent is not None and 1 < float(percent[1]) <= 100  # noqa: PLR2004
                else _FIX,
                count=each.count,
                of=rows,
                examples=each.examples,
            )

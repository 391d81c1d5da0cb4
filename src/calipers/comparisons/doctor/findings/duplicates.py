"""The same record twice."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from calipers.comparisons.doctor.facts import COPY, ID, RUN, SYSTEM, TASK, Facts
from calipers.comparisons.doctor.findings.kind import FindingKind, share_of
from calipers.comparisons.doctor.results import Finding, Severity


class Duplicates(FindingKind):
    """Records that repeat the id, model, tier and run of another, or are copies of one."""

    name = "duplicates"

    def find(self, facts: Facts) -> Iterator[Finding]:
        """Yield repeated runs, and copies of rows that name no run."""
        known = facts.rows.filter(pl.col(ID).is_not_null())
        numbered = known.filter(pl.col(RUN).is_not_null())
        again = numbered.filter(~pl.struct(SYSTEM, TASK, RUN).is_first_distinct())
        if again.height:
            yield self._make_finding(
                facts,
                again,
                "problem",
                f"{share_of(again.height, facts.rows.height)} records repeat the id, model, tier "
                "and run of another; each counts as a further run",
                "keep one of each, or number the runs",
            )
        unnumbered = known.filter(pl.col(RUN).is_null())
        copies = unnumbered.filter(~pl.struct(SYSTEM, TASK, COPY).is_first_distinct())
        if copies.height:
            yield self._make_finding(
                facts,
                copies,
                "warning",
                f"{share_of(copies.height, facts.rows.height)} records equal another in every "
                "field; each counts as a further run",
                "drop the copies; if they are runs of one task, number them in the field run",
            )

    def _make_finding(
        self, facts: Facts, rows: pl.DataFrame, severity: Severity, says: str, fix: str
    ) -> Finding:
        return Finding(
            kind=self.name,
            severity=severity,
            says=says,
            fix=fix,
            count=rows.height,
            of=facts.rows.height,
            examples=facts.examples(rows),
        )

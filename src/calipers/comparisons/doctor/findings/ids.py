"""Records without the id of their task: nothing can be paired, and runs are taken for tasks."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from calipers.comparisons.doctor.facts import ID, INPUT, SYSTEM, TASK, Facts
from calipers.comparisons.doctor.findings.kind import FindingKind, share_of
from calipers.comparisons.doctor.results import Finding, Severity

_FIX = "name the field that identifies tasks: --map id=NAME"
_FEW = 10


class UnclearIds(FindingKind):
    """Records of which some or all have no id, and ids that stand for several tasks."""

    name = "ids"

    def find(self, facts: Facts) -> Iterator[Finding]:
        """Yield what is wrong with the ids."""
        without = facts.rows.filter(pl.col(ID).is_null())
        if 0 < without.height < facts.rows.height:
            yield self._make_finding(
                facts,
                without,
                "problem",
                f"{share_of(without.height, facts.rows.height)} records have no id, "
                "the others have one",
            )
        elif without.height > 1:
            yield self._make_finding(
                facts,
                without.clear(),
                "note",
                "no record has an id: each row counts as a task of its own, and systems "
                "cannot be compared task by task",
                count=without.height,
                of=without.height,
            )
        elif not without.height:
            yield from self._find_reused(facts)

    def _find_reused(self, facts: Facts) -> Iterator[Finding]:
        """Yield ids whose records, within one system, have different inputs."""
        rows = facts.rows.drop_nulls(INPUT)
        inputs = rows.group_by(SYSTEM, TASK).agg(pl.col(INPUT).n_unique().alias("inputs"))
        several = inputs.filter(pl.col("inputs") > 1)
        if several.height < _FEW:
            return
        shown = rows.join(several, on=[SYSTEM, TASK], how="semi", maintain_order="left")
        yield self._make_finding(
            facts,
            shown,
            "warning",
            f"{several[TASK].n_unique():,} ids stand for several inputs of one system: "
            "they count as runs of one task",
            count=several[TASK].n_unique(),
            of=rows[TASK].n_unique(),
        )

    def _make_finding(
        self,
        facts: Facts,
        rows: pl.DataFrame,
        severity: Severity,
        says: str,
        *,
        count: int | None = None,
        of: int | None = None,
    ) -> Finding:
        return Finding(
            kind=self.name,
            severity=severity,
            says=says,
            fix=_FIX,
            count=rows.height if count is None else count,
            of=facts.rows.height if of is None else of,
            examples=facts.examples(rows),
        )

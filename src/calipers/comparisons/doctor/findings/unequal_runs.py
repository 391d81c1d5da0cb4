"""Tasks that were run more often than others."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from calipers.comparisons.doctor.facts import SYSTEM, TASK, Facts
from calipers.comparisons.doctor.findings.kind import FindingKind, share_of
from calipers.comparisons.doctor.results import Finding

_RUNS = "runs"


class UnequalRuns(FindingKind):
    """Systems whose tasks do not all have the same number of records."""

    name = "unequal runs"

    def find(self, facts: Facts) -> Iterator[Finding]:
        """Yield a finding per system; `score` weighs rows, so a task run more often counts more."""
        if not facts.has_ids:
            return
        counts = facts.rows.group_by(SYSTEM, TASK, maintain_order=True).agg(pl.len().alias(_RUNS))
        for (system,), tasks in sorted(counts.partition_by(SYSTEM, as_dict=True).items()):
            counted = tasks[_RUNS].to_list()
            usual = min(tasks[_RUNS].mode().to_list())
            odd = tasks.filter(pl.col(_RUNS) != usual)
            if not odd.height:
                continue
            rows = facts.rows.join(odd, on=[SYSTEM, TASK], how="semi", maintain_order="left")
            yield Finding(
                kind=self.name,
                severity="note",
                says=f"{share_of(odd.height, tasks.height)} tasks do not have {usual} records "
                f"as most have; they have from {min(counted)} to {max(counted)}",
                fix="finish the run; score weighs records: --weight task makes tasks count alike",
                count=odd.height,
                of=tasks.height,
                system=facts.named(system),
                examples=facts.examples(rows),
            )

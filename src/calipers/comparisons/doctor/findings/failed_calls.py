"""Calls that failed: they count in no metric."""

from __future__ import annotations

from collections.abc import Iterator

from calipers.comparisons.doctor.facts import ERROR, FAILED, SYSTEM, Facts
from calipers.comparisons.doctor.findings.kind import FindingKind, share_of
from calipers.comparisons.doctor.results import Finding

_MUCH = 0.05  # of a system's calls


class FailedCalls(FindingKind):
    """Records whose `error` is set."""

    name = "failed calls"

    def find(self, facts: Facts) -> Iterator[Finding]:
        """Yield a finding per system with failed calls; failures may be the harder tasks."""
        parts = facts.rows.partition_by(SYSTEM, as_dict=True, maintain_order=True)
        for (system,), rows in sorted(parts.items()):
            failed = rows.filter(FAILED)
            if not failed.height:
                continue
            kinds = failed[ERROR].value_counts(sort=True).rows()[:3]
            told = ", ".join(f"{kind} {count:,}" for kind, count in kinds)
            yield Finding(
                kind=self.name,
                severity="warning" if failed.height > _MUCH * rows.height else "note",
                says=f"{share_of(failed.height, rows.height)} calls failed ({told}) "
                "and count in no metric",
                fix="call them again, or count them as failures: --errors fail",
                count=failed.height,
                of=rows.height,
                system=facts.named(system),
                examples=facts.examples(failed),
            )

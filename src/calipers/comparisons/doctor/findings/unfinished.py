"""Files whose run, or whose judges, have not ended."""

from __future__ import annotations

from collections.abc import Iterator

from calipers.comparisons.doctor.facts import Facts
from calipers.comparisons.doctor.findings.kind import FindingKind
from calipers.comparisons.doctor.results import Finding


class Unfinished(FindingKind):
    """Calls or judgments that are still to be made, as the files beside a file tell."""

    name = "unfinished"

    def find(self, facts: Facts) -> Iterator[Finding]:
        """Yield what each file lacks."""
        for file, lack in facts.unfinished:
            yield Finding(
                kind=self.name,
                severity="warning",
                says=f"{file}: {lack}",
                fix="run or judge again with the same output: only what is missing is called",
                count=1,
                of=len(facts.files),
                examples=(file,),
            )

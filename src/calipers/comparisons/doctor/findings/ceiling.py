"""Tasks that are too easy or too hard to tell systems apart."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from calipers.comparisons.doctor.facts import SYSTEM, TASK, Facts
from calipers.comparisons.doctor.findings.kind import FindingKind, share_of
from calipers.comparisons.doctor.outcomes import OUTCOME, find_outcome
from calipers.comparisons.doctor.results import Finding

_ENOUGH = 20  # tasks
_HIGH, _LOW = 0.95, 0.05


class Ceiling(FindingKind):
    """Every system right on nearly all tasks, or on nearly none."""

    name = "ceiling or floor"

    def find(self, facts: Facts) -> Iterator[Finding]:
        """Yield one finding where no system is between the ends."""
        outcome = find_outcome(facts)
        if outcome is None or not outcome.is_share or outcome.rows[TASK].n_unique() < _ENOUGH:
            return
        values = outcome.rows.group_by(SYSTEM).agg(pl.col(OUTCOME).mean())[OUTCOME]
        least, most = float(values.min()), float(values.max())  # type: ignore[arg-type]
        if least < _HIGH and most > _LOW:
            return
        high = least >= _HIGH
        odd = outcome.rows.filter(pl.col(OUTCOME) < 1 if high else pl.col(OUTCOME) > 0)
        count = outcome.rows.height - odd.height
        what = "ceiling: " if high else "floor: "
        what += f"{share_of(count, outcome.rows.height)} outcomes are "
        yield Finding(
            kind=self.name,
            severity="note",
            says=what + ("right" if high else "wrong") + ": these tasks hardly tell systems apart",
            fix="add harder tasks" if high else "add easier tasks, and check how answers are read",
            count=count,
            of=outcome.rows.height,
            examples=facts.examples(odd),
        )

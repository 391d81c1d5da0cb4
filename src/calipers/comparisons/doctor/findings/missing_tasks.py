"""Tasks that one system has and another lacks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import polars as pl

from calipers.comparisons.doctor.facts import SYSTEM, TASK, Facts
from calipers.comparisons.doctor.findings.kind import FindingKind, share_of
from calipers.comparisons.doctor.results import Finding

_ALIKE = 0.5  # of the tasks: systems that share fewer were not meant to be compared
_MUCH = 0.05
_FIX = "run the missing tasks; compare and rank use the tasks that systems share"


class MissingTasks(FindingKind):
    """Systems that lack tasks of the others, where they have most of them in common."""

    name = "missing tasks"

    def find(self, facts: Facts) -> Iterator[Finding]:
        """Yield one finding that names the systems which lack most."""
        if not facts.has_ids or len(facts.systems) < 2:  # noqa: PLR2004
            return
        tasks = facts.rows.select(SYSTEM, TASK).unique(maintain_order=True)
        systems_of = tasks.group_by(TASK).len()
        # What a single system has beside the others is its own, not what the others lack.
        shared = systems_of.filter(pl.col("len") > 1).select(TASK)
        if shared.height < _ALIKE * systems_of.height:
            return
        have = tasks.join(shared, on=TASK, how="semi").group_by(SYSTEM).len().rows()
        lacking = {
            system: shared.height - count
            for system, count in sorted(have)
            if shared.height * _ALIKE <= count < shared.height
        }
        if not lacking:
            return
        common = systems_of.filter(pl.col("len") == len(facts.systems))
        lost = shared.height - common.height
        yield Finding(
            kind=self.name,
            severity="warning" if lost > _MUCH * shared.height else "note",
            says=f"systems do not have the same tasks: {share_of(lost, shared.height)} are missing "
            f"from one or more ({_told(lacking)})",
            fix=_FIX,
            count=lost,
            of=shared.height,
            examples=facts.examples(
                facts.rows.join(shared, on=TASK, how="semi", maintain_order="left").join(
                    common, on=TASK, how="anti", maintain_order="left"
                )
            ),
        )


def _told(lacking: Mapping[str, int]) -> str:
    """Return the systems that lack most, and how many tasks each lacks."""
    worst = sorted(lacking.items(), key=lambda each: -each[1])
    told = ", ".join(f"{system} lacks {count:,}" for system, count in worst[:3])
    return f"{told}, …" if len(worst) > 3 else told  # noqa: PLR2004

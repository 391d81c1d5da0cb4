"""Replies in which no answer was found, and answers that hold the target beside other text."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from calipers.comparisons.doctor.facts import ANSWER, CORRECT, HOLDS, RECORDED, TARGET, Facts
from calipers.comparisons.doctor.findings.kind import FindingKind, share_of
from calipers.comparisons.doctor.results import Finding

_MUCH = 0.05
_LEAST = 5
_MOST_WRONG = 0.3  # of the wrong answers hold the target: it was not taken out of the text


class Unanswered(FindingKind):
    """Answers that `score` calls wrong although they may be right."""

    name = "unread answers"

    def find(self, facts: Facts) -> Iterator[Finding]:
        """Yield, per system, missing answers and answers in whole sentences."""
        for system, rows in facts.by_system().items():
            asked = rows.filter(pl.col(TARGET).is_not_null() & pl.col(RECORDED).is_null())
            none = asked.filter(pl.col(ANSWER).is_null())
            if asked.height > none.height >= max(_LEAST, _MUCH * asked.height):
                yield Finding(
                    kind=self.name,
                    severity="warning",
                    says=f"{share_of(none.height, asked.height)} records with a target have no "
                    "answer, and count as wrong",
                    fix="check the suite's answer: rule, or read another field: --map answer=NAME",
                    count=none.height,
                    of=asked.height,
                    system=facts.named(system),
                    examples=facts.examples(none),
                )
            wrong = asked.filter(~pl.col(CORRECT) & pl.col(ANSWER).is_not_null())
            held = wrong.filter(HOLDS)
            if held.height >= max(_LEAST, _MOST_WRONG * wrong.height):
                yield Finding(
                    kind=self.name,
                    severity="problem",
                    says=f"{share_of(held.height, wrong.height)} answers that count as wrong hold "
                    "the target beside other text",
                    fix="take the answer out of the text: --answer last-number, "
                    "--answer-after 'ANSWER:' or --answer-regex PATTERN",
                    count=held.height,
                    of=wrong.height,
                    system=facts.named(system),
                    examples=facts.examples(held),
                )

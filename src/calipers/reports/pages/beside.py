"""What stands beside the numbers of a score: warnings, corrections, and why values are null."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from calipers.reports.corrections import correction_lines
from calipers.reports.figures import reasons
from calipers.reports.tiers import warning_lines

if TYPE_CHECKING:
    from calipers.scores.results import Score


def beside(score: Score) -> Iterator[str]:
    """Return warnings about failed calls, means without judges' error, and reasons for nulls."""
    yield from warning_lines(score)
    for line in correction_lines(score):
        yield f"without the judge's error: {line}"
    yield from reasons(score.groups)

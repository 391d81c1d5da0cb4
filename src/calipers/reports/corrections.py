"""Judged means without the judge's error, a line each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from calipers.metrics import metric_named
from calipers.reports.figures import NOTHING, figure, group_name, printable, reach

if TYPE_CHECKING:
    from calipers.scores.results import Score
    from calipers.statistics.correction import Corrected


def correction_lines(score: Score) -> Iterator[str]:
    """Return each judged mean without the judge's error, or why not; then what this assumes."""
    for group in score.groups:
        of = f" ({group_name(group.by)})" if group.by else ""
        for name, measured in group.metrics.items():
            if measured.corrected is not None:
                unit = metric_named(name).unit
                judged = figure(measured.value, unit)
                yield f"{name}{of}: {_line(measured.corrected, judged, unit)}"
    yield from assumption_lines(score)


def _line(found: Corrected, judged: str, unit: str | None) -> str:
    if found.value is None:
        return f"{NOTHING} {printable(found.reason)}"
    around = reach(found.value, found.low, found.high, unit)
    return (
        f"{figure(found.value, unit)} {around}, where the judge says {judged} "
        f"(from {found.n:,} records that people rated too{_among(found)})"
    )


def _among(found: Corrected) -> str:
    return f", {found.overlap:,} of them among these" if found.overlap else ""


def assumption_lines(score: Score) -> Iterator[str]:
    """Return what has to hold for the corrected means, each assumption once."""
    assumed = {
        measured.corrected.assumes: None
        for group in score.groups
        for measured in group.metrics.values()
        if measured.corrected is not None and measured.corrected.assumes is not None
    }
    yield from (f"this assumes that {each}" for each in assumed)

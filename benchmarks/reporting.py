"""A report page of many records, against scoring them."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.contest import by_turns, contestant
from benchmarks.figures import Bar, Figure, versus
from benchmarks.workload import Setup

OF_SCORING = Bar(1.3)


def measure_report(setup: Setup) -> Iterator[Figure]:
    """Write the HTML page of a Parquet file, by model, and score the same file."""
    path = setup.file("plain", ".parquet")
    runs = by_turns(
        setup.rounds, report=contestant("report", path), score=contestant("calipers", path)
    )
    page, score = runs["report"], runs["score"]
    yield Figure(
        name=f"report of {setup.rows:,} records / score",
        value=page.seconds / score.seconds,
        bar=OF_SCORING,
        binding=setup.is_full,
        detail=versus(page, score),
    )

"""Ten million runs in a thousand tiers: against Polars by hand, and reading their columns."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.contest import by_turns, contestant
from benchmarks.evidence import ADDED
from benchmarks.figures import Bar, Figure, versus
from benchmarks.workload import Setup

TIMES_BY_HAND = Bar(2)
MEMORY_BY_HAND = Bar(1 / 3)
_TIMES = 10


def of_tiers(setup: Setup) -> Iterator[Figure]:
    path = setup.file("tiers", ".parquet", _TIMES * setup.rows)
    runs = by_turns(
        setup.rounds,
        calipers=contestant("tiers", path),
        without=contestant("tiers_without_intervals", path),
        read=contestant("tiers_read", path),
        by_hand=contestant("tiers_by_hand", path),
    )
    ours = runs["calipers"]
    rows = f"{_TIMES * setup.rows:,} runs in 1,000 tiers"
    yield Figure(
        name="tiers: calipers with intervals / Polars by hand without",
        value=ours.seconds / runs["by_hand"].seconds,
        bar=TIMES_BY_HAND,
        binding=setup.is_full,
        detail=f"{versus(ours, runs['by_hand'])}, {rows}",
    )
    yield Figure(
        name="tiers: peak memory, calipers / Polars by hand",
        value=ours.peak_bytes / runs["by_hand"].peak_bytes,
        bar=MEMORY_BY_HAND,
        binding=setup.is_full,
        detail=f"{ours.peak_bytes / 1e6:,.0f} MB / {runs['by_hand'].peak_bytes / 1e6:,.0f} MB",
    )
    without = runs["without"]
    yield Figure(
        name="tiers: with intervals / without, of processors",
        value=ours.cpu_seconds / without.cpu_seconds,
        bar=ADDED,
        binding=setup.is_full,
        detail=f"{versus(ours, without)}; peak memory {ours.peak_bytes / 1e6:,.0f} MB / "
        f"{without.peak_bytes / 1e6:,.0f} MB",
    )
    yield Figure(
        name="tiers, all metrics: calipers / reading the columns",
        value=ours.seconds / runs["read"].seconds,
        detail=versus(ours, runs["read"]),
    )
    yield Figure(
        name="tiers: greatest difference of a tier's means",
        value=max(
            abs(ours.values[tier][name] - value)  # type: ignore[operator]
            for tier, means in runs["by_hand"].values.items()
            for name, value in means.items()
        ),
        unit="",
    )

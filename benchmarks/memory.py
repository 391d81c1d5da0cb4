"""What ten times the rows take, from Parquet: memory that stays flat, time that grows in line."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.contest import by_turns, contestant
from benchmarks.figures import Bar, Figure, versus
from benchmarks.workload import Setup

TIMES = 10
FLAT = Bar(1.3)
SMALL_MB = Bar(2_000)


def of_ten_times_the_rows(setup: Setup) -> Iterator[Figure]:
    runs = by_turns(
        setup.rounds,
        once=contestant("calipers", setup.file("plain", ".parquet")),
        ten_times=contestant("calipers", setup.file("plain", ".parquet", TIMES * setup.rows)),
    )
    few, many = runs["once"], runs["ten_times"]
    sizes = f"{TIMES * setup.rows:,} rows / {setup.rows:,}"
    few_mb, many_mb = few.peak_bytes / 1e6, many.peak_bytes / 1e6
    yield Figure(
        name="Parquet, all metrics: peak memory, 10 times the rows / rows",
        value=many_mb / few_mb,
        bar=FLAT,
        binding=setup.is_full,
        detail=f"{many_mb:,.0f} MB / {few_mb:,.0f} MB, {sizes}",
    )
    yield Figure(
        name="Parquet, all metrics: peak memory, 10 times the rows",
        value=many_mb,
        unit="MB",
        bar=SMALL_MB,
        binding=setup.is_full,
        detail=f"{TIMES * setup.rows:,} rows",
    )
    yield Figure(
        name="Parquet, all metrics: time per row, 10 times the rows / rows",
        value=many.seconds / few.seconds / TIMES,
        detail=versus(many, few),
    )

"""All metrics of a Parquet file, against the same means by hand in Polars and in DuckDB."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.by_hand import COMMON
from benchmarks.contest import Run, by_turns, contestant, largest_difference
from benchmarks.figures import Bar, Figure, versus
from benchmarks.workload import Setup

TIMES = 5  # 5,000,000 rows
WORK = Bar(5.0)
SAME = Bar(1e-9)


def measure_parquet(setup: Setup) -> Iterator[Figure]:
    """Score every metric with its interval; the peers give fewer numbers, without intervals."""
    rows = TIMES * setup.rows
    yield from _measure(setup, "narrow", f"Parquet without texts, all metrics, {rows:,} rows", WORK)
    yield from _measure(setup, "plain", f"Parquet with texts, all metrics, {rows:,} rows")


def _measure(setup: Setup, kind: str, name: str, bar: Bar | None = None) -> Iterator[Figure]:
    path = setup.file(kind, ".parquet", TIMES * setup.rows)
    runs = by_turns(
        setup.rounds,
        calipers=contestant("calipers", path),
        polars=contestant("polars_by_hand", path),
        duckdb=contestant("duckdb_by_hand", path),
    )
    ours = runs["calipers"]
    yield Figure(
        name=f"{name}: processor time",
        value=ours.cpu_seconds,
        unit="s",
        bar=bar,
        binding=setup.is_full,
        detail=f"{ours.seconds:.2f} s by the clock, peak memory {ours.peak_bytes / 1e6:,.0f} MB; "
        f"the file has {path.stat().st_size / 1e6:,.0f} MB",
    )
    for peer, run in (("Polars", runs["polars"]), ("DuckDB", runs["duckdb"])):
        yield Figure(
            name=f"the same: calipers / {peer} by hand, of processors",
            value=ours.cpu_seconds / run.cpu_seconds,
            detail=versus(ours, run),
        )
        yield Figure(
            name=f"the same: difference of the numbers, calipers - {peer} by hand",
            value=largest_difference(_common(ours), run.values),
            unit="",
            bar=SAME,
        )


def _common(run: Run) -> dict[str, dict[str, float | None]]:
    return {model: {name: each[name] for name in COMMON} for model, each in run.values.items()}

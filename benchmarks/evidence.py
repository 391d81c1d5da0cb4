"""What error bars cost: the bootstrap against loops that resample rows, and the closed forms."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.contest import by_turns, contestant
from benchmarks.figures import Bar, Figure, versus
from benchmarks.workload import Setup

FASTER_THAN_A_LOOP = Bar(20, at_least=True)
ADDED = Bar(1.5)
RESAMPLES = 10_000
LOOPS = {"plain": 2, "numpy": 400}  # resamples of the loops: each takes as long as the one before
_ROWS_SHARE = 10  # 100,000 of 1,000,000 rows
_TIMES = 10


def of_resampling(setup: Setup) -> Iterator[Figure]:
    """10,000 resamples of 100,000 rows, all metrics of the reasoning family."""
    path = setup.file("plain", ".jsonl", setup.rows // _ROWS_SHARE)
    runs = by_turns(
        setup.rounds,
        calipers=contestant("bootstrap", path, str(RESAMPLES)),
        plain=contestant("bootstrap_plain_python", path, str(LOOPS["plain"])),
        numpy=contestant("bootstrap_numpy", path, str(LOOPS["numpy"])),
    )
    ours = runs["calipers"]
    each = ours.seconds / RESAMPLES
    rows = f"{setup.rows // _ROWS_SHARE:,} rows"
    for name, words in (("plain", "Python loop over rows"), ("numpy", "NumPy loop over columns")):
        theirs = runs[name].seconds / LOOPS[name]
        yield Figure(
            name=f"bootstrap, per resample: {words} / calipers",
            value=theirs / each,
            bar=FASTER_THAN_A_LOOP if name == "plain" else None,
            binding=setup.is_full,
            detail=f"{theirs * 1e3:,.1f} ms / {each * 1e3:.2f} ms, {rows}, "
            f"{LOOPS[name]} resamples of the loop, {RESAMPLES:,} of calipers",
        )
    yield Figure(
        name="bootstrap: peak memory",
        value=ours.peak_bytes / 1e6,
        unit="MB",
        detail=rows,
    )


def of_intervals(setup: Setup) -> Iterator[Figure]:
    """What the closed forms add to scoring, by the processors' time and by the clock."""
    for words, kind in (("1 run a task", "plain"), ("5 runs a task", "repeats")):
        path = setup.file(kind, ".parquet", _TIMES * setup.rows)
        runs = by_turns(
            setup.rounds,
            with_intervals=contestant("calipers", path),
            without=contestant("without_intervals", path),
        )
        both, without = runs["with_intervals"], runs["without"]
        name = f"Parquet, all metrics, {words}: with intervals / without"
        yield Figure(
            name=f"{name}, of processors",
            value=both.cpu_seconds / without.cpu_seconds,
            bar=ADDED,
            binding=setup.is_full,
            detail=f"{_TIMES * setup.rows:,} rows; peak memory {both.peak_bytes / 1e6:,.0f} MB / "
            f"{without.peak_bytes / 1e6:,.0f} MB",
        )
        yield Figure(
            name=name,
            value=both.seconds / without.seconds,
            bar=ADDED,
            binding=setup.is_full,
            detail=versus(both, without),
        )

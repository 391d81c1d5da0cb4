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
    """What the closed forms add to scoring."""
    files = {
        "1 run a task": setup.file("plain", ".parquet", _TIMES * setup.rows),
        "5 runs a task": setup.file("repeats", ".parquet"),
    }
    for words, path in files.items():
        runs = by_turns(
            setup.rounds,
            with_intervals=contestant("calipers", path),
            without=contestant("without_intervals", path),
        )
        yield Figure(
            name=f"Parquet, all metrics, {words}: with intervals / without",
            value=runs["with_intervals"].seconds / runs["without"].seconds,
            bar=ADDED,
            binding=setup.is_full,
            detail=versus(runs["with_intervals"], runs["without"]),
        )

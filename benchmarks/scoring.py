"""How long scoring takes, against plain Python and against Polars, which only reads the file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchmarks.contest import by_turns, contestant, largest_difference
from benchmarks.figures import Bar, Figure, versus
from benchmarks.workload import Setup

METRICS = (  # Z 2 to Z 6
    "accuracy",
    "usr",
    "error_rate",
    "brier",
    "ece",
    "sce",
    "sce_normalized",
    "cot_tokens_mean",
    "cot_chars_mean",
    "step_count_mean",
    "ra_ratio_mean",
    "self_correction_rate",
    "prompt_tokens_mean",
    "completion_tokens_mean",
    "total_tokens_mean",
    "latency_mean_ms",
    "latency_p95_ms",
)
SAME = Bar(1e-9)
FASTER_THAN_PLAIN_PYTHON = Bar(4, at_least=True)
OF_READING = Bar(1.8)


def against_python(setup: Setup) -> Iterator[Figure]:
    path = setup.file("plain", ".jsonl")
    runs = by_turns(
        setup.rounds,
        plain=contestant("plain_python", path),
        lean=contestant("lean_python", path),
        calipers=contestant("calipers", path, *METRICS),
    )
    ours, plain, lean = runs["calipers"], runs["plain"], runs["lean"]
    yield Figure(
        name="plain Python / calipers",
        value=plain.seconds / ours.seconds,
        bar=FASTER_THAN_PLAIN_PYTHON,
        binding=setup.is_full,
        detail=f"{versus(plain, ours)}, {_size(path)}",
    )
    yield Figure(
        name="lean one-pass Python / calipers",
        value=lean.seconds / ours.seconds,
        detail=versus(lean, ours),
    )
    for name, peer in (("plain", plain), ("lean", lean)):
        yield Figure(
            name=f"numbers: calipers - {name} Python",
            value=largest_difference(ours.values, peer.values),
            unit="",
            bar=SAME,
            detail="the largest relative difference",
        )


def against_reading(setup: Setup) -> Iterator[Figure]:
    path = setup.file("plain", ".jsonl")
    runs = by_turns(
        setup.rounds,
        polars=contestant("polars_read", path),
        calipers=contestant("calipers", path, *METRICS),
    )
    ours, reading = runs["calipers"], runs["polars"]
    yield Figure(
        name="calipers / Polars read_ndjson",
        value=ours.seconds / reading.seconds,
        bar=OF_READING,
        binding=setup.is_full,
        detail=f"{versus(ours, reading)}, {_size(path)}",
    )


def of_repeats(setup: Setup) -> Iterator[Figure]:
    runs = by_turns(
        setup.rounds,
        unique=contestant("calipers", setup.file("plain", ".parquet")),
        repeated=contestant("calipers", setup.file("repeats", ".parquet")),
    )
    repeated, unique = runs["repeated"], runs["unique"]
    yield Figure(
        name="Parquet, all metrics: 5 runs a task / 1 run",
        value=repeated.seconds / unique.seconds,
        detail=versus(repeated, unique),
    )


def _size(path: Path) -> str:
    return f"{path.stat().st_size / 1e6:,.0f} MB"

"""How long scoring takes, against plain Python and against Polars, which only reads the file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchmarks.contest import ROOT, by_turns, contestant, largest_difference
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
OF_READING = Bar(3)
EQUATION_SHARE = 50  # one row in so many: the plain reference takes about a millisecond for each


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


def of_equations(setup: Setup) -> Iterator[Figure]:
    path = setup.file("plain", ".jsonl")
    runs = by_turns(
        setup.rounds,
        without=contestant("calipers", path, *METRICS),
        with_math_usr=contestant("calipers", path, *METRICS, "math_usr"),
    )
    costly, base = runs["with_math_usr"], runs["without"]
    yield Figure(
        name="no “=” in the cots: with math_usr / without",
        value=costly.seconds / base.seconds,
        detail=versus(costly, base),
    )
    path = setup.file("equations", ".jsonl", max(setup.rows // EQUATION_SHARE, 1))
    has_reference = Path(ROOT, "tests", "conformance", "reference.py").exists()
    peer = "reference_equations" if has_reference else "plain_python"
    runs = by_turns(
        setup.rounds,
        peer=contestant(peer, path),
        without=contestant("calipers", path, *METRICS),
        with_math_usr=contestant("calipers", path, *METRICS, "math_usr"),
        math_usr=contestant("calipers", path, "math_usr"),
    )
    alone, reference = runs["math_usr"], runs["peer"]
    costly, base = runs["with_math_usr"], runs["without"]
    yield Figure(
        name="equations in the cots: with math_usr / without",
        value=costly.seconds / base.seconds,
        detail=f"{versus(costly, base)}, {_size(path)}",
    )
    yield Figure(
        name=f"equations in the cots: {peer} / math_usr",
        value=reference.seconds / alone.seconds,
        detail=versus(reference, alone),
    )
    if has_reference:
        yield Figure(
            name="numbers: math_usr - its reference",
            value=largest_difference(alone.values, reference.values),
            unit="",
            bar=SAME,
            detail="the largest relative difference",
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

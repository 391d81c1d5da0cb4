"""Texts and traces: chains of thought that differ, with and without the native library; similarity.

Without the library is what users have where the package was built without Rust. The real texts are
chains of GSM8K, each line altered so that none repeats. Pairs of texts are reviews that two people
wrote of the same paper (PeerRead); both lie beside the checkout, or generated texts stand in.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path
from random import Random

from benchmarks.figures import Bar, Figure, versus
from benchmarks.peers import TRACE_METRICS
from benchmarks.processes import (
    ROOT,
    Run,
    Setup,
    by_turns,
    calipers,
    find_largest_difference,
    peer,
)

SAME = Bar(1e-9)
AT_MOST_TWICE = Bar(2)
FASTER_THAN_NETWORKX = Bar(8, at_least=True)
FASTER_THAN_PAIR_BY_PAIR = Bar(4, at_least=True)
_TEXT_SHARE = 5  # one in so many rows of the workload: 200,000 chains
_TRACE_SHARE = 100
REAL = ROOT.parent / "shared" / "data" / "reasoning"
PEERREAD = ROOT.parent / "shared" / "data" / "reviews" / "peerread_review_pairs.jsonl"
PAIRS = 800
WORDS = (300, 1500)  # of a generated text
VOCABULARY = 20_000
SEED = 3


def measure_texts(setup: Setup) -> Iterator[Figure]:
    """Score chains of thought that differ, as JSON lines, and short lines without any."""
    rows = max(setup.rows // _TEXT_SHARE, 1)
    yield from _measure_lines(setup, setup.file("records", ".jsonl", rows), "short lines")
    path = setup.file("texts", ".jsonl", rows)
    yield from _measure_lines(setup, path, "chains of thought, all different", AT_MOST_TWICE)
    if REAL.is_dir():
        path = _alter_real_texts(setup.folder, rows)
        yield from _measure_lines(setup, path, "chains of GSM8K, altered until all differ")


def _measure_lines(
    setup: Setup, path: Path, texts: str, bar: Bar | None = None
) -> Iterator[Figure]:
    command = ("score", path, "--by", "model", "--format", "json")
    runners = {"native": calipers(*command), "pure": calipers(*command, native=False)}
    comparable = "real" not in path.name  # those have other fields
    if comparable:
        runners["polars"] = peer("polars_score", path)
    runs = by_turns(setup.rounds, runners)
    native, pure = runs["native"], runs["pure"]
    size = f"{path.stat().st_size / 1e6:,.0f} MB"
    if comparable:
        for words, run in (("with", native), ("without", pure)):
            yield Figure(
                name=f"{texts}, {words} the native library: all metrics / Polars by hand",
                value=run.cpu_seconds / runs["polars"].cpu_seconds,
                bar=bar if words == "with" else None,
                binding=setup.is_full,
                detail=f"{versus(run, runs['polars'])}, {size}",
            )
    yield Figure(
        name=f"{texts}: without the native library / with",
        value=pure.cpu_seconds / native.cpu_seconds,
        detail=f"{versus(pure, native)}, {size}",
    )
    yield _check_numbers(f"{texts}: numbers with and without the library", native, pure)
    if comparable:
        yield _check_numbers(f"{texts}: numbers, calipers - Polars by hand", native, runs["polars"])


def _check_numbers(name: str, ours: Run, theirs: Run) -> Figure:
    difference = find_largest_difference(ours.read_values(), theirs.read_values())
    return Figure(name=name, value=difference, unit="", bar=SAME, detail="the largest difference")


def _alter_real_texts(folder: Path, rows: int) -> Path:
    """Write records with chains of GSM8K, each line of each with a number of its own."""
    path = folder.resolve() / f"real-chains-{rows}.jsonl"
    if not path.exists():
        chains = [
            json.loads(line)
            for file in sorted(REAL.glob("gsm8k*.jsonl"))
            for line in file.read_text("utf-8").split("\n")
            if line and '"cot": null' not in line
        ]
        unfinished = path.with_name(f"{path.name}.unfinished")
        with unfinished.open("w", encoding="utf-8") as file:
            for number, record in enumerate(islice(cycle(chains), rows)):
                cot = "\n".join(f"{line} ({number})" for line in record["cot"].split("\n"))
                file.write(json.dumps(record | {"id": f"task-{number}", "cot": cot}) + "\n")
        unfinished.rename(path)
    return path


def measure_traces(setup: Setup) -> Iterator[Figure]:
    """Read traces, build both graphs of each, and measure them."""
    rows = setup.rows // _TRACE_SHARE
    path = setup.file("traces", ".jsonl", rows)
    named = [word for name in TRACE_METRICS for word in ("--metric", name)]
    runs = by_turns(
        setup.rounds,
        {
            "networkx": peer("networkx_traces", path),
            "calipers": calipers("score", path, "--by", "model", "--format", "json", *named),
        },
    )
    ours, theirs = runs["calipers"], runs["networkx"]
    yield Figure(
        name="traces: networkx / calipers",
        value=theirs.cpu_seconds / ours.cpu_seconds,
        bar=FASTER_THAN_NETWORKX,
        binding=setup.is_full,
        detail=f"{versus(theirs, ours)}, {rows:,} traces",
    )
    yield _check_numbers("traces: numbers, calipers - networkx", ours, theirs)


def measure_similarity(setup: Setup) -> Iterator[Figure]:
    """Compare pairs of texts, against P's own code: scikit-learn and sets, pair by pair."""
    path = _write_pairs(setup.folder)
    texts = f"{name_source()}, {path.stat().st_size / 1e6:.1f} MB"
    for metric, name, called, bar in (
        ("cosine_similarity", "scikit_cosine", "scikit-learn pair by pair", True),
        ("jaccard_similarity", "python_jaccard", "Python's sets pair by pair", False),
    ):
        command = ("score", path, "--format", "json", "--metric", metric)
        runs = by_turns(setup.rounds, {"ours": calipers(*command), "peer": peer(name, path)})
        yield Figure(
            name=f"{metric}: {called} / calipers",
            value=runs["peer"].cpu_seconds / runs["ours"].cpu_seconds,
            bar=FASTER_THAN_PAIR_BY_PAIR if bar else None,
            detail=f"{versus(runs['peer'], runs['ours'])}, {texts}",
        )
        yield _check_numbers(f"{metric}: numbers, calipers - {called}", runs["ours"], runs["peer"])


def name_source() -> str:
    """Return where the pairs of texts come from."""
    return "PeerRead's pairs of reviews" if PEERREAD.exists() else "generated pairs"


def _write_pairs(folder: Path) -> Path:
    path = folder.resolve() / "pairs.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for number, (answer, reference) in enumerate(list_pairs()):
            row = {"id": str(number), "answer": answer, "reference": reference}
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
    return path


def list_pairs() -> Iterator[tuple[str, str]]:
    """Yield what two people wrote of the same paper, or generated texts of the same lengths."""
    if not PEERREAD.exists():
        yield from _generate_pairs()
        return
    with PEERREAD.open(encoding="utf-8", newline="\n") as lines:
        for line in lines:
            row = json.loads(line)
            yield row["text1"], row["text2"]


def _generate_pairs() -> Iterator[tuple[str, str]]:
    """Yield words by Zipf's law: few are common, most are rare."""
    random = Random(SEED)
    letters = "etaoinshrdlucmfwypvbgkjqxzé"
    words = ["".join(random.choices(letters, k=random.randint(2, 11))) for _ in range(VOCABULARY)]
    words[:4] = ["the", "of", "and", "to"]
    weights = [1 / rank for rank in range(1, VOCABULARY + 1)]
    for _ in range(PAIRS):
        first, second = (
            " ".join(random.choices(words, weights, k=random.randint(*WORDS))) for _ in range(2)
        )
        yield first, second

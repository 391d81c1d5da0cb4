"""The workload: seeded records of several systems, in no order, as JSON lines or Parquet.

`python -m benchmarks.generate KIND ROWS PATH [PARTS]` writes `ROWS` records. Rows come in batches,
so that ten million take no more memory than one batch; a step that is prime to their number visits
each row once, far from its neighbours, so that a task's rows lie apart as in a log of many workers.
Every chain of thought has numbers of its own: no text repeats.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from math import gcd
from pathlib import Path
from random import Random

import numpy as np
import polars as pl
from numpy.typing import NDArray
from polars.io.plugins import register_io_source

from benchmarks import generated_traces

Whole = NDArray[np.int64]

SEED = 20
BATCH_ROWS = 100_000  # also of a Parquet row group
MODELS = ("gpt-4o-mini", "claude-sonnet-4", "llama3.1-70b-instruct", "Qwen2.5-7B")
SIDES = {"base": 0.70, "candidate": 0.71}  # two systems, a file each, and what they get right
TIERS, RUNS = 1_000, 10
_STEP = 7_368_787  # a prime

_NAMES = ("Anna", "Ben", "Chidi", "Dana", "Emil", "Farah", "Hiro", "Amélie", "Łukasz", "Zoë")
_THINGS = ("apples", "marbles", "tickets", "pages", "pancakes", "stamps", "litres", "peppers")
_VERBS = ("buys", "sells", "packs", "counts", "borrows", "gives away", "orders", "finds")
_WAYS = (
    "so we add the two amounts together",
    "and what is left has to be shared out evenly",
    "which is twice as many as on the day before",
    "so the price has to be taken once for each of them",
    "as the question asks only for the total",
)
_POOL = 2_000
_CORRECTED = 0.04


def write(kind: str, rows: int, path: Path, parts: int = 0) -> None:
    """Write the records; under another name until they are whole.

    Args:
        kind: One of `BATCHES`, or `traces`.
        rows: How many records.
        path: A file that ends in .parquet or .jsonl.
        parts: How many categories or systems the records have, or agents a trace, where the kind
            has many.
    """
    unfinished = path.with_name(f"{path.name}.unfinished")
    if kind == "traces":
        with unfinished.open("w", encoding="utf-8") as file:
            file.writelines(generated_traces.lines(rows, parts))
    else:
        batches = (
            BATCHES[kind](_shuffle(start, rows), np.random.default_rng([SEED, start]), parts)
            for start in range(0, rows, BATCH_ROWS)
        )
        if path.suffix == ".parquet":
            _write_parquet(batches, unfinished)
        else:
            with unfinished.open("wb") as lines:
                for batch in batches:
                    batch.write_ndjson(lines)
    unfinished.rename(path)


def _shuffle(start: int, rows: int) -> Whole:
    """Return which rows a batch has."""
    step = _STEP
    while gcd(step, rows) > 1:
        step += 2
    return np.arange(start, min(start + BATCH_ROWS, rows), dtype=np.int64) * step % rows


def _write_parquet(batches: Iterator[pl.DataFrame], path: Path) -> None:
    first = next(batches)

    def source(*_: object) -> Iterator[pl.DataFrame]:
        yield first
        yield from batches

    frame = register_io_source(source, schema=first.schema)
    frame.sink_parquet(path, row_group_size=BATCH_ROWS)


def _make_records(numbers: Whole, rng: np.random.Generator, _: int) -> pl.DataFrame:
    """Every model answers every task once."""
    models = pl.Series("model", MODELS).gather(numbers % len(MODELS))
    return _answer(numbers // len(MODELS), models, rng)


def _make_grouped(numbers: Whole, rng: np.random.Generator, groups: int) -> pl.DataFrame:
    """Records in so many categories; a task is of one category, and has one answer."""
    category = ("category-" + pl.Series(numbers % groups).cast(pl.String)).alias("category")
    models = pl.Series("model", MODELS[:1]).gather(np.zeros(len(numbers), np.int64))
    return _answer(numbers, models, rng).with_columns(category)


def _make_systems(numbers: Whole, rng: np.random.Generator, systems: int) -> pl.DataFrame:
    """So many systems answer every task; each is a little better than the one before."""
    system = numbers % systems
    models = "system-" + pl.Series(system).cast(pl.String).str.zfill(5)
    return _answer(numbers // systems, models, rng, 0.5 + 0.4 * system / systems)


def _make_side(side: str) -> Callable[[Whole, np.random.Generator, int], pl.DataFrame]:
    def make(numbers: Whole, rng: np.random.Generator, _: int) -> pl.DataFrame:
        own = rng.spawn(len(SIDES))[list(SIDES).index(side)]
        models = pl.Series("model", MODELS[:1]).gather(np.zeros(len(numbers), np.int64))
        return _answer(numbers, models, own, SIDES[side])

    return make


def _make_texts(numbers: Whole, rng: np.random.Generator, _: int) -> pl.DataFrame:
    """Records with chains of thought of about 500 characters, equations in prose and in marks."""
    count = len(numbers)
    pool = _pool_sentences()
    first, second, third = (pl.Series(rng.integers(2, 90, size=count)) for _ in range(3))
    off = pl.Series((rng.random(count) < 0.1).astype(np.int64))
    frame = _make_records(numbers, rng, 0).with_columns(
        _opening=pool.gather(rng.integers(_POOL, size=count)),
        _middle=pool.gather(rng.integers(_POOL, size=count)),
        _name=pl.Series(_NAMES).gather(rng.integers(len(_NAMES), size=count)),
        _a=first,
        _b=second,
        _c=third,
        _product=first * second + off,
        _sum=first * second + off + third,
        _number=pl.Series(numbers),
    )
    cot = pl.format(
        "1. {}\n2. {} has {} * {} = {} of them, case {}.\n3. {}\n"
        "That makes {}+{} = <<{}+{}={}>>{} in all.\nTherefore the answer is {}.",
        *("_opening", "_name", "_a", "_b", "_product", "_number", "_middle"),
        *("_product", "_c", "_product", "_c", "_sum", "_sum"),
        pl.col("answer").fill_null("unknown"),
    )
    question = pl.format("{} How many are there by the end of week {}?", "_opening", "_number")
    return frame.with_columns(input=question, cot=cot).select(pl.exclude("^_.*$"))


def _make_judgments(numbers: Whole, rng: np.random.Generator, _: int) -> pl.DataFrame:
    """Records that three judges have scored."""
    quality = rng.random(len(numbers))
    judged = []
    for judge in ("gpt-4o", "claude-opus-4", "gemini-2.5-pro"):
        score = np.clip(quality + rng.normal(0, 0.15, len(numbers)), 0, 1).round(2)
        names = pl.Series("judge", [judge]).gather(np.zeros(len(numbers), np.int64))
        scores = pl.Series("weighted_score", score)
        judged.append(pl.struct(names, scores, (scores >= 0.5).alias("passed"), eager=True))
    judgments = pl.concat_list([pl.lit(each) for each in judged]).alias("judgments")
    return _make_records(numbers, rng, 0).with_columns(judgments)


def _make_tiers(numbers: Whole, rng: np.random.Generator, _: int) -> pl.DataFrame:
    """Ten runs of each task in a thousand tiers: what passed, how far, cost and time."""
    count, tries = len(numbers), numbers // TIERS
    return pl.DataFrame(
        {
            "id": "task-" + pl.Series(tries // RUNS).cast(pl.String).str.zfill(5),
            "tier": "T" + pl.Series(numbers % TIERS).cast(pl.String).str.zfill(3),
            "run": tries % RUNS + 1,
            "passed": rng.random(count) < 0.6,
            "impl_rate": np.round(rng.random(count), 2),
            "cost_usd": np.round(rng.gamma(2, 0.02, count), 6),
            "duration_seconds": np.round(rng.gamma(3, 20, count), 3),
        }
    )


BATCHES: dict[str, Callable[[Whole, np.random.Generator, int], pl.DataFrame]] = {
    "records": _make_records,
    "grouped": _make_grouped,
    "systems": _make_systems,
    "texts": _make_texts,
    "judgments": _make_judgments,
    "tiers": _make_tiers,
    **{side: _make_side(side) for side in SIDES},
}


def _answer(
    tasks: Whole,
    models: pl.Series,
    rng: np.random.Generator,
    right: float | NDArray[np.float64] = 0.7,
) -> pl.DataFrame:
    """Return answers to tasks: some wrong, 1 % null, and some spelt in another way."""
    count = len(tasks)
    targets = (tasks * 2_654_435_761 % 99_991) + 1  # the same for all who answer a task
    wrong = rng.random(count) >= right
    found = targets + np.where(wrong, rng.integers(1, 10, size=count), 0)
    sure = np.where(wrong, rng.beta(4, 3, size=count), rng.beta(6, 2, size=count))
    text, spelling = pl.col("_found"), pl.col("_spelling")
    with_comma = text.str.replace(r"^(\d+)(\d{3})$", "${1},${2}")
    answer = (
        pl.when(spelling < 0.01)
        .then(None)
        .when(spelling < 0.06)
        .then(text + ".0")
        .when(spelling < 0.30)
        .then(with_comma)
        .otherwise(text)
    )
    frame = pl.DataFrame(
        {
            "id": "task-" + pl.Series(tasks).cast(pl.String).str.zfill(8),
            "model": models,
            "target": targets.astype(str),
            "_found": found.astype(str),
            "_spelling": rng.random(count),
            "prob_correct": np.round(sure, 4),
            "prompt_tokens": rng.integers(60, 400, size=count),
            "completion_tokens": rng.integers(40, 900, size=count),
            "latency_ms": np.round(rng.lognormal(7, 0.6, size=count), 1),
        }
    )
    return frame.with_columns(answer=answer).drop("_found", "_spelling")


def _pool_sentences() -> pl.Series:
    random = Random(SEED)
    return pl.Series(
        f"{random.choice(_NAMES)} {random.choice(_VERBS)} {random.randint(2, 900)} "
        f"{random.choice(_THINGS)}, {random.choice(_WAYS)}. {random.choice(_NAMES)} "
        f"{random.choice(_VERBS)} {random.randint(2, 900)} more, {random.choice(_WAYS)}."
        f"{' Actually, that leaves one out.' if random.random() < _CORRECTED else ''}"
        for _ in range(_POOL)
    )


def main() -> None:
    """Write the file that the command line names."""
    kind, rows, path, *parts = sys.argv[1:]
    write(kind, int(rows), Path(path), *map(int, parts))


if __name__ == "__main__":
    main()

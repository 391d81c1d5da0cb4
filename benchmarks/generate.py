"""The workload: seeded records of about 750 bytes, of four models, as JSON lines or Parquet.

Records come in batches, so that ten million rows take no more memory than one batch. Texts are put
together from pools of prebuilt paragraphs: few rows share a whole chain of thought.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import numpy as np
import polars as pl
from numpy.typing import NDArray
from polars.io.plugins import register_io_source

from benchmarks import generated_tiers, generated_traces

LineWriter = Callable[[Random], str]
Whole = NDArray[np.int64]

SEED = 20
BATCH_ROWS = 100_000  # also of a Parquet row group; holds whole tasks
POOL = 2_000
MODELS = ("atlas-small", "atlas-large", "borealis", "cirrus-mini")
RUNS = 5  # of a task, where tasks have several

_NAMES = ("Anna", "Ben", "Chidi", "Dana", "Emil", "Farah", "Grete", "Hiro", "Isla", "Jonas")
_ACCENTED_NAMES = ("Amélie", "Łukasz", "Zoë")
_THINGS = ("apples", "marbles", "tickets", "pages", "pancakes", "stamps", "litres", "peppers")
_VERBS = ("buys", "sells", "packs", "counts", "borrows", "gives away", "orders", "finds")
_WAYS = (
    "so we add the two amounts together",
    "and what is left has to be shared out evenly",
    "which is twice as many as on the day before",
    "so the price has to be taken once for each of them",
    "and the rest goes back on the shelf",
    "as the question asks only for the total",
)
_CORRECTIONS = ("Actually, that leaves one out.", "Sorry, the first amount was the larger one.")
_ACCENTED = 0.05  # of the lines, so that about a quarter of the texts are not all ASCII
_CORRECTED = 0.04  # of the paragraphs
_WRONG_EQUATIONS = 0.1
_TIMES = "\N{MULTIPLICATION SIGN}"


def write(kind: str, rows: int, path: Path) -> None:
    """Write `rows` records; under another name until they are whole."""
    unfinished = path.with_name(f"{path.name}.unfinished")
    if kind == "traces":
        with unfinished.open("w", encoding="utf-8") as file:
            file.writelines(generated_traces.lines(rows))
    elif kind == "tiers":
        _write_parquet(generated_tiers.batches(rows, BATCH_ROWS), unfinished)
    elif kind == "narrow":  # without the long texts
        _write_parquet(
            (batch.drop("input", "cot") for batch in _batches("plain", rows)), unfinished
        )
    elif kind in MODELS:  # the answers of this model alone
        own = (batch.filter(pl.col("model") == kind) for batch in _batches("plain", rows))
        _write_parquet(own, unfinished)
    elif path.suffix == ".parquet":
        _write_parquet(_batches(kind, rows), unfinished)
    else:
        with unfinished.open("wb") as file:
            for batch in _batches(kind, rows):
                batch.write_ndjson(file)
    unfinished.rename(path)


def _write_parquet(batches: Iterator[pl.DataFrame], path: Path) -> None:
    first = next(batches)

    def source(*_: object) -> Iterator[pl.DataFrame]:
        yield first
        yield from batches

    frame = register_io_source(source, schema=first.schema)
    frame.sink_parquet(path, row_group_size=BATCH_ROWS)


def _batches(kind: str, rows: int) -> Iterator[pl.DataFrame]:
    """Make records `plain`, with `equations` in them, or with several runs of a task: `repeats`."""
    line = _equation if kind == "equations" else _sentence
    runs = RUNS if kind == "repeats" else 1
    random = Random(SEED)
    openings = _pool(random, line, numbered=True)
    middles = _pool(random, line, numbered=False)
    questions = pl.Series([_question(random) for _ in range(POOL)])
    for start in range(0, rows, BATCH_ROWS):
        rng = np.random.default_rng([SEED, start])
        count = min(BATCH_ROWS, rows - start)
        numbers = np.arange(start, start + count)
        task = (numbers - start) // (len(MODELS) * runs)  # within the batch
        frame = _answers(rng, _targets(rng, count)[task]).with_columns(
            *_identity(numbers, runs),
            input=questions.gather(rng.integers(POOL, size=count)[task]),
            _opening=openings.gather(rng.integers(POOL, size=count)),
            _middle=middles.gather(rng.integers(POOL, size=count)),
            prompt_tokens=rng.integers(60, 400, size=count),
            completion_tokens=rng.integers(40, 900, size=count),
            latency_ms=np.round(rng.lognormal(7, 0.6, size=count), 1),
        )
        yield frame.select(
            *(name for name in ("id", "model", "run") if name in frame.columns),
            "input",
            "target",
            "answer",
            pl.format(
                "{}\n\n{}\nTherefore the answer is {}.", "_opening", "_middle", "_found"
            ).alias("cot"),
            "prob_correct",
            "prompt_tokens",
            "completion_tokens",
            "latency_ms",
        )


def _identity(numbers: Whole, runs: int) -> Iterator[pl.Series]:
    """Every model answers every task, `runs` times."""
    tasks = pl.Series(numbers // (len(MODELS) * runs)).cast(pl.String).str.zfill(8)
    yield ("task-" + tasks).alias("id")
    yield pl.Series("model", MODELS).gather(numbers % len(MODELS))
    if runs > 1:
        yield pl.Series("run", numbers // len(MODELS) % runs + 1)


def _targets(rng: np.random.Generator, count: int) -> Whole:
    """Mostly small, up to five digits."""
    return np.clip(rng.lognormal(4.5, 1.6, size=count), 1, 99_999).astype(np.int64)


def _answers(rng: np.random.Generator, targets: Whole) -> pl.DataFrame:
    """Answers to the targets: 30 % are wrong, 1 % null, and some spelt in another way."""
    count = len(targets)
    wrong = rng.random(count) < 0.3
    found = targets + np.where(wrong, rng.integers(1, 10, size=count), 0)
    sure = np.where(wrong, rng.beta(4, 3, size=count), rng.beta(6, 2, size=count))
    text, spelling = pl.col("_found"), pl.col("_spelling")
    with_comma = text.str.replace(r"^(\d+)(\d{3})$", "${1},${2}")
    return pl.DataFrame(
        {
            "target": targets.astype(str),
            "_found": found.astype(str),
            "_spelling": rng.random(count),
            "prob_correct": np.round(sure, 4),
        }
    ).with_columns(
        answer=pl.when(spelling < 0.01)
        .then(None)
        .when(spelling < 0.06)
        .then(text + ".0")
        .when(spelling < 0.30)
        .then(with_comma)
        .otherwise(text)
    )


def _name(random: Random) -> str:
    return random.choice(_ACCENTED_NAMES if random.random() < _ACCENTED else _NAMES)


def _question(random: Random) -> str:
    name, thing = _name(random), random.choice(_THINGS)
    first, second = random.randint(2, 90), random.randint(2, 90)
    return (
        f"{name} {random.choice(_VERBS)} {first} {thing} on Monday and {second} more on Tuesday. "
        f"How many {thing} are there by the end of the week?"
    )


def _pool(random: Random, line: LineWriter, *, numbered: bool) -> pl.Series:
    """Paragraphs of two or three steps, as a numbered list or with dashes and stars."""
    paragraphs = []
    for _ in range(POOL):
        count = random.choice((2, 3, 4))
        marks = (
            [f"{n}." for n in range(1, count + 1)] if numbered else [random.choice("-*")] * count
        )
        lines = [f"{mark} {line(random)}" for mark in marks]
        if random.random() < _CORRECTED:
            lines.append(random.choice(_CORRECTIONS))
        paragraphs.append("\n".join(lines))
    return pl.Series(paragraphs)


def _sentence(random: Random) -> str:
    return (
        f"{_name(random)} {random.choice(_VERBS)} {random.randint(2, 900)} "
        f"{random.choice(_THINGS)}, {random.choice(_WAYS)}."
    )


def _equation(random: Random) -> str:
    """Write a step that reckons: in prose, with a GSM8K mark, or in a chain."""
    a, b, c = random.randint(2, 60), random.randint(2, 60), random.randint(2, 9)
    off = random.random() < _WRONG_EQUATIONS
    product = a * b + off
    thing = random.choice(_THINGS)
    total = (a + b) * c + off
    return random.choice(
        (
            f"{_name(random)} has {a} * {b} = {product} {thing}, {random.choice(_WAYS)}.",
            f"That makes {a}*{b} = <<{a}*{b}={product}>>{product} {thing} in all.",
            f"Together ({a} + {b}) {_TIMES} {c} = {a + b} {_TIMES} {c} = {total} {thing}.",
            f"Each costs ${a}.50, so {c} of them cost {c} x ${a}.50 = ${c * a + c / 2 + off:,.2f}.",
        )
    )


def main() -> None:
    kind, rows, path = sys.argv[1:]
    write(kind, int(rows), Path(path))


if __name__ == "__main__":
    main()

"""Shapes that punish error bars: clusters of real benchmarks' sizes, and means with a long tail.

SWE-bench Verified has 500 tasks of twelve repositories, 231 of them of one. `SHAPES` of `shapes.py`
has clusters of equal size, and means of so many values that their tail matters less.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import polars as pl

from tests.shapes import Shape
from tests.simulated import DOCUMENT, Draw, Rng, table

SWE_BENCH = (231, 75, 44, 34, 32, 22, 22, 19, 10, 8, 2, 1)  # tasks per repository
ONE_LARGE = (60, *(3,) * 9)
_LEVEL = (0.25, 0.75)  # of tasks; a cluster moves all of its own by up to so much


def shares(sizes: tuple[int, ...], effect: float) -> Draw:
    """Right or wrong in clusters of these sizes, which move the chance by up to `effect`."""

    def draw(rng: Rng, datasets: int) -> pl.DataFrame:
        labels = np.repeat(np.arange(len(sizes)), sizes)
        moved = rng.uniform(-effect, effect, (datasets, len(sizes)))[:, labels]
        chance = rng.uniform(*_LEVEL, (datasets, labels.size)) + moved
        right = rng.random((datasets, labels.size)) < chance
        columns = {"correct": right, "impl_rate": right.astype(float)}
        named = {name: values[:, :, None] for name, values in columns.items()}
        return table({**named, DOCUMENT: labels[None, :, None]})

    return draw


def times(n: int, kind: str) -> Draw:
    """Times whose logarithm is normal, or with Pareto's tail of 2.5; both have a minimum of 0."""

    def draw(rng: Rng, datasets: int) -> pl.DataFrame:
        size = (datasets, n)
        drawn = rng.lognormal(0, 1, size) if kind == "lognormal" else rng.pareto(2.5, size) + 1
        return table({"latency_ms": drawn[:, :, None]})

    return draw


def _clusters() -> Iterator[Shape]:
    of_share = partial(Shape, metric="accuracy", method="wilson", truth=0.5, most=1.0)
    of_mean = partial(Shape, metric="impl_rate", method="logit t", truth=0.5, most=1.0)
    for shape in (of_share, of_mean):
        for name, sizes in (("SWE-bench Verified", SWE_BENCH), ("one of 60, nine of 3", ONE_LARGE)):
            for effect in (0.0, 0.2):
                yield shape(
                    name=f"repositories of {name}, effects to ±{effect:g}, `--cluster document`",
                    draw=shares(sizes, effect),
                    cluster=DOCUMENT,
                    quick=sizes is SWE_BENCH and effect > 0,
                )


def _tails() -> Iterator[Shape]:
    shape = partial(Shape, metric="latency_mean_ms", method="log t")
    for n, least in ((20, 0.88), (40, 0.91), (200, 0.92)):
        yield shape(
            name=f"lognormal, n = {n}, by skewness",
            draw=times(n, "lognormal"),
            truth=float(np.exp(0.5)),
            least=least,
            quick=n == 40,
        )
        yield shape(
            name=f"Pareto 2.5, n = {n}, by skewness",
            draw=times(n, "pareto"),
            truth=2.5 / 1.5,
            least=least,
        )


UNEQUAL = (*_clusters(), *_tails())

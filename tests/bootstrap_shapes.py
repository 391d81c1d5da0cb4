"""How often the 95 % intervals of `--resamples` hold the true value, on the shapes of `shapes`.

Where a metric, or a data set, is not for the bootstrap, the closed form stands: what is counted is
what a user is shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from zlib import crc32

import numpy as np

import calipers as cal
from tests.shapes import SEED, SHAPES, Shape
from tests.simulated import DATASET

RESAMPLES = 400
LEAST = 0.93
SLACK = 0.026  # two standard errors of a share of 400 data sets
BOOTSTRAP = "BCa bootstrap"


@dataclass(frozen=True, kw_only=True)
class Resampled:
    """The coverage of what is shown, its mean width, and how often it is the bootstrap's."""

    covered: float
    width: float
    resampled: float


def one_of_each() -> list[Shape]:
    """A shape per metric with tasks of one run, and one with tasks of several."""
    found: dict[tuple[str, bool], Shape] = {}
    for shape in SHAPES:
        found.setdefault((shape.metric, "tasks ×" in shape.name), shape)
    return list(found.values())


def coverage(shape: Shape, datasets: int) -> Resampled:
    """The share of so many data sets whose interval holds the true value."""
    rng = np.random.default_rng([SEED, crc32(f"{shape.metric}: {shape.name}".encode())])
    score = cal.score(
        shape.draw(rng, datasets),
        by=DATASET,
        metrics=[shape.metric],
        cluster=shape.cluster,
        **shape.settings,
        resamples=RESAMPLES,
    )
    found = [group.metrics[shape.metric] for group in score.groups]
    bounds = [(each.low, each.high) for each in found]
    known = [(low, high) for low, high in bounds if low is not None and high is not None]
    return Resampled(
        covered=sum(low <= shape.truth <= high for low, high in known) / len(known),
        width=sum(high - low for low, high in known) / len(known),
        resampled=sum(each.interval == BOOTSTRAP for each in found) / datasets,
    )

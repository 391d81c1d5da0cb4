"""Measures of agreement, in the library and in plain Python."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, get_args

import numpy as np

from calipers.statistics.agreement import (
    Level,
    cohen_kappa,
    fleiss_kappa,
    kendall,
    krippendorff_alpha,
    mean_cohen_kappa,
    pearson,
    percent_agreement,
    spearman,
    weighted_kappa,
)
from calipers.statistics.clusters import Floats
from calipers.statistics.estimates import Estimate, Sampling

Measure = Callable[[Floats, Sampling], Estimate]


LEVELS: tuple[Level, ...] = get_args(Level)


ALPHAS: dict[str, Measure] = {level: partial(krippendorff_alpha, level=level) for level in LEVELS}


OF_ALL: dict[str, Measure] = {
    "percent": percent_agreement,
    "mean kappa": mean_cohen_kappa,
    "fleiss": fleiss_kappa,
    **ALPHAS,
}


OF_PAIRS: dict[str, Measure] = {
    "percent": percent_agreement,
    "cohen": cohen_kappa,
    "weighted": weighted_kappa,
    "pearson": pearson,
    "spearman": spearman,
    "kendall": kendall,
}


EVERY = {**OF_ALL, **OF_PAIRS}


def apart(ratings: Floats, confidence: float = 0.95) -> Sampling:
    """Every unit a cluster of its own."""
    return Sampling(clusters=np.arange(len(ratings)), confidence=confidence)


def measured(measure: Measure, ratings: Any, **options: Any) -> Estimate:
    table = np.array(ratings, dtype=float)
    return measure(table, apart(table, **options))

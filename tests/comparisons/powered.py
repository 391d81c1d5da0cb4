"""Runs to plan with, and what plain Python says of them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import NormalDist
from typing import Any

import pytest

import calipers as cal
from calipers.comparisons.power import MetricPower
from tests import commands
from tests.files import write_lines

Record = dict[str, Any]


run, refused = partial(commands.run, "power"), partial(commands.refused, "power")


def records(runs: Mapping[str, Sequence[Any]], field: str = "correct", **more: Any) -> list[Record]:
    """A row per run; zeros and ones say whether it was right."""
    read = bool if field == "correct" else lambda value: value
    return [
        {"id": task, field: read(value), **more}
        for task, values in runs.items()
        for value in values
    ]


def tasks(*patterns: Sequence[Any], times: int = 1) -> dict[str, Sequence[Any]]:
    """Tasks that were run with these results, each pattern so many times."""
    return {f"t{place}": pattern for place, pattern in enumerate([*patterns] * times)}


def the_only(found: cal.PowerAnalysis, name: str = "accuracy") -> MetricPower:
    (group,) = found.groups
    return group.metrics[name]


def reach(power: float = 0.8, confidence: float = 0.95) -> tuple[float, float]:
    normal = NormalDist()
    return normal.inv_cdf((1 + confidence) / 2), normal.inv_cdf(power)


def needed(delta: float, variance: float, **sure: float) -> int:
    alpha, beta = reach(**sure)
    return math.ceil(((alpha + beta) / delta) ** 2 * variance + alpha**2 / 2)


def seen(tasks: int, variance: float, **sure: float) -> float:
    alpha, beta = reach(**sure)
    return (alpha + beta) * math.sqrt(variance / (tasks - alpha**2 / 2))


def components(runs: Iterable[Sequence[float]]) -> tuple[float, float, float]:
    """The variance between and within tasks, and the mean of 1 / runs."""
    each = [list(map(float, values)) for values in runs]
    within = statistics.fmean(statistics.variance(values) for values in each if len(values) > 1)
    share = statistics.fmean(1 / len(values) for values in each)
    means = [statistics.fmean(values) for values in each]
    return max(0.0, statistics.variance(means) - within * share), within, share


MANY: list[Record] = [
    {
        "id": str(n),
        "correct": n % 3 > 0,
        "prob_correct": 0.3 + 0.05 * (n % 10),
        "latency_ms": 100 + n,
        "answer": str(n),
    }
    for n in range(30)
]


@pytest.fixture
def data(tmp_path: Path) -> str:
    rows = records(tasks((1, 1), (1, 0), (0, 0), (1, 0), times=5), model="m0")
    return str(write_lines(tmp_path / "a.jsonl", [*rows, *records(tasks((1,)), model="m1")]))

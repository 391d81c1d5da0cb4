"""Runs to compare, and the command that compares them."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from hypothesis import HealthCheck
from hypothesis import strategies as st

from calipers.comparisons.compare_result import Compared, MetricComparison
from calipers.metrics import catalogue
from tests import commands
from tests.conformance.reference import REFERENCES
from tests.conformance.strategies import data_sets
from tests.examples import examples

Record = dict[str, Any]

WITHOUT_A_VALUE_PER_TASK = tuple(name for name in REFERENCES if catalogue()[name].averaged is None)
SHARES = {
    *("accuracy", "usr", "error_rate", "self_correction_rate"),
    *("mode_accuracy", "stability"),
}


run, refused = partial(commands.run, "compare"), partial(commands.refused, "compare")


def right(pattern: str, **more: Any) -> list[Record]:
    """A task per character: + was right, - was wrong."""
    return [
        {"id": f"t{place:02}", "correct": sign == "+", **more} for place, sign in enumerate(pattern)
    ]


def logs(tasks: int, seed: int, *, skill: float = 0.6, runs: int = 1) -> list[Record]:
    """Runs that look like those of a model."""
    chance = random.Random(seed)
    return [
        {
            "id": f"t{task:03}",
            "run": number + 1,
            "site": f"s{task % 7}",
            "target": "7",
            "answer": "7" if chance.random() < skill else chance.choice("12345"),
            "prob_correct": round(chance.random(), 3),
            "latency_ms": round(chance.expovariate(1 / 100), 3),
            "completion_tokens": chance.randrange(50, 100),
        }
        for task in range(tasks)
        for number in range(runs)
    ]


def the_only(found: Compared, name: str = "accuracy") -> MetricComparison:
    (pair,) = found.pairs
    return pair.metrics[name]


@st.composite
def two_runs(draw: st.DrawFn) -> tuple[list[Record], list[Record]]:
    """Two lists of records; few ids, some repeated, some on one side only, one on both."""
    sides = []
    for ids in ("abcd", "bcde"):
        [rows] = draw(data_sets(groups=1, rows=10))
        known = [{"id": "c", "answer": "7", "target": "7"}]
        sides.append(known + [{**row, "id": draw(st.sampled_from(ids))} for row in rows])
    return sides[0], sides[1]


slowly = examples(
    30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def by_id(rows: Iterable[Record]) -> dict[str, list[Record]]:
    found: dict[str, list[Record]] = defaultdict(list)
    for row in rows:
        found[row["id"]].append(row)
    return found


def answered(answers: Mapping[str, str], **more: Any) -> list[Record]:
    return [
        {"id": task, "target": "7", "answer": answer, **more} for task, answer in answers.items()
    ]

"""Logs drawn by chance: some runs of each task, and a site for each."""

from __future__ import annotations

import random
from typing import Any

Record = dict[str, Any]


def logs(tasks: int, seed: int = 0, *, runs: int = 1, sites: int = 7) -> list[Record]:
    chance = random.Random(seed)
    return [
        {
            "id": f"t{task}",
            "site": f"s{task % sites}",
            "target": "7",
            "answer": chance.choice("77123"),
            "prob_correct": chance.random(),
            "latency_ms": chance.expovariate(1 / 100),
            "cot": chance.choice(["1. 2 + 2 = 4", "sorry, 2 + 2 = 5\n- so", "no"]),
        }
        for task in range(tasks)
        for _ in range(runs)
    ]

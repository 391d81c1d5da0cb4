"""Every tier metric in plain Python, written from T and D: slow, literal, made to be checked against.

T is specs/001, D is DEFINITIONS.
"""

from __future__ import annotations

import math
from collections import Counter
from math import comb, inf
from statistics import median
from typing import Any

Record = dict[str, Any]
Value = float | None


def called(records: list[Record]) -> list[Record]:
    return [r for r in records if not r.get("error")]


def passed(run: Record) -> bool | None:
    """A violation fails; else the recorded field, else the judges' majority, where a tie fails."""
    if run.get("violations"):
        return False
    if run.get("passed") is not None:
        return bool(run["passed"])
    votes = [j["passed"] for j in run.get("judgments") or [] if j.get("passed") is not None]
    return sum(votes) > len(votes) / 2 if votes else None


def impl_rate(run: Record) -> Value:
    """The recorded field, else the median of the judges' weighted scores."""
    if run.get("impl_rate") is not None:
        return float(run["impl_rate"])
    judged = run.get("judgments") or []
    scores = [j["weighted_score"] for j in judged if j.get("weighted_score") is not None]
    return median(scores) if scores else None


def composite(run: Record, pass_weight: float, impl_weight: float) -> Value:
    did, rate = passed(run), impl_rate(run)
    if did is None or rate is None:
        return None
    return (did * pass_weight + rate * impl_weight) / (pass_weight + impl_weight)


def cost_of_pass(run: Record) -> Value:
    did, cost = passed(run), run.get("cost_usd")
    if did is None or cost is None:
        return None
    return float(cost) if did else inf


def judge_cost(run: Record) -> Value:
    """What all judges of the run cost together; null where one does not say."""
    costs = [judgment.get("cost_usd") for judgment in run.get("judgments") or []]
    return None if not costs or None in costs else math.fsum(costs)


def with_judges(run: Record) -> Record:
    """The run with its judges' cost in its own, where both are known."""
    if not run.get("judgments") or run.get("cost_usd") is None:
        return run
    added = judge_cost(run)
    return run | {"cost_usd": None if added is None else run["cost_usd"] + added}


def per_run(records: list[Record], weights: tuple[float, float]) -> dict[str, list[float]]:
    """The values of each metric, of the runs that have one."""
    runs = called(records)
    values: dict[str, list[Value]] = {
        "pass_rate": [None if (did := passed(run)) is None else float(did) for run in runs],
        "impl_rate": [impl_rate(run) for run in runs],
        "cost_usd": [run.get("cost_usd") for run in runs],
        "duration_seconds": [run.get("duration_seconds") for run in runs],
        "cost_of_pass": [cost_of_pass(run) for run in runs],
        "composite_score": [composite(run, *weights) for run in runs],
    }
    return {name: [v for v in each if v is not None] for name, each in values.items()}


def histogram(values: list[float]) -> tuple[int, ...] | None:
    """How many values from each twentieth of [0, 1] up to the next; 1 is in the last."""
    found = Counter(min(19, sum(value >= k / 20 for k in range(1, 21))) for value in values)
    return tuple(found[k] for k in range(20)) if values else None


def statistics(values: list[float]) -> dict[str, float | None] | None:
    """T's seven; with an infinite value among them the deviation is null."""
    if not values:
        return None
    ordered, n = sorted(values), len(values)
    mean = math.fsum(values) / n if inf not in values else inf
    most = max(Counter(values).values())
    return {
        "median": ordered[n // 2] if n % 2 else (ordered[n // 2 - 1] + ordered[n // 2]) / 2,
        "mean": mean,
        "mode": min(value for value, count in Counter(values).items() if count == most),
        "min": ordered[0],
        "max": ordered[-1],
        "std_dev": None
        if mean == inf
        else math.sqrt(math.fsum((v - mean) ** 2 for v in values) / n),
        "count": n,
    }


def cost_of_pass_of_all(records: list[Record]) -> Value:
    """Total cost over passes, of the runs with both."""
    runs = [run for run in called(records) if cost_of_pass(run) is not None]
    if not runs:
        return None
    passes = sum(bool(passed(run)) for run in runs)
    return math.fsum(run["cost_usd"] for run in runs) / passes if passes else inf


def pass_k(records: list[Record], k: int, *, every: bool) -> Value:
    """pass_at_k, or with `every` pass_hat_k: null where a task has fewer than k runs."""
    tasks: dict[str, list[bool]] = {}
    for run in called(records):
        did = passed(run) if passed(run) is not None else run.get("correct")
        if did is not None and run.get("id") is not None:
            tasks.setdefault(str(run["id"]), []).append(did)
    if not tasks or any(len(runs) < k for runs in tasks.values()):
        return None
    chances = []
    for runs in tasks.values():
        n, c = len(runs), sum(runs)
        chances.append(comb(c, k) / comb(n, k) if every else 1 - comb(n - c, k) / comb(n, k))
    return math.fsum(chances) / len(chances)

"""The cheapest way to a pass: what plain Python says, on both engines, in JSON, table and file."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import calipers as cal
from tests.engines_at_hand import needs_spark
from tests.examples import examples
from tests.files import write_lines

Row = dict[str, Any]

_runs = st.fixed_dictionaries(
    {
        "id": st.sampled_from(["a", "b", "c", "d"]),
        "tier": st.sampled_from(["T0", "T1", "T2"]),
        "passed": st.sampled_from([True, False, None]),
        "cost_usd": st.sampled_from([0.5, 1.0, 2.0, 4.0, None]),
    }
)


def costs_of_pass(rows: Sequence[Row]) -> dict[str, dict[str, float | None]]:
    """By task and tier, of the runs with both cost and outcome; None: passed at unknown cost."""
    spent: dict[tuple[str, str], list[float]] = defaultdict(list)
    passes: dict[tuple[str, str], int] = defaultdict(int)
    for row in rows:
        if row["passed"] is not None and row["cost_usd"] is not None:
            key = row["id"], row["tier"]
            spent[key].append(row["cost_usd"])
            passes[key] += row["passed"]
    solved = {(row["id"], row["tier"]) for row in rows if row["passed"]}
    found: dict[str, dict[str, float | None]] = defaultdict(dict)
    for task, tier in {*spent, *solved}:
        count = passes[task, tier]
        unpaid = None if (task, tier) in solved else math.inf
        found[task][tier] = math.fsum(spent[task, tier]) / count if count else unpaid
    return found


def cheapest(costs: Iterable[float | None]) -> float | None:
    """The smallest that is known; None where all that passed did so at unknown cost."""
    costs = list(costs)
    known = min((cost for cost in costs if cost is not None), default=math.inf)
    return None if known == math.inf and None in costs else known


def check(frontier: dict[str, Any], rows: Sequence[Row]) -> None:
    tasks = costs_of_pass(rows)
    best = {task: cheapest(costs.values()) for task, costs in tasks.items()}
    solved = [cost for cost in best.values() if cost is not None and cost < math.inf]
    unknown = sum(cost is None for cost in best.values())
    assert (frontier["tasks"], frontier["solved"]) == (len(best), len(solved) + unknown)
    if unknown:
        assert frontier["cost_of_pass"] is None
        assert "passed at unknown cost only" in frontier["reason"]
    elif len(solved) < len(best):
        assert frontier["cost_of_pass"] == "Infinity"
    else:
        assert frontier["cost_of_pass"] == pytest.approx(math.fsum(solved) / len(solved))
    around = frontier["solved_cost_of_pass"]
    if solved:
        assert around["value"] == pytest.approx(math.fsum(solved) / len(solved))
    if len(solved) > 1 and len(set(solved)) > 1:
        low, high = stats.t.interval(
            0.95, len(solved) - 1, around["value"], stats.sem(solved, ddof=1)
        )
        assert (around["low"], around["high"]) == pytest.approx((max(0.0, low), high))
    for group in frontier["groups"]:
        tier = group["by"]["tier"]
        on = [
            task
            for task, cost in best.items()
            if cost is not None and tasks[task].get(tier, math.inf) == cost < math.inf
        ]
        others = {task: cheapest(c for t, c in tasks[task].items() if t != tier) for task in on}
        gains = [
            other - (best[task] or 0.0)
            for task, other in others.items()
            if other is not None and other < math.inf
        ]
        assert group["tasks"] == sum(tier in costs for costs in tasks.values())
        assert group["best"] == len(on)
        assert group["only"] == sum(other == math.inf for other in others.values())
        assert group["saves"] == (pytest.approx(math.fsum(gains) / len(gains)) if gains else None)


@given(rows=st.lists(_runs, min_size=1, max_size=30))
@examples(50, deadline=None)
def test_it_is_what_plain_python_says(rows: list[Row]) -> None:
    found = cal.score(rows, by="tier", profile="tiers").to_dict().get("frontier")
    tiers = {tier for costs in costs_of_pass(rows).values() for tier in costs}
    assert (found is None) == (len(tiers) < 2)
    if found is not None:
        check(found, rows)


@needs_spark
@pytest.mark.long
def test_spark_says_the_same(tmp_path: Path) -> None:
    rows = [
        {"id": str(n % 7), "tier": f"T{n % 3}", "passed": n % 5 > 1, "cost_usd": 0.5 + n % 4}
        for n in range(60)
    ]
    path = write_lines(tmp_path / "runs.jsonl", rows)
    check(cal.score(path, by="tier", profile="tiers", engine="spark").to_dict()["frontier"], rows)


def test_the_table_and_the_file_show_it(tmp_path: Path) -> None:
    rows = [
        {"id": "a", "tier": "T0", "passed": True, "cost_usd": 1.0},
        {"id": "a", "tier": "T1", "passed": True, "cost_usd": 3.0},
        {"id": "b", "tier": "T0", "passed": False, "cost_usd": 1.0},
        {"id": "b", "tier": "T1", "passed": True, "cost_usd": 4.0},
        {"id": "c", "tier": "T1", "passed": False, "cost_usd": 4.0},
    ]
    path = tmp_path / "tasks.jsonl"
    score = cal.score(rows, by="tier", profile="tiers", per_task=path)
    text = " ".join(str(score).split())
    assert "cheapest way to a pass: 2 [0, 22] USD a task, 2 of 3 tasks solved" in text
    assert "T0: cheapest for 1 of its 2, 2 USD below the next" in text
    assert "T1: cheapest for 1 of its 3; alone in solving 1" in text
    written = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert [(row["id"], row["frontier_cost_of_pass"], row["on_frontier"]) for row in written] == [
        ("a", 1.0, True),
        ("b", 4.0, False),
        ("a", 1.0, False),
        ("b", 4.0, True),
        ("c", "Infinity", False),
    ]

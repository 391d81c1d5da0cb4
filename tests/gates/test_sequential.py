"""Checks that are decided while a run goes on."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from calipers.gates.baselines import RecordedGroup
from calipers.gates.policy import read_policy
from calipers.gates.policy_fields import share_scale
from calipers.gates.sequential_checks import CheckSequence, Demand, TaskValue
from calipers.metrics.thresholds import parse_threshold

SHARE = share_scale("pass_rate")


def sequence(written: str, tasks: int, *, of_these: bool = True) -> CheckSequence:
    demand = Demand(name="pass_rate", on=parse_threshold(written, SHARE))
    return CheckSequence(demand, range(tasks), alpha=0.05, of_these=of_these)


def values(*known: float) -> list[tuple[int, TaskValue]]:
    return [(at, TaskValue(value, value)) for at, value in enumerate(known)]


@given(
    outcomes=st.lists(st.sampled_from([0.0, 1 / 3, 0.5, 1.0]), min_size=1, max_size=30),
    written=st.sampled_from(["≥ 50%", "> 50%", "= 100%", "≥ 100%", "≥ 90%", "= 50%", "> 0%"]),
)
def test_with_all_tasks_done_it_is_the_ordinary_verdict(
    outcomes: list[float], written: str
) -> None:
    """Unless the bets were won before, which they rarely are against the truth."""
    check = sequence(written, len(outcomes))
    check.take(values(*outcomes))
    on = check.demand.on
    assert on is not None
    truth = "pass" if on.is_met(sum(outcomes) / len(outcomes)) else "fail"
    standing = check.describe()
    assert standing.tasks == standing.of == len(outcomes)
    assert (standing.low, standing.high) == pytest.approx(2 * (np.mean(outcomes),))
    if on.is_exact or check.describe().after == len(outcomes):
        assert check.decided == truth


def test_only_the_order_drawn_counts() -> None:
    check = sequence("≥ 50%", 100)
    check.take((at, TaskValue(1, 1)) for at in range(1, 60))
    assert (check.decided, check.describe().tasks) == (None, 0)
    check.take([(0, TaskValue(1, 1))])
    assert (check.decided, check.describe().tasks) == ("pass", 60)
    assert check.describe().after == pytest.approx(9, abs=3)


def test_one_that_failed_is_enough_where_all_must_pass() -> None:
    check = sequence("= 100%", 100)
    check.take(values(1, 1, 0))
    assert check.decided == "fail"
    assert not check.is_a_bet


def test_what_all_must_do_is_sure_with_the_last() -> None:
    check = sequence("= 100%", 3)
    check.take(values(1, 1))
    assert check.decided is None
    check.take([(2, TaskValue(1, 1))])
    assert check.decided == "pass"


def test_a_failed_call_shows_nothing() -> None:
    check = sequence("≥ 50%", 60)
    check.take((at, TaskValue(0, 1)) for at in range(60))
    assert check.decided is None
    assert (check.describe().low, check.describe().high) == (0, 1)
    exact = sequence("= 100%", 2)
    exact.take([(0, TaskValue(1, 1)), (1, TaskValue(0, 1))])
    assert exact.decided is None


def test_where_no_task_has_a_value_the_demand_is_not_met() -> None:
    """Such tasks count as the mark, which is good enough only where something was measured."""
    check = sequence("≥ 50%", 3)
    nothing = TaskValue(0.5, 0.5, known=False)
    check.take([(0, nothing), (1, nothing)])
    assert check.decided is None
    check.take([(2, nothing)])
    assert check.decided == "fail"
    some = sequence("≥ 50%", 3)
    some.take([(0, nothing), (1, TaskValue(0.5, 0.5)), (2, nothing)])
    assert some.decided == "pass"


def test_what_tasks_are_drawn_from_is_never_known_by_counting() -> None:
    check = sequence("≥ 50%", 4, of_these=False)
    check.take(values(1, 1, 1, 1))
    assert check.decided is None
    assert check.is_open_for(3)


def test_a_decision_stays() -> None:
    check = sequence("≥ 50%", 1000)
    check.take(values(*[1] * 20))
    assert check.decided == "pass"
    check.take((at, TaskValue(0, 0)) for at in range(20, 400))
    assert check.decided == "pass"
    assert not check.is_open_for(999)


POLICY = {
    "thresholds": {
        "blocking": {
            "accuracy": 90,
            "error_rate": 0.1,
            "latency_p95": "< 5s",
            "safety_rate": "= 100%",
            "final_score": 0.9,
            "cost_usd": 0.01,
            "ece": 0.1,
            "precision": 0.5,
        },
        "warning": {"brier": 0.1},
    },
    "pass_criteria": {"overall": 80, "by_category": {"routing": 70}},
    "required_scenarios": {"ids": ["S-1"]},
    "optional_scenarios": {"ids": ["S-2"]},
    "composite": {},
}


def test_which_checks_can_be_decided_early() -> None:
    found = list(read_policy(POLICY).list_demands(None))
    assert [each.name for each in found] == [
        *("accuracy", "error_rate", "latency_p95_ms", "safety_rate", "final_score", "cost_usd"),
        *("ece", "precision", "overall", "routing", "S-1", "final_score"),
    ]
    assert [each.name for each in found if each.why_not] == [
        *("final_score", "cost_usd", "ece", "final_score")
    ]
    by_name = {each.name: each for each in found}
    assert by_name["safety_rate"].category == "adversarial"
    assert by_name["routing"].category == "routing"
    assert by_name["S-1"].scenario == "S-1"
    quantile = by_name["latency_p95_ms"]
    assert (str(quantile.on), quantile.within) == ("≥ 95 %", "< 5,000 ms")


def test_a_baseline_demands_too() -> None:
    policy = read_policy({"baseline": {"margins": {"accuracy": "1%"}}})
    recorded = RecordedGroup(metrics={"accuracy": 0.8})
    (found,) = policy.list_demands(recorded)
    assert (found.on, found.why_not) == (
        None,
        "compared with the baseline task by task, at the end",
    )


@pytest.mark.long
@pytest.mark.parametrize(
    ("tasks", "most"), [(100, (0.55, 0.65)), (500, (0.25, 0.25)), (2000, (0.07, 0.07))]
)
def test_early_decisions_are_those_of_the_full_run_with_fewer_calls(
    tasks: int, most: tuple[float, float]
) -> None:
    """Shares around a mark of 90 %; the figures stand in docs/run.md."""
    rng = np.random.default_rng(11)
    runs, wrong, asked = 200, dict[float, float](), dict[float, float]()
    for share in (0.8, 0.87, 0.9, 0.93, 0.98):
        ends = [_ended((rng.random(tasks) < share).astype(float)) for _ in range(runs)]
        wrong[share] = sum(decided != truth for decided, truth, _ in ends) / runs
        asked[share] = sum(after for *_, after in ends) / runs / tasks
    assert max(wrong.values()) <= 0.05
    assert asked[0.8] <= most[0]
    assert asked[0.98] <= most[1]


def _ended(outcomes: NDArray[np.float64]) -> tuple[str | None, str, int]:
    """What was decided, what the full run says, and how many tasks it took."""
    check = sequence("≥ 90%", outcomes.size)
    rest, asked = iter(enumerate(outcomes)), 0
    while check.decided is None and (some := list(islice(rest, 5))):
        check.take((at, TaskValue(value, value)) for at, value in some)
        asked += len(some)
    truth = "pass" if outcomes.mean() >= 0.9 - 1e-12 else "fail"
    return check.decided, truth, asked

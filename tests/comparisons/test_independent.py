"""Runs as independent samples."""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np
import pytest
from scipy import stats

import calipers as cal
from tests.commands import strict
from tests.comparisons.runs_at_hand import logs, right, the_only


def test_unpaired_shares() -> None:
    base = [{"id": f"a{n}", "correct": n < 12} for n in range(40)]
    other = [{"id": f"b{n}", "correct": n < 30} for n in range(50)]
    found = cal.compare(base, other, unpaired=True)
    accuracy = the_only(found)
    assert not found.paired
    assert (accuracy.test, accuracy.interval) == ("Fisher's exact", "Newcombe")
    assert accuracy.p_value == pytest.approx(
        stats.fisher_exact(np.array([[30, 12], [20, 28]])).pvalue
    )
    before, after = (
        stats.binomtest(hits, n).proportion_ci(method="wilson") for hits, n in ((12, 40), (30, 50))
    )
    assert accuracy.difference == pytest.approx(0.3)
    assert accuracy.low == pytest.approx(0.3 - math.hypot(0.6 - after.low, before.high - 0.3))
    assert accuracy.high == pytest.approx(0.3 + math.hypot(after.high - 0.6, 0.3 - before.low))
    assert (accuracy.n_base, accuracy.n_candidate) == (40, 50)
    assert (accuracy.wins, accuracy.n_pairs) == (None, None)
    assert accuracy.effect == pytest.approx(2 * (math.asin(0.6**0.5) - math.asin(0.3**0.5)))
    assert found.flips == {}


def test_unpaired_numbers() -> None:
    base, other = logs(30, 1), [{**row, "id": f"x{row['id']}"} for row in logs(35, 2)]
    found = the_only(cal.compare(base, other, unpaired=True), "latency_mean_ms")
    ours, theirs = ([row["latency_ms"] for row in rows] for rows in (base, other))
    expected = stats.mannwhitneyu(theirs, ours, method="asymptotic")
    assert found.test == "Welch t"
    assert found.rank_test == "Mann–Whitney (asymptotic)"
    assert found.rank_p == pytest.approx(expected.pvalue)
    assert found.p_value == pytest.approx(stats.ttest_ind(theirs, ours, equal_var=False).pvalue)
    assert found.effect_name == "Cliff's delta"
    assert found.effect == pytest.approx(2 * expected.statistic / (30 * 35) - 1)
    assert found.effect_low is not None
    assert found.effect_high is not None
    assert found.effect_low < (found.effect or 0) < found.effect_high
    welch = stats.ttest_ind(theirs, ours, equal_var=False).confidence_interval()
    assert (found.low, found.high) == pytest.approx((welch.low, welch.high))
    without = the_only(cal.compare(base, other, unpaired=True), "ece")
    assert without.reason == "it has no value per task; calipers score gives its interval"


def test_unpaired_runs_of_a_task_are_averaged_first() -> None:
    base = [*right("+-+-"), *right("++--")]
    found = the_only(cal.compare(base, right("+++++"), unpaired=True))
    assert (found.n_base, found.n_candidate) == (4, 5)
    assert found.base == 0.5
    assert found.test == "Welch t"


def test_three_samples_at_once() -> None:
    samples = ([1.0, 2, 3, 9], [2.5, 4, 6], [7.0, 8, 12, 11, 10])
    sides = [
        [{"id": f"{number}-{n}", "latency_ms": value} for n, value in enumerate(values)]
        for number, values in enumerate(samples)
    ]
    found = cal.compare(*sides, unpaired=True)
    across = found.across["latency_mean_ms"]
    expected = stats.kruskal(*samples)
    assert (across.h, across.p_value) == pytest.approx(tuple(expected))
    assert across.epsilon_squared == pytest.approx(expected.statistic / 11)
    assert "latency_p95_ms" not in found.across
    assert strict(found.to_json())["across"]["latency_mean_ms"]["n"] == 12
    assert "Kruskal-Wallis" in str(found)
    assert "Kruskal-Wallis" in found.to_markdown()
    assert "Kruskal-Wallis" in found._repr_html_()


def test_unpaired_groups() -> None:
    base = [*right("++--", part="a"), *right("++", part="b")]
    other = [*right("+---", part="a"), *right("--", part="b"), *right("+", part="c")]
    (pair,) = cal.compare(base, other, by="part", unpaired=True).pairs
    assert [group.by for group in pair.groups] == [{"part": "a"}, {"part": "b"}]
    assert [group.metrics["accuracy"].difference for group in pair.groups] == [-0.25, -1.0]
    assert pair.metrics["accuracy"].n_candidate == 7


def test_unpaired_records_need_no_id() -> None:
    base, other = (
        [
            {"correct": row["correct"], "latency_ms": float(n)}
            for n, row in enumerate(right(pattern))
        ]
        for pattern in ("++--", "+++-+")
    )
    found = cal.compare(base, other, unpaired=True).pairs[0].metrics
    assert (found["accuracy"].n_base, found["accuracy"].n_candidate) == (4, 5)
    assert found["accuracy"].test == "Fisher's exact"
    assert found["latency_mean_ms"].base == 1.5
    with pytest.raises(cal.DataError, match="1 of 5 records have no id"):
        cal.compare([*right("++++"), {"correct": True}], other, unpaired=True)


def test_unpaired_clusters() -> None:
    base, other = logs(28, 1), [{**row, "id": f"x{row['id']}"} for row in logs(28, 2)]
    found = the_only(cal.compare(base, other, unpaired=True, cluster="site"))
    assert found.test == "clustered Welch t"
    assert found.rank_test == "Mann–Whitney (asymptotic) of cluster means"
    assert found.effect_name == "Cliff's delta of cluster means"


COSTS = (0.07, 0.01, 0.03)  # their mean depends on their order, in the last bit


def _list_costs(order: tuple[float, ...], prefix: str) -> list[dict[str, object]]:
    return [{"id": f"{prefix}{task}", "cost_usd": cost} for task in range(20) for cost in order]


@pytest.mark.parametrize("order", list(permutations(COSTS)))
def test_the_same_runs_in_another_order_are_no_difference(order: tuple[float, ...]) -> None:
    compared = cal.compare(
        _list_costs(COSTS, "t"), _list_costs(order, "u"), unpaired=True, metrics=["cost_usd"]
    )
    found = compared.pairs[0].metrics["cost_usd"]
    assert found.effect == 0  # Cliff's delta
    assert found.p_value == pytest.approx(1)


def test_nor_are_those_of_three_systems() -> None:
    sides = [_list_costs(order, f"{n}-") for n, order in enumerate([*permutations(COSTS)][:3])]
    across = cal.compare(*sides, unpaired=True, metrics=["cost_usd"]).across["cost_usd"]
    assert across.p_value is None
    assert across.reason == "all values are equal"


def test_the_order_of_runs_moves_no_p_value() -> None:
    runs = [
        {"target": "1", "answer": answer, "prob_correct": prob}
        for prob, answer in ((0, "1"), (0.5, "0"), (0.3, "0"))
    ]
    base, *others = (
        [{"id": f"{side}{n}", **run} for n in range(20) for run in order]
        for side, order in (("t", runs), ("u", runs), ("u", runs[::-1]))
    )
    p_values = {
        cal.compare(base, side, unpaired=True, metrics=["brier"]).pairs[0].metrics["brier"].p_value
        for side in others
    }
    assert len(p_values) == 1

"""All pairs at once say what one pair alone says, and the largest of all differences is found."""

from __future__ import annotations

from dataclasses import asdict
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calipers.statistics.all_pairs import (
    PairColumns,
    TaskMatrix,
    compare_all,
    compare_all_samples,
    find_places,
)
from calipers.statistics.paired import Difference, ValueScale, compare_tasks
from calipers.statistics.ranking import (
    MOST_LETTERS,
    MaxT,
    covariance_of_means,
    pair_deviations,
    share_letters,
)
from calipers.statistics.unpaired import compare_unpaired

SHARES = ValueScale(yes_or_no=True, reach=1.0, step=1.0, higher_is_better=True)
BOUNDED = ValueScale(yes_or_no=False, reach=2.0, step=0.5, higher_is_better=None)
ENDLESS = ValueScale(yes_or_no=False, reach=None, step=None, higher_is_better=False)


def check(found: PairColumns, expected: list[Difference]) -> None:
    for place, each in enumerate(expected):
        wanted = asdict(each)
        for name in ("difference", "low", "high", "p_value"):
            value = np.nan if wanted[name] is None else wanted[name]
            column: Any = getattr(found, name)
            assert column[place] == pytest.approx(value, rel=1e-9, abs=1e-14, nan_ok=True), name
        assert (found.test[place], found.reason[place]) == (each.test, each.reason)


@st.composite
def matrices(draw: st.DrawFn) -> TaskMatrix:
    """Systems of which some are alike, some always right, and tasks with runs or without."""
    systems, tasks = draw(st.integers(2, 5)), draw(st.sampled_from([1, 2, 7, 40]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    most = draw(st.sampled_from([1, 1, 3]))
    runs = rng.integers(1, most + 1, size=(systems, tasks))
    hard, size = rng.random(tasks), draw(st.sampled_from([1.0, 1e-3, 250.0]))
    kind = draw(st.sampled_from(["shares", "graded", "costs"]))
    rows, squares = [], []
    for counts in runs:
        drawn = [rng.random(count) for count in counts]
        if kind == "costs":
            drawn = [size * np.exp(2 * each) for each in drawn]
        elif kind == "shares":
            skill = rng.choice([0.1, 0.5, 0.95, 1.1])
            drawn = [
                (each * at < skill).astype(float) for each, at in zip(drawn, hard, strict=True)
            ]
        rows.append([each.mean() for each in drawn])
        squares.append([np.square(each - each.mean()).sum() for each in drawn])
    values = np.array(rows)
    if draw(st.booleans()):
        values[-1] = values[0]
        values[-1, 0] = values[-2, 0]
    clusters = draw(
        st.sampled_from(
            [None, np.arange(tasks) % 3, np.arange(tasks) // 2, np.arange(tasks) ** 2 % 23]
        )
    )
    return TaskMatrix(
        values=values,
        runs=runs.astype(float),
        squares=np.array(squares) if most > 1 else None,
        clusters=clusters,
    )


@pytest.mark.parametrize("scale", [SHARES, BOUNDED, ENDLESS])
@pytest.mark.parametrize("confidence", [0.9, 0.9999])
@given(matrix=matrices())
def test_a_pair_among_all_is_as_the_pair_alone(
    scale: ValueScale, confidence: float, matrix: TaskMatrix
) -> None:
    expected = [
        compare_tasks(
            matrix.pair(one, other),
            scale,
            weight="task",
            confidence=confidence,
            seed=0,
            resamples=1,
            clusters=matrix.clusters,
        )
        for one, other in combinations(range(len(matrix.values)), 2)
    ]
    check(compare_all(matrix, scale, confidence=confidence), list(expected))


@pytest.mark.parametrize("scale", [SHARES, ENDLESS])
@given(matrix=matrices(), is_clustered=st.booleans())
def test_independent_samples_among_all_are_as_two_alone(
    scale: ValueScale, matrix: TaskMatrix, *, is_clustered: bool
) -> None:
    samples = [
        (row[place % 3 :] if row.size > 3 else row) for place, row in enumerate(matrix.values)
    ]
    labels = [np.arange(each.size) // 2 if is_clustered else None for each in samples]
    expected = []
    for one, other in combinations(range(len(samples)), 2):
        base, candidate = samples[other], samples[one]
        both = np.concatenate([base, candidate])
        expected.append(
            compare_unpaired(
                base,
                candidate,
                binary=scale.yes_or_no and bool(np.isin(both, (0, 1)).all()),
                confidence=0.99,
                base_clusters=labels[other],
                candidate_clusters=labels[one],
                endless=scale.reach is None,
            )
        )
    pairs = list(zip(samples, labels, strict=True))
    check(compare_all_samples(pairs, scale, confidence=0.99), list(expected))


def test_pairs_stand_in_the_order_of_combinations() -> None:
    places = [find_places(9, one, other) for one, other in combinations(range(9), 2)]
    assert places == list(range(36))


@pytest.mark.parametrize("systems", [2, 3, 12, 13, 40])
@pytest.mark.parametrize("seed", range(3))
def test_the_largest_difference_is_that_of_all_pairs(systems: int, seed: int) -> None:
    """Whatever is left out: systems alike, systems nearly alike, and of unequal spread."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(systems, 30)) * rng.choice([0.1, 1.0, 5.0], size=(systems, 1))
    values[1::4] = values[:1] + 1e-3 * rng.normal(size=values[1::4].shape)
    covariance = covariance_of_means(values)
    found = MaxT.of_pairs(covariance, seed=seed, draws=500)
    apart = pair_deviations(covariance)
    one, other = np.triu_indices(systems, 1)
    assert (apart[one, other] > 0).all()
    # Each draw's errors have the covariance; the largest of them is found by brute force.
    errors = np.random.default_rng(seed).multivariate_normal(np.zeros(systems), covariance, 20_000)
    brute = (np.abs(errors[:, one] - errors[:, other]) / apart[one, other]).max(axis=1)
    assert np.quantile(found.largest, [0.5, 0.9]) == pytest.approx(
        np.quantile(brute, [0.5, 0.9]), rel=0.12
    )


def test_very_many_pairs_that_do_not_vary_count_as_independent() -> None:
    found = MaxT.of_pairs(np.diag([1.0, *[0.0] * 60]), seed=0)  # 1,770 of 1,830 pairs
    few = MaxT.of_pairs(np.diag([1.0, *[0.0] * 40]), seed=0)  # 780 of 820
    for each, pairs in ((found, 1_830), (few, 820)):
        assert 1 - each.level(0.95) == pytest.approx(1 - 0.95 ** (1 / pairs), rel=0.2)


def test_p_values_are_adjusted_together_as_alone() -> None:
    found = MaxT.of_pairs(np.eye(5), seed=0)
    p_values = np.array([0.0, 1e-30, 1e-4, 0.01, 0.5, 1.0, np.nan])
    each = found.adjust_each(p_values)
    assert each[:-1].tolist() == [found.adjust(p) for p in p_values[:-1].tolist()]
    assert np.isnan(each[-1])


def test_a_thousand_systems_alike_have_a_letter() -> None:
    assert share_letters(np.zeros((1_200, 1_200), dtype=bool)) == ["a"] * 1_200


def test_too_many_sets_have_no_letters() -> None:
    """Each of twelve systems differs from one other alone: there are 2 ** 6 sets, or 2 ** 11."""
    few, many = (np.kron(np.eye(pairs), 1 - np.eye(2)).astype(bool) for pairs in (6, 11))
    letters = share_letters(few)
    assert letters is not None
    assert len(letters[0]) > 2**4
    assert share_letters(many) is None
    assert 2**6 < MOST_LETTERS < 2**11

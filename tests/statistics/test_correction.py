"""Means without the judge's error: the formulas, their edges, and what their intervals promise."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.judge_coverage import PAGE, row_of
from calipers.statistics.correction import (
    Moments,
    Verdicts,
    compute_moments,
    correct_share,
    correct_with_ratings,
    count_verdicts,
)
from calipers.statistics.estimates import Sampling
from tests.statistics.correction_shapes import AT_LEAST, PROMISED, SHAPES, Scores, Shape, coverage

QUICK = (SHAPES[1], SHAPES[-4], *SHAPES[-12:-10])


def promised(shape: Shape) -> tuple[float, float]:
    return (AT_LEAST, 1.0) if isinstance(shape, Scores) else PROMISED


def _id(shape: Shape) -> str:
    return f"{shape.name}, {shape.rated} of {shape.records}"


@pytest.mark.parametrize("shape", QUICK, ids=_id)
def test_intervals_cover(shape: Shape) -> None:
    low, high = promised(shape)
    assert low <= coverage(shape, 1000, seed=1).covered <= high


@pytest.mark.long
@pytest.mark.parametrize("shape", SHAPES, ids=_id)
def test_intervals_cover_on_every_shape(shape: Shape) -> None:
    found, (low, high) = coverage(shape, 4000), promised(shape)
    assert low <= found.covered <= high, f"{found.covered:.2%}"


def test_the_page_shows_every_shape() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for shape in SHAPES:
        assert row_of(shape) in page, "write it again: python -m benchmarks.judge_coverage"


def test_prediction_powered_is_what_the_paper_says() -> None:
    """The estimate and the tuned power of PPI++, section 6, on independent records."""
    rng = np.random.default_rng(3)
    people = rng.normal(size=80)
    judge = people + 0.5 + rng.normal(size=80)
    other = rng.normal(size=1000) + 0.5 + rng.normal(size=1000)
    covariance = np.cov(people, judge)
    power = covariance[0, 1] / (covariance[1, 1] + 80 / 1000 * other.var(ddof=1))
    expected = power * other.mean() + (people - power * judge).mean()
    error = other.std(ddof=1) / np.sqrt(1000)
    found = correct_with_ratings(
        other.mean(),
        error,
        1000,
        compute_moments(judge, people, Sampling(clusters=np.arange(80))),
        confidence=0.95,
    )
    assert found.value == pytest.approx(expected)
    variance = power**2 * error**2 + (people - power * judge).var(ddof=2) / 80
    assert found.stderr == pytest.approx(np.sqrt(variance))


def test_a_judge_that_knows_nothing_leaves_peoples_mean() -> None:
    told = Moments(
        n=50, clusters=50, judge=0.9, people=0.4,
        judge_spread=1e-3, both_spread=-1e-4, people_spread=1e-3,
    )  # fmt: skip
    found = correct_with_ratings(0.95, 0.01, 500, told, confidence=0.95)
    assert found.value == 0.4


def test_where_all_say_the_same_there_is_no_interval() -> None:
    """Its width would be a rounding error."""
    same = np.full(30, 0.9)
    told = compute_moments(same, same, Sampling(clusters=np.arange(30)))
    found = correct_with_ratings(float(same.mean()), 1e-17, 30, told, confidence=0.95)
    assert found.value == pytest.approx(0.9)
    assert (found.low, found.high, found.stderr) == (None, None, None)


def test_clusters_widen() -> None:
    rng = np.random.default_rng(0)
    tasks = np.repeat(np.arange(30), 5)
    people = rng.normal(size=30)[tasks]
    judge = people + rng.normal(size=30)[tasks]
    apart = compute_moments(judge, people, Sampling(clusters=np.arange(150)))
    together = compute_moments(judge, people, Sampling(clusters=tasks))
    widths = [
        (found.high or 0) - (found.low or 0)
        for found in (
            correct_with_ratings(0.0, 0.01, 900, told, confidence=0.95)
            for told in (apart, together)
        )
    ]
    assert widths[1] > 1.8 * widths[0]


def test_a_perfect_judge_needs_no_correction() -> None:
    told = Verdicts(
        passed=500, both_passed=500, failed=500, both_failed=500, passed_size=500, failed_size=500
    )
    found = correct_share(0.7, 1000, told, confidence=0.95)
    assert found.value == pytest.approx(0.7)
    assert found.low is not None
    assert found.high is not None
    assert found.low < 0.7 < found.high


def test_verdicts_are_counted() -> None:
    people = np.array([1.0, 1, 1, 0, 0, 1])
    judge = np.array([1.0, 0, 1, 0, 1, 1])
    found = count_verdicts(judge, people, Sampling(clusters=np.arange(6)))
    assert (found.passed, found.both_passed, found.failed, found.both_failed) == (4, 3, 2, 1)
    assert (found.passed_size, found.failed_size) == (4, 2)
    clustered = count_verdicts(judge, people, Sampling(clusters=np.array([0, 0, 1, 1, 2, 2])))
    assert clustered.passed_size < 4


@pytest.mark.parametrize(
    ("both_passed", "both_failed", "passed", "failed", "said"),
    [
        (5, 5, 10, 10, "no more often"),
        (2, 3, 10, 10, "no more often"),
        (0, 9, 0, 10, "passed none"),
        (9, 0, 10, 0, "failed none"),
    ],
)
def test_what_cannot_be_corrected_says_why(
    both_passed: int, both_failed: int, passed: int, failed: int, said: str
) -> None:
    told = Verdicts(
        passed=passed,
        both_passed=both_passed,
        failed=failed,
        both_failed=both_failed,
        passed_size=passed,
        failed_size=failed,
    )
    found = correct_share(0.5, 100, told, confidence=0.95)
    assert found.value is None
    assert said in (found.reason or "")


@given(
    share=st.floats(0, 1),
    right=st.integers(0, 30),
    right_too=st.integers(0, 30),
    size=st.floats(1, 1e6),
)
def test_a_corrected_share_is_a_share(
    share: float, right: int, right_too: int, size: float
) -> None:
    told = Verdicts(
        passed=30, both_passed=right, failed=30, both_failed=right_too, passed_size=30,
        failed_size=30,
    )  # fmt: skip
    found = correct_share(share, size, told, confidence=0.95)
    if found.value is None:
        assert found.reason
    else:
        assert found.low is not None
        assert found.high is not None
        assert 0 <= found.low <= found.value <= found.high <= 1


def test_rated_records_among_the_scored_ones_have_the_variance_of_what_they_share() -> None:
    """All records rated: people's own mean and its error, whatever the judge says."""
    rng = np.random.default_rng(5)
    people = rng.random(200)
    judge = np.clip(people + 0.1 * rng.normal(size=200), 0, 1)
    told = compute_moments(judge, people, Sampling(clusters=np.arange(200)))
    error = float(judge.std(ddof=1) / np.sqrt(200))
    found = correct_with_ratings(
        float(judge.mean()), error, 200, told, confidence=0.95, n=200, overlap=200
    )
    assert found.value == pytest.approx(people.mean())
    assert found.stderr == pytest.approx(people.std(ddof=1) / np.sqrt(200), rel=0.02)
    apart = correct_with_ratings(float(judge.mean()), error, 200, told, confidence=0.95)
    assert (apart.stderr or 0) < (found.stderr or 0)


def test_verdicts_of_the_scored_records_themselves_are_prediction_powered() -> None:
    told = Verdicts(
        passed=80, both_passed=76, failed=20, both_failed=16, passed_size=80, failed_size=20
    )
    found = correct_share(0.8, 100, told, confidence=0.95, n=100, overlap=100)
    assert found.value == pytest.approx(0.8)
    assert found.interval == "prediction-powered"
    assert found.assumes is not None

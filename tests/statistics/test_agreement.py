"""Measures of agreement: published examples, plain Python, clusters, and little to go by."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from itertools import combinations, permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from calipers.statistics import agreement
from calipers.statistics.agreement import (
    cohen_kappa,
    fleiss_kappa,
    percent_agreement,
    weighted_kappa,
)
from calipers.statistics.clusters import Floats
from calipers.statistics.estimates import Estimate, Sampling, count_ratings
from tests.statistics.rated import ALPHAS, EVERY, LEVELS, OF_ALL, OF_PAIRS, apart, measured

NAN = math.nan


def cross(counts: list[list[int]]) -> list[tuple[int, int]]:
    """The ratings of two raters that a cross table counts."""
    return [
        (row, column)
        for row, line in enumerate(counts)
        for column, count in enumerate(line)
        for _ in range(count)
    ]


def test_cohens_kappa_of_fleiss_cohen_and_everitt() -> None:
    # Fleiss, Cohen & Everitt (1969), Psychological Bulletin 72, table 1: two raters, 200 subjects.
    # In proportions .53 .05 .02 / .11 .14 .05 / .01 .06 .03: p_o = .70, p_e = .475, kappa = .429.
    ratings = cross([[106, 10, 4], [22, 28, 10], [2, 12, 6]])
    found = measured(cohen_kappa, ratings)
    assert found.value == pytest.approx((0.70 - 0.475) / (1 - 0.475))
    assert found.stderr is not None
    # Their variance of a kappa that is not 0, cell by cell; ours has n − 1 for n.
    table = np.array([[106, 10, 4], [22, 28, 10], [2, 12, 6]]) / 200
    row, column = table.sum(axis=1), table.sum(axis=0)
    chance, kappa = float(row @ column), (0.70 - 0.475) / (1 - 0.475)
    terms = sum(
        table[i, j] * ((i == j) * (1 - chance) - (column[i] + row[j]) * (1 - 0.70)) ** 2
        for i in range(3)
        for j in range(3)
    )
    variance = (terms - (0.70 * chance - 2 * chance + 0.70) ** 2) / (200 * (1 - chance) ** 4)
    assert found.stderr**2 == pytest.approx(variance * 200 / 199)
    assert kappa == pytest.approx(0.429, abs=5e-4)


FLEISS = [  # Fleiss (1971) as it is told in textbooks: 14 raters put 10 units into 5 categories
    [0, 0, 0, 0, 14],
    [0, 2, 6, 4, 2],
    [0, 0, 3, 5, 6],
    [0, 3, 9, 2, 0],
    [2, 2, 8, 1, 1],
    [7, 7, 0, 0, 0],
    [3, 2, 6, 3, 0],
    [2, 5, 3, 2, 2],
    [6, 5, 2, 1, 0],
    [0, 2, 2, 3, 7],
]


def test_fleiss_kappa_of_the_textbooks() -> None:
    ratings = [np.repeat(np.arange(5), counts) for counts in FLEISS]
    found = measured(fleiss_kappa, ratings)
    assert found.value == pytest.approx(0.210, abs=5e-4)
    assert found.n == 10
    assert measured(percent_agreement, ratings).value == pytest.approx(0.378, abs=5e-4)


KRIPPENDORFF = np.array(  # Computing Krippendorff's Alpha-Reliability (2011), C: 4 observers
    [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, NAN, NAN, NAN],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, NAN, 3],
        [NAN, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, NAN],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, NAN],
    ]
).T


@pytest.mark.parametrize(
    ("level", "alpha"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849)]
)
def test_krippendorffs_alpha_of_his_example(level: str, alpha: float) -> None:
    found = measured(ALPHAS[level], KRIPPENDORFF)
    assert found.value == pytest.approx(alpha, abs=5e-4)
    assert found.n == 11  # the twelfth unit has one rating: nothing to compare it with


def textbook_error(name: str, r: float, n: int) -> float:
    if name == "pearson":
        return 1 / math.sqrt(n - 3)
    return math.sqrt((1 + r**2 / 2) / (n - 3) if name == "spearman" else 0.437 / (n - 4))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", ["pearson", "spearman", "kendall"])
def test_intervals_are_those_of_the_textbooks_or_wider(name: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    ratings = np.column_stack((rng.permutation(40), rng.permutation(40))).astype(float)
    found = measured(OF_PAIRS[name], ratings)
    assert found.value is not None
    assert found.low is not None
    assert found.high is not None
    reach = float(stats.norm.ppf(0.975)) * textbook_error(name, found.value, 40)
    low, high = (math.tanh(math.atanh(found.value) + sign * reach) for sign in (-1, 1))
    if found.interval == "delta_z":
        assert found.low < low < high < found.high
    else:
        assert found.interval == ("fisher_z" if name == "pearson" else "bonett_wright_z")
        assert (found.low, found.high) == pytest.approx((low, high))


def plain_units(ratings: Floats) -> list[list[float]]:
    units = [[float(rating) for rating in row if not math.isnan(rating)] for row in ratings]
    return [unit for unit in units if len(unit) > 1]


def plain_percent(ratings: Floats) -> float:
    shares = [
        sum(a == b for a, b in combinations(unit, 2)) / math.comb(len(unit), 2)
        for unit in plain_units(ratings)
    ]
    return sum(shares) / len(shares)


def plain_cohen(ratings: Floats) -> float | None:
    pairs = [unit for unit in plain_units(ratings) if len(unit) == 2]
    labels = {rating for pair in pairs for rating in pair}
    observed = sum(a == b for a, b in pairs) / len(pairs)
    chance = (
        sum(
            sum(a == label for a, _ in pairs) * sum(b == label for _, b in pairs)
            for label in labels
        )
        / len(pairs) ** 2
    )
    return None if len(labels) == 1 else (observed - chance) / (1 - chance)


def plain_mean_cohen(ratings: Floats) -> float | None:
    pairs = [ratings[:, list(pair)] for pair in combinations(range(ratings.shape[1]), 2)]
    if any(count_ratings(pair).max(initial=0) < 2 for pair in pairs):
        return None
    kappas = [plain_cohen(pair) for pair in pairs]
    return None if None in kappas else sum(k for k in kappas if k is not None) / len(kappas)


def plain_fleiss(ratings: Floats) -> float | None:
    units = [unit for unit in plain_units(ratings) if len(unit) == ratings.shape[1]]
    everything = [rating for unit in units for rating in unit]
    chance = sum((everything.count(x) / len(everything)) ** 2 for x in set(everything))
    if len(set(everything)) == 1:
        return None
    return (plain_percent(np.array(units)) - chance) / (1 - chance)


def plain_alpha(ratings: Floats, level: str) -> float | None:
    units = plain_units(ratings)
    everything = sorted(rating for unit in units for rating in unit)

    def distance(a: float, b: float) -> float:
        if level == "nominal":
            return float(a != b)
        if level == "interval":
            return (a - b) ** 2
        low, high = min(a, b), max(a, b)
        between = sum(low <= rating <= high for rating in everything)
        return (between - (everything.count(a) + everything.count(b)) / 2) ** 2

    within = sum(
        sum(distance(a, b) for a, b in permutations(unit, 2)) / (len(unit) - 1) for unit in units
    ) / len(everything)
    among = sum(distance(a, b) for a, b in permutations(everything, 2))
    if among == 0:
        return None
    return 1 - within * len(everything) * (len(everything) - 1) / among


def plain_scipy(ratings: Floats, function: Any) -> float | None:
    both = ratings[count_ratings(ratings) == 2]
    if any(len(set(column)) == 1 for column in both.T):
        return None
    return float(function(*both.T).statistic)


def plain_weighted(ratings: Floats) -> float | None:
    """Cohen's formula (1968): what disagreements weigh, over what they would by chance."""
    both = [(float(a), float(b)) for a, b in ratings if not math.isnan(a + b)]
    seen = sum((a - b) ** 2 for a, b in both) / len(both)
    chance = sum((a - b) ** 2 for a, _ in both for _, b in both) / len(both) ** 2
    return None if len({x for pair in both for x in pair}) == 1 else 1 - seen / chance


PLAIN: dict[str, Callable[[Floats], float | None]] = {
    "percent": plain_percent,
    "mean kappa": plain_mean_cohen,
    "fleiss": plain_fleiss,
    **{level: partial(plain_alpha, level=level) for level in ALPHAS},
    "cohen": plain_cohen,
    "weighted": plain_weighted,
    "pearson": partial(plain_scipy, function=stats.pearsonr),
    "spearman": partial(plain_scipy, function=stats.spearmanr),
    "kendall": partial(plain_scipy, function=stats.kendalltau),
}


@st.composite
def tables(draw: st.DrawFn, *, raters: st.SearchStrategy[int]) -> Floats:
    """Ratings with gaps: few labels, or numbers that are all but equal, or far apart."""
    columns = draw(raters)
    rating = draw(
        st.sampled_from(
            [
                st.integers(1, 3).map(float),
                st.integers(1, 10).map(lambda tenths: tenths / 10),
                st.floats(-1e3, 1e3).map(lambda number: round(number, 3)),
            ]
        )
    )
    row = st.lists(
        st.one_of(rating, rating, rating, st.just(NAN)), min_size=columns, max_size=columns
    )
    return np.array(draw(st.lists(row, min_size=0, max_size=15)), dtype=float).reshape(-1, columns)


def check_against_plain_python(name: str, ratings: Floats) -> None:
    found = EVERY[name](ratings, apart(ratings))
    needed = ratings.shape[1] if name == "fleiss" else 2
    n = int((count_ratings(ratings) >= needed).sum())
    assert found.n == n
    if n < (1 if name == "percent" else 2):
        assert found.value is None
        return
    expected = PLAIN[name](ratings)
    if expected is None:
        assert found.value is None
        assert found.reason
    else:
        assert found.value == pytest.approx(expected, rel=1e-9, abs=1e-9)
    check_interval(found)


def check_interval(found: Estimate) -> None:
    assert (found.low is None) == (found.high is None) == (found.interval is None)
    if found.low is not None and found.high is not None and found.value is not None:
        assert -1 <= found.low <= found.value <= found.high <= 1
        assert found.low < found.high


@pytest.mark.parametrize("name", OF_ALL)
@given(ratings=tables(raters=st.integers(2, 4)))
def test_measures_of_all_raters_are_those_of_plain_python(name: str, ratings: Floats) -> None:
    check_against_plain_python(name, ratings)


@pytest.mark.parametrize("name", OF_PAIRS)
@given(ratings=tables(raters=st.just(2)))
def test_measures_of_pairs_are_those_of_plain_python(name: str, ratings: Floats) -> None:
    check_against_plain_python(name, ratings)


FORMULAS: dict[str, Any] = {
    "cohen": agreement._measure_cohen,
    "weighted": agreement._measure_weighted,
    "mean kappa": agreement._measure_mean_cohen,
    "fleiss": agreement._measure_fleiss,
    **{level: partial(agreement._measure_alpha, level=level) for level in LEVELS},
    "pearson": agreement._measure_pearson,
    "spearman": agreement._measure_spearman,
    "kendall": agreement._measure_kendall,
}


@pytest.mark.parametrize("name", FORMULAS)
def test_the_influence_of_a_unit_is_what_a_little_more_of_it_changes(name: str) -> None:
    rng = np.random.default_rng(3)
    ratings = rng.integers(0, 4, (20, 2 if name in OF_PAIRS else 3)).astype(float)
    if name in ("mean kappa", *ALPHAS):
        ratings[rng.random(ratings.shape) < 0.15] = NAN
        ratings = ratings[count_ratings(ratings) > 1]
    copies, more = 2000, 20  # many copies of all, so that constants like n − 1 do not matter
    everything = np.tile(ratings, (copies, 1))
    base = FORMULAS[name](everything).value
    influence = FORMULAS[name](ratings).influence
    for unit in range(5):
        grown = np.vstack((everything, np.repeat(ratings[unit : unit + 1], more, axis=0)))
        slope = (FORMULAS[name](grown).value - base) * copies / more
        assert influence[unit] == pytest.approx(slope, rel=0.05, abs=1e-3)
    assert influence.sum() == pytest.approx(0, abs=1e-12)


@given(ratings=tables(raters=st.just(2)))
def test_how_many_lie_below(ratings: Floats) -> None:
    both = ratings[count_ratings(ratings) == 2]
    first, second = (np.unique(column, return_inverse=True)[1] for column in both.T)
    if len(both):
        found = agreement._count_below(first, -second)
        assert found.tolist() == [
            sum(a < x and -b < -y for a, b in zip(first, second, strict=True))
            for x, y in zip(first, second, strict=True)
        ]


@pytest.mark.parametrize("name", EVERY)
def test_copies_of_a_unit_in_one_cluster_are_no_evidence(name: str) -> None:
    rng = np.random.default_rng(5)
    truth = rng.integers(0, 5, (30, 1))
    columns = 2 if name in OF_PAIRS else 3
    ratings = np.where(rng.random((30, columns)) < 0.6, truth, rng.integers(0, 5, (30, columns)))
    ratings = ratings.astype(float)
    once = EVERY[name](ratings, apart(ratings))
    thrice = EVERY[name](
        np.repeat(ratings, 3, axis=0), Sampling(clusters=np.repeat(np.arange(30), 3))
    )
    independent = EVERY[name](np.repeat(ratings, 3, axis=0), apart(np.empty(90)))
    assert once.stderr is not None
    assert thrice.stderr is not None
    assert independent.stderr is not None
    assert thrice.stderr == pytest.approx(once.stderr, rel=0.1)
    assert independent.stderr < 0.7 * once.stderr


@pytest.mark.parametrize("name", EVERY)
def test_one_cluster_gives_no_interval(name: str) -> None:
    ratings = np.array([[1, 1], [1, 2], [2, 2], [3, 2], [3, 3], [1, 1]], dtype=float)
    found = EVERY[name](ratings, Sampling(clusters=np.zeros(6, dtype=int)))
    assert found.value is not None
    assert (found.low, found.high, found.stderr, found.interval) == (None, None, None, None)


@pytest.mark.parametrize("name", EVERY)
def test_nobody_shares_a_unit(name: str) -> None:
    found = measured(EVERY[name], [[1, NAN], [NAN, 2]])
    assert (found.value, found.n, found.reason) == (None, 0, "no unit is rated by both")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("fleiss", "only one unit is rated by all 3"),
        ("nominal", "all ratings are the same: agreement cannot be told from chance"),
        ("mean kappa", "not every pair of raters has a kappa"),
    ],
)
def test_why_three_raters_have_no_value(name: str, reason: str) -> None:
    assert measured(OF_ALL[name], [[1, 1, 1], [1, 1, NAN]]).reason == reason


def test_no_two_ratings() -> None:
    rows = [[1, NAN, NAN], [NAN, 1, NAN]]
    assert measured(percent_agreement, rows).reason == "no unit has two ratings"
    assert measured(fleiss_kappa, rows).reason == "no unit is rated by all 3"


@pytest.mark.parametrize("name", ["pearson", "spearman", "kendall"])
def test_a_constant_rater_has_no_correlation(name: str) -> None:
    found = measured(OF_PAIRS[name], [[1, 1], [1, 2], [1, 3]])
    assert (found.value, found.reason) == (None, "a rater gives all units the same rating")


def test_a_constant_rater_agrees_as_by_chance_whatever_the_other_does() -> None:
    found = measured(cohen_kappa, [[1, 1], [1, 2], [1, 2], [1, 1]])
    assert (found.value, found.low, found.high, found.stderr) == (0, None, None, None)


def test_full_agreement_has_wilsons_bound() -> None:
    ratings = [[1, 1]] * 10 + [[2, 2]] * 10
    low = 20 / (20 + stats.norm.ppf(0.975) ** 2)
    for measure in (cohen_kappa, fleiss_kappa, weighted_kappa):
        found = measured(measure, ratings)
        assert (found.value, found.high, found.stderr) == (1, 1, None)
        assert found.low == pytest.approx(1 - (1 - low) / 0.5)
        assert found.interval == "wilson"
    for name in ("ordinal", "interval", "pearson", "spearman", "kendall"):
        found = measured(EVERY[name], ratings)
        assert (found.value, found.low, found.high) == (1, None, None)


def test_full_disagreement_has_no_interval() -> None:
    found = measured(cohen_kappa, [[1, 2], [2, 1]] * 5)
    assert (found.value, found.low, found.high) == (-1, None, None)


@pytest.mark.parametrize("scale", [1e-320, 1e-200, 1e200, 1.7e308])
@pytest.mark.parametrize("name", EVERY)
def test_numbers_of_any_size(name: str, scale: float) -> None:
    ratings = np.array([[0.1, 0.2], [0.3, 0.3], [0.9, 0.7], [1.0, 0.8], [0.4, 0.5], [0.5, 0.5]])
    if scale == 1e-320:
        ratings = np.round(ratings * 10)  # the smallest doubles have few digits
    small, large = measured(EVERY[name], ratings), measured(EVERY[name], ratings * scale)
    assert large.value == pytest.approx(small.value, rel=1e-6)
    assert large.low == pytest.approx(small.low, rel=1e-6)


def test_a_null_has_a_reason() -> None:
    with pytest.raises(ValueError, match="a null needs a reason"):
        Estimate(value=None, n=0)

"""The special functions: scipy's values, over all sizes, to nearly every digit."""

from __future__ import annotations

from math import inf, isnan, nan, sqrt
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import special as theirs

from calipers.statistics import special
from calipers.statistics.special import incomplete_beta

CLOSE = 1e-12
TINY = 1e-280  # below this even the logarithm has few digits


def log_floats(low: float, high: float) -> st.SearchStrategy[float]:
    return st.floats(low, high).map(lambda power: 10.0**power)


sizes = log_floats(-1, 6)
freedoms = st.integers(1, 60).map(float) | log_floats(0, 7)
shares = st.floats(1e-9, 1 - 1e-9) | st.sampled_from([0.005, 0.025, 0.05, 0.5, 0.95, 0.975, 0.995])


def assert_close(found: float, expected: Any, wide: float = 1.0) -> None:
    if abs(expected) > TINY:
        assert found == pytest.approx(float(expected), rel=CLOSE * wide, abs=0)
    else:
        assert abs(found) <= TINY * 2


@given(st.floats(-37, 37))
def test_normal_probabilities(z: float) -> None:
    assert_close(special.ndtr(z), theirs.ndtr(z))


@given(shares | log_floats(-300, -1))
def test_normal_quantiles(p: float) -> None:
    assert special.ndtri(p) == pytest.approx(float(theirs.ndtri(p)), rel=CLOSE, abs=1e-15)


@given(st.floats(-700, 700))
def test_the_inverse_of_log_odds(odds: float) -> None:
    assert_close(special.expit(odds), theirs.expit(odds))


@given(freedoms, st.floats(-40, 40) | log_floats(-6, 6))
def test_probabilities_of_t(freedom: float, t: float) -> None:
    assert_close(special.stdtr(freedom, t), theirs.stdtr(freedom, t), wide=10)


@given(freedoms, shares | log_floats(-12, -1))
@example(8_794_788.19, 1 - 1e-11)
def test_quantiles_of_t(freedom: float, p: float) -> None:
    found = special.stdtrit(freedom, p)
    # Near the middle scipy has fewer digits: the error of the probability is what counts there.
    assert found == pytest.approx(float(theirs.stdtrit(freedom, p)), rel=1e-11, abs=1e-14)
    assert special.stdtr(freedom, found) == pytest.approx(p, rel=CLOSE)


@given(st.integers(1, 3_000_000), st.floats(0, 1), st.floats(-6, 6))
def test_binomial_probabilities(n: int, share: float, away: float) -> None:
    k = min(n - 1, max(0, round(n * share + away * sqrt(n * share * (1 - share)))))
    # scipy's bdtr has four digits for millions of trials; its incomplete beta function has all.
    expected = theirs.betainc(n - k, k + 1, 1 - share)
    assert_close(special.bdtr(k, n, share), expected, wide=max(1, sqrt(n) / 30))


@given(sizes, sizes, shares)
def test_quantiles_of_beta(a: float, b: float, p: float) -> None:
    assert_close(special.betaincinv(a, b, p), theirs.betaincinv(a, b, p), wide=10)


@given(sizes, sizes, shares)
def test_both_sides_of_the_beta_distribution(a: float, b: float, p: float) -> None:
    x = float(theirs.betaincinv(a, b, p))
    if not 0 < x < 1:
        return
    lower, upper = incomplete_beta(a, b, x, 1 - x)
    assert_close(lower, theirs.betainc(a, b, x), wide=10)
    assert lower + upper == pytest.approx(1, abs=1e-15)


@given(st.integers(1, 3000), log_floats(-3, 3.5))
def test_chi_squared(freedom: int, x: float) -> None:
    assert_close(special.chdtrc(freedom, x), theirs.chdtrc(freedom, x), wide=10)


ENDS = [
    ("ndtri", (0.0,), -inf),
    ("ndtri", (1.0,), inf),
    ("ndtri", (1.5,), nan),
    ("stdtr", (0, 1.0), nan),
    ("stdtr", (3, -inf), 0.0),
    ("stdtr", (3, inf), 1.0),
    ("stdtr", (3, nan), nan),
    ("stdtr", (3, 0.0), 0.5),
    ("stdtr", (inf, 0.0), 0.5),
    ("stdtr", (3, 1e200), 1.0),
    ("stdtrit", (0, 0.975), nan),
    ("stdtrit", (-1, 0.975), nan),
    ("stdtrit", (3, 0.5), 0.0),
    ("stdtrit", (3, 0.0), -inf),
    ("stdtrit", (3, 1.0), inf),
    ("stdtrit", (3, nan), nan),
    ("bdtr", (5, 5, 0.3), 1.0),
    ("bdtr", (0, 5, 0.0), 1.0),
    ("bdtr", (0, 5, 1.0), 0.0),
    ("bdtr", (-1, 5, 0.5), nan),
    ("betaincinv", (1, 1, 0.0), 0.0),
    ("betaincinv", (1, 1, 1.0), 1.0),
    ("betaincinv", (10, 1e-15, 0.975), 1.0),
    ("betaincinv", (1e-15, 10, 0.025), 0.0),
    ("betaincinv", (0, 1, 0.5), nan),
    ("chdtrc", (3, 0.0), 1.0),
    ("chdtrc", (3, inf), 0.0),
    ("chdtrc", (0, 1.0), nan),
]


@pytest.mark.parametrize(("name", "arguments", "expected"), ENDS)
def test_the_ends(name: str, arguments: tuple[float, ...], expected: float) -> None:
    found = getattr(special, name)(*arguments)
    assert isnan(found) if isnan(expected) else found == expected

"""Intervals of means within bounds, at the ends of what a double can hold."""

import pytest

from calipers.statistics.intervals import bounded_interval


@pytest.mark.parametrize("value", [5e-324, 3e-232, 1e-160, 1 - 1e-16, 1.0])
@pytest.mark.parametrize("spread", [0.0, 5e-324])
def test_the_smallest_numbers_have_bounds(value: float, spread: float) -> None:
    around = bounded_interval(value, spread, 2, 0.95)
    assert around.low is not None
    assert around.high is not None
    assert 0 <= around.low <= value <= around.high <= 1

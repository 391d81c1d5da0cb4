"""Areas under a ROC curve by few wrong rows: the interval holds, and is a score interval."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtri

from calipers.statistics.paired_tests import area_interval
from tests.examples import first_of


@pytest.mark.parametrize("area", [0.6, 0.75, 0.9])
@pytest.mark.parametrize("wrong", [2, 3, 5])
@pytest.mark.parametrize("spread", first_of([2.0, 0.5, 1.0]))
def test_it_holds_with_few_wrong_rows(area: float, wrong: int, spread: float) -> None:
    """Also where these lie twice as far apart as the right ones, or half as far."""
    rng = np.random.default_rng([wrong, int(100 * area)])
    sets = 300
    right = rng.normal(ndtri(area) * np.hypot(1, spread), 1, (sets, 97, 1))
    seen = (right > rng.normal(0, spread, (sets, 1, wrong))).mean(axis=(1, 2))
    held = [
        low <= area <= high
        for low, high in (area_interval(each, 97, wrong, z=1.96) for each in seen)
    ]
    assert np.mean(held) >= 0.93 - 2 * np.sqrt(0.93 * 0.07 / sets)


def test_it_mirrors_and_narrows_with_more_rows() -> None:
    low, high = area_interval(0.8, 97, 3, z=1.96)
    assert 0 < low < 0.8 < high < 1
    assert area_interval(0.2, 3, 97, z=1.96) == pytest.approx((1 - high, 1 - low))
    closer = area_interval(0.8, 970, 30, z=1.96)
    assert low < closer[0] < 0.8 < closer[1] < high

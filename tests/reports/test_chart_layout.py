"""Axes and the places of names: what is drawn can be seen and read."""

from __future__ import annotations

import math
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calipers.reports.charts.cost_scatter import Axis, fit_axis
from calipers.reports.charts.labels import CHAR_WIDTH, LINE_HEIGHT, Box, Label, place_labels
from tests.examples import examples

WIDTH, HEIGHT = 640.0, 400.0

_costs = st.lists(st.floats(0, 1e6), min_size=1, max_size=12)
_spots = st.lists(st.tuples(st.floats(0, WIDTH), st.floats(0, HEIGHT)), min_size=1, max_size=12)


def box_of(label: Label) -> Box:
    half_width, half_height = len(label.text) * CHAR_WIDTH / 2, LINE_HEIGHT / 2
    return Box(
        label.x - half_width + 0.01,
        label.y - half_height + 0.01,
        label.x + half_width - 0.01,
        label.y + half_height - 0.01,
    )


@given(_costs, st.floats(0, 2))
def test_every_value_lies_on_the_axis(costs: list[float], reach: float) -> None:
    bars = [(cost * max(0.0, 1 - reach), cost * (1 + reach)) for cost in costs]
    axis = fit_axis(costs, bars, length=WIDTH)
    assert axis.low < axis.high
    for cost in costs:
        assert axis.low <= cost <= axis.high
        place = axis.to_pixel(cost)
        assert -1e-6 <= place <= WIDTH + 1e-6
        assert axis.to_value(place) == pytest.approx(cost, rel=1e-6, abs=1e-9 * axis.high)


def test_costs_far_apart_are_on_a_logarithmic_axis() -> None:
    axis = fit_axis([0.01, 0.1, 1.0], [(0.0, 0.02), (0.05, 0.2), (0.5, 2.0)], length=WIDTH)
    assert axis.log
    assert axis.to_pixel(0.1) - axis.to_pixel(0.01) == pytest.approx(
        axis.to_pixel(1) - axis.to_pixel(0.1)
    )
    assert axis.cuts(0.0, 0.02)
    free = fit_axis([0.0, 1.0], [(0.0, 0.0), (1.0, 1.0)], length=WIDTH)
    assert not free.log


def test_a_huge_error_bar_does_not_push_the_points_together() -> None:
    axis = fit_axis([1.0, 2.0], [(0.0, 100.0), (1.9, 2.1)], length=WIDTH)
    assert axis.to_pixel(2.0) - axis.to_pixel(1.0) > WIDTH / 4
    assert axis.cuts(0.0, 100.0)
    rates = fit_axis([0.5], [(0.0, 1.0)], length=HEIGHT, within=(0.0, 1.0))
    assert not rates.cuts(0.0, 1.0)


def test_nothing_but_zero() -> None:
    axis = fit_axis([0.0, 0.0], [(0.0, 0.0)] * 2, length=WIDTH)
    assert axis == Axis(axis.low, axis.high, WIDTH)
    assert math.isfinite(axis.to_pixel(0.0))
    assert -0.1 < axis.low < 0 < axis.high


@given(_spots, st.integers(1, 22))
@examples(60, deadline=None)
def test_names_lie_in_the_picture_and_not_on_each_other(
    spots: list[tuple[float, float]], length: int
) -> None:
    names = ["x" * length] * len(spots)
    labels = place_labels(names, spots, [], width=WIDTH, height=HEIGHT)
    assert [label.text for label in labels] == names
    assert all(box_of(label).is_within(WIDTH, HEIGHT) for label in labels)
    overlaps = sum(box_of(one).overlaps(box_of(other)) for one, other in combinations(labels, 2))
    crowded = max(map(spots.count, spots), default=0) > 3  # in a corner there is little room
    assert overlaps == 0 or crowded or len(spots) > 6


def test_many_points_in_one_place_keep_their_names_apart() -> None:
    labels = place_labels(["T1"] * 12, [(300.0, 200.0)] * 12, [], width=WIDTH, height=HEIGHT)
    assert not any(box_of(one).overlaps(box_of(other)) for one, other in combinations(labels, 2))
    assert labels[0].led is False
    assert any(label.led for label in labels)

"""The Pareto front against its definition."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from calipers.statistics.ranking import pareto_front

_numbers = st.one_of(st.integers(0, 4).map(float), st.floats(0, 10))
_points = st.lists(st.tuples(_numbers, _numbers), max_size=30)


def beaten(point: tuple[float, float], other: tuple[float, float]) -> bool:
    """Whether the other costs at most as much and gains at least as much, and is not equal."""
    return other[0] <= point[0] and other[1] >= point[1] and other != point


@given(_points)
def test_the_front_is_what_nothing_beats(points: list[tuple[float, float]]) -> None:
    front = pareto_front([cost for cost, _ in points], [gain for _, gain in points])
    expected = {
        at for at, point in enumerate(points) if not any(beaten(point, other) for other in points)
    }
    assert set(front) == expected
    assert len(front) == len(expected)
    assert [points[at] for at in front] == sorted(points[at] for at in front)


def test_equal_points_are_on_it_together() -> None:
    assert pareto_front([1, 1, 2], [0.5, 0.5, 0.5]) == [0, 1]
    assert pareto_front([], []) == []

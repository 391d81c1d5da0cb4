"""Ranks and letters, by their definitions."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from calipers.statistics.ranking import rank_bounds, ranks, share_letters


@st.composite
def graphs(draw: st.DrawFn) -> np.ndarray:
    """Who differs from whom, in any way there is."""
    count = draw(st.integers(1, 7))
    different = np.zeros((count, count), dtype=bool)
    for one, other in combinations(range(count), 2):
        different[one, other] = different[other, one] = draw(st.booleans())
    return different


def share(different: np.ndarray) -> list[str]:
    """Return each system's letters, of which there must be some."""
    letters = share_letters(different)
    assert letters is not None
    return letters


@given(different=graphs())
def test_two_share_a_letter_exactly_where_they_do_not_differ(different: np.ndarray) -> None:
    found = share(different)
    assert all(found), "every system has a letter"
    for one, other in combinations(range(len(different)), 2):
        shared = set(found[one]) & set(found[other])
        assert bool(shared) != different[one, other]


@given(different=graphs())
def test_no_letter_is_one_too_many(different: np.ndarray) -> None:
    """No letter's systems are all among those of another letter."""
    found = share(different)
    holders = {
        letter: {place for place, text in enumerate(found) if letter in text}
        for letter in set("".join(found))
    }
    for one, other in combinations(holders.values(), 2):
        assert not one <= other
        assert not other <= one


def test_more_sets_than_letters() -> None:
    count = 60
    found = share(~np.eye(count, dtype=bool))
    assert len(set(found)) == count
    assert (found[0], found[26], found[52]) == ("a", "A", "a1")


def test_many_systems_take_no_time() -> None:
    """As means do: each is alike to those near it."""
    place = np.arange(300)
    found = share(np.abs(place[:, None] - place[None, :]) > 20)
    assert found[0] == "a"


def test_ranks_of_ties_and_either_direction() -> None:
    values = np.array([0.1 + 0.2, 0.3, 0.9])
    assert ranks(values, higher_is_better=True) == [2, 2, 1]
    assert ranks(values, higher_is_better=False) == [1, 1, 3]


def test_bounds_where_nothing_and_where_everything_is_known() -> None:
    nothing = np.zeros((4, 4), dtype=bool)
    assert rank_bounds(nothing) == ([1] * 4, [4] * 4)
    everything = np.triu(np.ones((4, 4), dtype=bool), 1)
    assert rank_bounds(everything) == ([1, 2, 3, 4], [1, 2, 3, 4])

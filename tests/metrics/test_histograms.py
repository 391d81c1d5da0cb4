"""Bins that widen: looked up by the upper bits of a number, where many are to be found."""

from __future__ import annotations

from bisect import bisect_right
from math import inf, nan, nextafter

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from calipers.metrics.declare.distributions import WIDE_EDGES, find_wide_bins
from calipers.support.lazy_numpy import WORTH_LOADING

EDGES = WIDE_EDGES[1:-1]
NEAR = [nextafter(edge, to) for edge in EDGES for to in (0.0, inf)]
SPECIAL = [0.0, -0.0, -1.0, 5e-324, 1e308, inf, -inf]


def find(values: list[float | None], *, many: bool) -> list[int | None]:
    """Return the bins, found among few rows or among many."""
    more = [None] * (WORTH_LOADING if many else 0)
    column = pl.Series([*values, *more], dtype=pl.Float64)
    return find_wide_bins(column).to_list()[: len(values)]


def test_edges_and_their_neighbours_are_in_the_bins_that_a_search_finds() -> None:
    values = [*EDGES, *NEAR, *SPECIAL]
    expected = [bisect_right(EDGES, value) for value in values]
    assert find([*values], many=True) == expected
    assert find([*values], many=False) == expected


@given(st.lists(st.floats(allow_nan=False) | st.floats(0, 1e10) | st.none(), max_size=30))
def test_few_and_many_rows_are_in_the_same_bins(values: list[float | None]) -> None:
    expected = [None if each is None else bisect_right(EDGES, each) for each in values]
    assert find(values, many=True) == expected
    assert find(values, many=False) == expected


def test_what_is_no_number_is_in_the_last_bin() -> None:
    assert find([nan], many=True) == find([nan], many=False) == [len(EDGES)]

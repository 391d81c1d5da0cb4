"""An interval of columns is that of each of their rows, to the last digit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calipers.statistics.clusters import SHARE_SUMS, Clusters, sum_shares
from calipers.statistics.intervals import (
    Interval,
    bounded_interval,
    count_worth,
    partial_wilson,
    positive_interval,
    t_interval,
    unbounded_interval,
    wilson,
)
from calipers.statistics.paired_tests import area_interval
from tests.examples import examples

Row = tuple[float, float, int, float, list[int]]
NUMBERS = ("low", "high", "stderr", "worth")


@st.composite
def rows_of_groups(draw: st.DrawFn) -> list[Row]:
    """Draw for each group a value, a spread, rows, a skewness, and the sizes of its clusters."""
    size = draw(st.integers(2, 12))
    rows: list[Row] = []
    for _ in range(size):
        sizes = draw(st.lists(st.sampled_from([1, 1, 1, 2, 7, 60]), min_size=1, max_size=12))
        n = sum(sizes)
        share = draw(st.sampled_from([0.0, 1.0])) if draw(st.booleans()) else None
        value = draw(st.integers(0, n)) / n if share is None else share
        spread = draw(st.sampled_from([0.0, 1.0, 2.5])) * value * (1 - value) / n
        rows.append((value, spread, n, draw(st.floats(-2, 2)), sizes))
    return rows


def read_clusters(sizes: list[int], influence: float) -> Clusters:
    """Return clusters of these sizes as the engines do, one by one."""
    rows = np.array(sizes, dtype=np.float64)
    n = float(rows.sum())
    shares = rows / n
    return Clusters.of_sums(len(sizes), **_sum_clusters(rows, n, shares, influence))


def _sum_clusters(rows: Any, n: float, shares: Any, influence: float) -> dict[str, Any]:
    squares = float(((influence * rows) ** 2).sum())
    return {
        "rows": n,
        "second": float(shares @ shares),
        "squares": squares,
        "corrected": squares * 1.25,
        "inside": 0.25 * squares,
        "all_rows": 0.75 * squares,
        "shares": {name: float(found) for name, found in sum_shares(shares).items()},
    }


def stack(rows: list[Row]) -> tuple[Any, Any, Any, Any, Clusters]:
    """Return the same groups as columns; those of equal clusters have bare numbers."""
    value, spread, n, skewness = (np.array([row[at] for row in rows]) for at in range(4))
    each = []
    for *_, sizes in rows:
        of = np.array(sizes, dtype=np.float64)
        each.append(_sum_clusters(of, float(of.sum()), of / of.sum(), 0.5))
    sums = {
        name: np.array([one[name] for one in each])
        for name in ("rows", "second", "squares", "corrected", "inside", "all_rows")
    }
    shares = {key: np.array([one["shares"][key] for one in each]) for key in SHARE_SUMS}
    count = np.array([len(row[4]) for row in rows])
    return value, spread, n, skewness, Clusters.of_sums(count, **sums, shares=shares)


METHODS: dict[str, Callable[..., Interval]] = {
    "wilson": lambda value, spread, n, _, clusters: wilson(value, n, spread, clusters, 0.95),
    "partial": lambda v, spread, n, _, clusters: partial_wilson(v, n, spread, clusters, 0.9),
    "t": lambda value, spread, _n, _, clusters: t_interval(value, spread, clusters, 0.95),
    "positive": lambda value, spread, _n, skewness, clusters: positive_interval(
        value, spread, clusters, 0.95, skewness=skewness
    ),
    "unbounded": lambda value, spread, _n, skewness, clusters: unbounded_interval(
        value - 0.4, spread, clusters, 0.99, skewness=skewness
    ),
    "bounded": lambda value, spread, _n, _, clusters: bounded_interval(
        value, spread, clusters, 0.95
    ),
}


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
@examples(300)
@given(rows=rows_of_groups())
def test_columns_are_their_rows(method: Callable[..., Interval], rows: list[Row]) -> None:
    with np.errstate(all="ignore"):
        found = method(*stack(rows))
    for at, (value, spread, n, skewness, sizes) in enumerate(rows):
        alone = method(value, spread, n, skewness, read_clusters(sizes, 0.5))
        for name in NUMBERS:
            own, column = getattr(alone, name), getattr(found, name)
            one = column[at] if getattr(column, "ndim", 0) else column
            assert own == (None if one is None or np.isnan(one) else one), name
        reason = found.reason[at] if getattr(found.reason, "ndim", 0) else found.reason
        assert alone.reason == reason


@examples(300)
@given(rows=rows_of_groups())
def test_clusters_of_columns_are_those_of_their_rows(rows: list[Row]) -> None:
    with np.errstate(all="ignore"):
        *_, clusters = stack(rows)
        value, spread, n, *_ = stack(rows)
        worth = count_worth(value, n, spread, clusters)
    for at, (value_of, spread_of, rows_of, _, sizes) in enumerate(rows):
        alone = read_clusters(sizes, 0.5)
        for each in fields(Clusters):
            assert getattr(alone, each.name) == getattr(clusters, each.name)[at], each.name
        assert count_worth(value_of, rows_of, spread_of, alone) == worth[at]


@examples(300)
@given(
    st.lists(
        st.tuples(st.floats(0.01, 0.99), st.floats(1, 40), st.floats(1, 40)),
        min_size=1,
        max_size=20,
    )
)
def test_areas_of_columns_are_those_of_their_rows(
    areas: list[tuple[float, float, float]],
) -> None:
    interval = partial(area_interval, z=1.96)
    low, high = interval(*(np.array(column) for column in zip(*areas, strict=True)))
    assert list(zip(low.tolist(), high.tolist(), strict=True)) == [interval(*a) for a in areas]

"""Whole numbers are stored in few bytes, and added up in 64 bits, so that no sum overflows."""

from __future__ import annotations

import polars as pl
import pytest

from calipers.engines.totals import sum_keys
from calipers.metrics import Metric, catalogue
from calipers.metrics.declare.declaration import GROUP, TASK, Aggregate
from calipers.metrics.declare.means import declare_sums
from calipers.metrics.families.reasoning import cot_chars

_SUMMED = [each for each in catalogue().values() if isinstance(each.aggregate, Aggregate)]


@pytest.mark.parametrize("metric", _SUMMED, ids=lambda metric: metric.name)
def test_totals_of_whole_numbers_have_64_bits(metric: Metric) -> None:
    assert isinstance(metric.aggregate, Aggregate)
    aggregate = metric.aggregate
    own = {each.name: each.dtype for each in metric.features}
    rows = pl.LazyFrame(schema={GROUP: pl.Int32(), TASK: pl.Int64(), **own})
    types = sum_keys(rows, aggregate).collect_schema()
    narrow = {
        name: types[name]
        for name in aggregate.totals
        if types[name].is_signed_integer() and types[name] != pl.Int64
    }
    assert not narrow


def test_a_sum_beyond_32_bits_is_right() -> None:
    assert cot_chars.dtype == pl.Int32
    aggregate = declare_sums(cot_chars)
    largest = 2**31 - 1
    rows = pl.LazyFrame(
        {GROUP: [0] * 3, cot_chars.name: [largest] * 3},
        schema={GROUP: pl.Int32(), cot_chars.name: cot_chars.dtype},
    )
    [totals] = sum_keys(rows, aggregate).collect().to_dicts()
    assert totals == {GROUP: 0, "cot_chars__n": 3, "cot_chars__sum": 3 * largest}

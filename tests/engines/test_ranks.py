"""The value at a rank: that of the sorted list, on both ways to it."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Sequence
from dataclasses import replace
from statistics import median, mode
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import calipers as cal
from calipers.engines import polars_engine, quantiles
from calipers.engines.plan import Plan
from calipers.engines.polars_engine import sum_store
from calipers.engines.store import Store
from calipers.metrics import metric_named
from calipers.metrics.declare.declaration import GROUP, Rank
from calipers.metrics.declare.settings import Settings
from calipers.metrics.families.cost import cost_usd
from tests.engines.compact import compact
from tests.examples import examples, first_of

P95 = metric_named("latency_p95_ms")

Groups = dict[str | None, list[float | None]]


FEW = {"sorted": 10**9, "digit by digit": 0, "a digit, then at once": 3, "at once": 10**9}


@pytest.fixture(params=list(FEW), autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every way to a rank, whatever the number of rows."""
    if request.param != "sorted":
        monkeypatch.setattr(polars_engine, "RANKED_ROWS", -1)
    monkeypatch.setattr(quantiles, "_FEW", FEW[request.param])


def at_rank(groups: Groups, percent: int = 95, *, held_bytes: int = 10**9) -> dict[str, float]:
    assert isinstance(P95.aggregate, Rank)
    rank = replace(P95.aggregate, percent=percent)
    plan = Plan((replace(P95, aggregate=rank),), ("model",), Settings())
    rows: list[dict[str, Any]] = [
        {"model": model, "latency_ms": value, "id": str(number)}
        for model, values in groups.items()
        for number, value in enumerate(values)
    ]
    random.Random(1).shuffle(rows)
    with Store(plan.schema, held_bytes=held_bytes) as store:
        store.add(compact(plan, rows))
        found = sum_store(store, plan)
    return {
        group: values[rank.value_name]
        for group, values in found.items()
        if rank.value_name in values
    }


def by_sorting(values: Sequence[float | None], percent: int = 95) -> float:
    known = sorted(value for value in values if value is not None)
    return known[math.ceil(percent * len(known) / 100) - 1]


@pytest.mark.parametrize("percent", first_of([95, 1, 100]))
@pytest.mark.parametrize("count", [1, 2, 19, 20, 21, 100, 101])
def test_the_value_is_that_of_the_sorted_list(percent: int, count: int) -> None:
    chance = random.Random(count)
    values: list[float | None] = [chance.expovariate(0.001) for _ in range(count)]
    assert at_rank({"m": values}, percent) == {'{"model":"m"}': by_sorting(values, percent)}


@pytest.mark.parametrize(
    "values",
    [
        [5.0] * 1000,
        [1.0] * 500 + [2.0] * 500,
        [1.0] * 949 + [2.0] * 51,
        [1.0] * 950 + [2.0] * 50,
        [1.0] * 951 + [2.0] * 49,
        [float(number % 7) for number in range(1000)],
        [-float(number) for number in range(1000)],
        [number - 500.0 for number in range(1000)],
        [-0.0, 0.0] * 50,
        [-1.0] * 99 + [0.0],
        [5e-324, 2.5e-320, 1e-308, 1e308, 1.7976931348623157e308] * 9,
        [-1.7976931348623157e308, -1e308, -1e-308, -5e-324, 0.0] * 9,
        # Equal in the upper 32 bits, where the last step has to tell them apart.
        [math.nextafter(1.0, 2.0) if number % 3 else 1.0 for number in range(100)],
        [1.0 + number * 2.0**-52 for number in range(200)],
        [-1.0 - number * 2.0**-52 for number in range(200)],
        [None, 3.0, None, 4.0, None],
    ],
)
@pytest.mark.parametrize("percent", first_of([95, 5]))
def test_ties_signs_and_neighbours(values: list[float | None], percent: int) -> None:
    assert at_rank({"m": values}, percent) == {'{"model":"m"}': by_sorting(values, percent)}


@given(
    st.dictionaries(
        st.sampled_from(["a", "b", None]),
        st.lists(
            st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([0.0, 1.0, -1.0]),
            min_size=1,
            max_size=60,
        ),
        min_size=1,
    ),
    st.integers(1, 100),
)
@examples(40, deadline=None)
def test_any_numbers_in_any_groups(groups: dict[str | None, list[float]], percent: int) -> None:
    found = at_rank({model: list(values) for model, values in groups.items()}, percent)
    names = {"a": '{"model":"a"}', "b": '{"model":"b"}', None: '{"model":null}'}
    assert found == {names[model]: by_sorting(values, percent) for model, values in groups.items()}


def test_a_group_without_values_has_no_rank() -> None:
    assert at_rank({"a": [None, None], "b": [1.0]}) == {'{"model":"b"}': 1.0}


def test_ranks_over_the_parts_of_a_store_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("calipers.engines.spilling.SPILL_BYTES", 60_000)
    chance = random.Random(9)
    groups: Groups = {
        model: [chance.choice([chance.gauss(0, 1e3), 7.0]) for _ in range(size)]
        for model, size in [("a", 5000), ("b", 1), ("c", 333)]
    }
    found = at_rank(groups, held_bytes=1)
    assert found == {
        f'{{"model":"{model}"}}': by_sorting(values) for model, values in groups.items()
    }


def test_the_metric_is_the_rank() -> None:
    values = [random.Random(4).random() * 100 for _ in range(777)]
    measured = cal.score([{"latency_ms": value} for value in values]).groups[0].metrics
    assert measured["latency_p95_ms"].value == by_sorting(values)


def test_the_position_is_exact_in_whole_numbers() -> None:
    assert isinstance(P95.aggregate, Rank)
    for count, position in [(1, 1), (19, 19), (20, 19), (21, 20), (100, 95), (101, 96)]:
        assert P95.aggregate.locate(count) == position
    assert P95.aggregate.locate(10**18 + 1) == 95 * 10**16 + 1  # a float would lose the one


@given(
    st.dictionaries(
        st.sampled_from(["a", "b", "c"]),
        st.lists(st.none() | st.sampled_from([0.0, -0.0, 0.25, 1.0, math.inf]), max_size=12),
    )
)
@settings(deadline=None)
def test_seven_statistics_are_those_of_the_sorted_list(
    groups: dict[str, list[float | None]],
) -> None:
    name = "cost_usd"
    plan = Plan((), ("model",), Settings(), described=(cost_usd,))
    rows = pl.DataFrame(
        [
            (json.dumps({"model": group}), value)
            for group, values in groups.items()
            for value in values
        ],
        schema={GROUP: pl.String, name: pl.Float64},
        orient="row",
    )
    with Store(plan.schema) as store:
        store.add(pl.concat([pl.DataFrame(schema=plan.schema), rows], how="diagonal"))
        found = sum_store(store, plan)
    for group, values in groups.items():
        known = sorted(value for value in values if value is not None)
        own = found.get(json.dumps({"model": group}), {})
        assert own.get(f"{name}__mode") == (mode(known) if known else None)
        if known:
            middle = (own[f"{name}__middle"] + own[f"{name}__next"]) / 2
            assert (own[f"{name}__min"], middle, own[f"{name}__max"]) == (
                known[0],
                median(known),
                known[-1],
            )

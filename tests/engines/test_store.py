"""The store: what goes to disk comes back, and totals do not show where the rows were."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from calipers.engines import spilling
from calipers.engines.group_totals import GroupTotals
from calipers.engines.plan import Plan
from calipers.engines.polars_engine import sum_store
from calipers.engines.store import Store
from calipers.metrics import catalogue
from calipers.metrics.declare.declaration import GROUP, TASK
from calipers.metrics.declare.settings import Settings
from tests.engines.compact import compact
from tests.examples import first_of

PLAN = Plan(tuple(catalogue().values()), ("model",), Settings())
ROWS, BATCH = 1000, 100


def _rows(count: int, *, with_ids: bool = True) -> list[dict[str, Any]]:
    chance = random.Random(3)
    return [
        {
            "id": f"q{number % (count // 4)}" if with_ids else None,
            "category": f"c{number % (count // 4) % 9}",
            "model": chance.choice(["a", "b", None]),
            "answer": chance.choice(["1", "2", "x", None]),
            "target": "1",
            "cot": chance.choice(["1 + 1 = 2", "- 1 + 1 = 3\n- sorry", None]),
            "prob_correct": chance.random(),
            "prompt_tokens": float(chance.randrange(100)),
            "completion_tokens": float(chance.randrange(100)),
            "latency_ms": chance.choice([chance.random() * 1000, 5.0]),
            "error": chance.choice([None] * 9 + ["boom"]),
        }
        for number in range(count)
    ]


@pytest.fixture(scope="module", params=[True, False], ids=["with ids", "without ids"])
def batches(request: pytest.FixtureRequest) -> list[pl.DataFrame]:
    table = compact(PLAN, _rows(ROWS, with_ids=request.param))
    return list(table.iter_slices(BATCH))


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """So small that rows spread by task are in several, of which the first stay in memory."""
    monkeypatch.setattr(spilling, "SPILL_BYTES", 60_000)
    monkeypatch.setattr(spilling, "KEPT_BYTES", 30_000)


def _filled(store: Store, batches: list[pl.DataFrame]) -> Store:
    for batch in batches:
        store.add(batch)
    return store


@pytest.mark.parametrize("held_bytes", first_of([40_000, 4 * 10**6, 1]))
def test_spilling_gives_the_totals_of_memory(held_bytes: int, batches: list[pl.DataFrame]) -> None:
    with Store(PLAN.schema) as held, Store(PLAN.schema, held_bytes=held_bytes) as spilled:
        expected = sum_store(_filled(held, batches), PLAN)
        found = sum_store(_filled(spilled, batches), PLAN)
        assert len(list(held.parts())) == 1
        assert (len(list(spilled.parts())) > 1) == (held_bytes < 4 * 10**6)
    _assert_same(found, expected)


@pytest.mark.parametrize("unknown", [None, 0.95])
def test_a_part_may_have_one_key_alone(unknown: float | None) -> None:
    """All of its confidences are in one bin, or unknown; those of other parts are in all."""
    rows = _rows(ROWS, with_ids=False)
    for number, row in enumerate(rows[: ROWS // 2]):
        row["prob_correct"] = 0.95 if number % 3 else unknown
    batches = list(compact(PLAN, rows).iter_slices(BATCH))
    with Store(PLAN.schema) as held, Store(PLAN.schema, held_bytes=1) as spilled:
        expected = sum_store(_filled(held, batches), PLAN)
        found = sum_store(_filled(spilled, batches), PLAN)
    _assert_same(found, expected)


@pytest.mark.long
def test_parts_may_share_clusters() -> None:
    plan = replace(PLAN, cluster="category")
    batches = list(compact(plan, _rows(ROWS)).iter_slices(BATCH))
    with Store(plan.schema) as held, Store(plan.schema, held_bytes=1) as spilled:
        expected = sum_store(_filled(held, batches), plan)
        _assert_same(sum_store(_filled(spilled, batches), plan), expected)


def _assert_same(found: GroupTotals, expected: GroupTotals) -> None:
    assert found.keys() == expected.keys()
    for group, values in expected.items():
        numbers = {name: value for name, value in values.items() if isinstance(value, float)}
        assert {name: found[group][name] for name in numbers} == pytest.approx(numbers, rel=1e-12)
        exact = {name: value for name, value in values.items() if name not in numbers}
        assert exact
        assert {name: found[group][name] for name in exact} == exact
        assert found[group].keys() == values.keys()


def test_every_row_comes_back_once(batches: list[pl.DataFrame]) -> None:
    with Store(PLAN.schema, held_bytes=1) as store:
        parts = [store.codes.decode_groups(part) for part in _filled(store, batches).parts()]
        again = [store.codes.decode_groups(part) for part in store.parts()]
    assert_frame_equal(pl.concat(parts), pl.concat(batches), check_row_order=False)
    assert_frame_equal(pl.concat(again), pl.concat(parts))


def _runs_side_by_side(batches: list[pl.DataFrame]) -> list[pl.DataFrame]:
    rows = pl.concat(batches).sort(TASK, maintain_order=True)
    return list(rows.iter_slices(BATCH - 1))  # so that tasks go on in the next batch


@pytest.mark.parametrize("arrange", [list, _runs_side_by_side], ids=["far apart", "side by side"])
def test_all_rows_of_a_task_are_in_one_part_and_in_order(
    arrange: Callable[[list[pl.DataFrame]], list[pl.DataFrame]], batches: list[pl.DataFrame]
) -> None:
    batches = arrange(batches)
    with Store(PLAN.schema, held_bytes=40_000) as store:
        parts = [store.codes.decode_groups(part) for part in _filled(store, batches).parts()]
    seen: set[int] = set()
    everything = pl.concat(batches)
    for part in parts:
        tasks = set(part[TASK].drop_nulls())
        assert not tasks & seen
        seen |= tasks
        assert_frame_equal(
            part.filter(pl.col(TASK).is_not_null()).sort(TASK, maintain_order=True),
            everything.filter(pl.col(TASK).is_in(list(tasks))).sort(TASK, maintain_order=True),
        )
    assert seen == set(everything[TASK].drop_nulls())


def test_rows_stay_where_they_came_if_the_runs_of_a_task_are_side_by_side(
    batches: list[pl.DataFrame], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spilling.SpilledRows, "_spread", lambda _: pytest.fail("spread"))
    with Store(PLAN.schema, held_bytes=40_000) as store:
        parts = list(_filled(store, _runs_side_by_side(batches)).parts([TASK]))
    assert len(parts) > 1
    assert sum(part.height for part in parts) == ROWS


def test_tasks_are_looked_at_some_at_a_time(
    batches: list[pl.DataFrame], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spilling, "_LOOKED_AT", ROWS // 4)
    test_all_rows_of_a_task_are_in_one_part_and_in_order(list, batches)


@pytest.mark.parametrize("runs", [1, 2])
def test_it_is_known_whether_each_task_has_one_row(runs: int) -> None:
    rows = compact(PLAN, [row | {"id": f"t{at}"} for at, row in enumerate(_rows(ROWS // 2))])
    with Store(PLAN.schema, held_bytes=1) as store:
        assert _filled(store, [rows] * runs).are_tasks_single == (runs == 1)
        found = sum_store(store, PLAN)
    with Store(PLAN.schema) as held:
        assert not held.are_tasks_single  # as far as is known
        _assert_same(found, sum_store(_filled(held, [rows] * runs), PLAN))


def test_some_columns_of_each_part(batches: list[pl.DataFrame]) -> None:
    columns = ("latency_ms", TASK)
    for held_bytes in (1, 10**9):
        with Store(PLAN.schema, held_bytes=held_bytes) as store:
            parts = list(_filled(store, batches).parts(columns))
        assert {tuple(part.columns) for part in parts} == {columns}
        assert sum(part.height for part in parts) == ROWS


def test_an_empty_store_has_one_part_without_rows() -> None:
    with Store(PLAN.schema) as store:
        [part] = store.parts()
        assert (part.height, dict(part.schema)) == (0, {**PLAN.schema, GROUP: pl.Int32()})
        assert sum_store(store, PLAN) == {}


def test_nothing_is_left_on_disk(
    batches: list[pl.DataFrame], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with Store(PLAN.schema, held_bytes=1) as store:
        _filled(store, batches)
        assert list(tmp_path.rglob("*.arrow"))
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_left_on_disk_by_a_run_that_fails(
    batches: list[pl.DataFrame], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def fail() -> None:
        with Store(PLAN.schema, held_bytes=1) as store:
            _filled(store, batches)
            assert list(tmp_path.rglob("*.arrow"))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kept_bytes", [0, 10**6], ids=["in a file", "in memory"])
def test_numbers_come_back_as_they_were_written(
    kept_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spilling, "KEPT_BYTES", kept_bytes)
    columns: dict[str, list[float | None]] = {
        "whole": [0.0, None, 300.0, -5.0],
        "large": [1.0, 2.0**31, 1e300, None],
        "shares": [0.0, 1.0, 0.5, None],
        "none": [None] * 4,
        "odd": [1.0, float("nan"), float("inf"), 2.0],
    }
    schema: dict[str, pl.DataType] = dict.fromkeys(columns, pl.Float64())
    schema |= {GROUP: pl.Int32(), TASK: pl.Int64(), "count": pl.Int64()}
    own = {GROUP: [0] * 4, TASK: [1, 2, 3, 2**62], "count": [0, 2**40, None, -1]}
    rows = pl.DataFrame({**columns, **own}, schema=schema)
    spilled = spilling.SpilledRows(schema)
    try:
        spilled.add([rows[:1], rows[1:3], rows[3:]])
        [[found]] = spilled.parts(rows.columns)
    finally:
        spilled.remove()
    assert_frame_equal(found, rows, check_exact=True)

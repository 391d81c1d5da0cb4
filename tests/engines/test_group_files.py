"""Rows of many groups: measured share by share, or cut where a group is large, all is the same."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from calipers.engines import group_codes, spilling, store, totals
from calipers.engines.group_totals import GroupTotals
from calipers.engines.plan import Plan
from calipers.engines.polars_engine import sum_store
from calipers.engines.store import HeldRows, Store
from calipers.metrics import metrics_of
from calipers.metrics.declare.declaration import GROUP, TASK
from calipers.metrics.declare.settings import Settings
from calipers.metrics.families.cost import DESCRIBED, MEDIANS
from tests.engines.compact import compact

PLAN = Plan(
    tuple(metrics_of("tiers")),
    ("tier",),
    Settings(),
    described=DESCRIBED,
    medians=MEDIANS,
    per_task=True,
)
TIERS, TASKS, RUNS, BATCH = 80, 4, 4, 400


def _draw_runs(*, with_ids: bool) -> list[dict[str, Any]]:
    chance = random.Random(5)
    runs = [
        {
            "id": f"q{task}" if with_ids else None,
            "tier": f"T{tier}",
            "run": str(chance.randrange(RUNS)),  # some come twice
            "passed": chance.choice([True, False, None]),
            "impl_rate": chance.random(),
            "cost_usd": chance.choice([None, 0.25, chance.random()]),
            "duration_seconds": None if tier < TIERS // 2 else chance.random(),
            "error": chance.choice([None] * 9 + ["boom"]),
        }
        for tier in range(TIERS)
        for task in range(TASKS)
        for _ in range(RUNS if task else 1)
    ]
    chance.shuffle(runs)
    return runs


@pytest.fixture(scope="module", params=[True, False], ids=["with ids", "without ids"])
def batches(request: pytest.FixtureRequest) -> list[pl.DataFrame]:
    return list(compact(PLAN, _draw_runs(with_ids=request.param)).iter_slices(BATCH))


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spilling, "SPILL_BYTES", 150_000)
    monkeypatch.setattr(group_codes, "FEW_ROWS", 0)
    monkeypatch.setattr(store, "FEW_ROWS", 0)
    monkeypatch.setattr(totals, "WORTH_LOADING", 0)


def _fill(rows: Store, batches: Sequence[pl.DataFrame]) -> Store:
    for batch in batches:
        rows.add(batch)
    return rows


def _measure(batches: Sequence[pl.DataFrame], *, held_bytes: int) -> GroupTotals:
    with Store(PLAN.schema, held_bytes=held_bytes) as rows:
        return sum_store(_fill(rows, batches), PLAN)


def test_shares_of_groups_give_the_totals_of_memory(
    batches: list[pl.DataFrame], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = _measure(batches, held_bytes=1)
    _assert_same(found, _measure(batches, held_bytes=10**9))
    monkeypatch.setattr(spilling, "_LARGEST", 0)
    _assert_same(found, _measure(batches, held_bytes=1))


def _assert_same(found: GroupTotals, expected: GroupTotals) -> None:
    assert len(found) == TIERS
    assert found.keys() == expected.keys()
    for group, summed in expected.items():
        own, others = dict(found[group]), dict(summed)
        for each in (own, others):
            each.pop("cost_of_pass__squares")  # of infinite values: nobody reads it
        assert own == pytest.approx(others, rel=1e-12, abs=1e-12)


def test_a_share_has_all_rows_of_its_groups_in_the_order_of_tasks(
    batches: list[pl.DataFrame],
) -> None:
    seen: list[str] = []
    with Store(PLAN.schema, held_bytes=1) as rows:
        for share in _fill(rows, batches).split_groups():
            assert isinstance(share, HeldRows)
            [part] = share.parts([GROUP, TASK])
            assert part[GROUP].is_sorted()
            assert part[TASK].is_sorted()
            seen += share.groups
    assert len(seen) == len(set(seen)) == TIERS


@pytest.mark.parametrize("largest", [0, 4])
def test_every_row_comes_back_once(
    batches: list[pl.DataFrame], monkeypatch: pytest.MonkeyPatch, largest: int
) -> None:
    monkeypatch.setattr(spilling, "_LARGEST", largest)
    with Store(PLAN.schema, held_bytes=1) as rows:
        parts = [rows.codes.decode_groups(part) for part in _fill(rows, batches).parts()]
    assert len(parts) > 1
    assert_frame_equal(pl.concat(parts), pl.concat(batches), check_row_order=False)


def test_rows_before_the_groups_are_many_stay_with_those_that_follow() -> None:
    """The first to be written are of few groups; so all are spread by task."""
    runs = compact(PLAN, _draw_runs(with_ids=True))
    batches = list(runs.sort(GROUP).iter_slices(BATCH // 2))
    _assert_same(_measure(batches, held_bytes=1), _measure(batches, held_bytes=10**9))


def test_nothing_is_left_on_disk(
    batches: list[pl.DataFrame], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with Store(PLAN.schema, held_bytes=1) as rows:
        _fill(rows, batches)
    assert list(tmp_path.iterdir()) == []

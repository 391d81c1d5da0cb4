"""Tasks of two runs side by side, whether or not both runs have the same tasks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import calipers as cal
from calipers.comparisons.pairing import pair_tasks
from calipers.metrics.declare.declaration import GROUP, RUNS, TASK
from calipers.scores.task_values import SQUARES, VALUE, hold_single_values
from tests.comparisons.runs_at_hand import logs
from tests.processes import measure_process


def _measure(tasks: list[int], shift: float) -> pl.DataFrame:
    values = [task + shift for task in tasks]
    return pl.DataFrame({GROUP: "{}", TASK: tasks, VALUE: values, RUNS: 1, SQUARES: 0.0})


def test_the_same_tasks_are_paired_as_tasks_that_only_overlap() -> None:
    ours, theirs, more = _measure([2, 5, 9], 0.1), _measure([2, 5, 9], 0.2), _measure([1], 0.2)
    same, values = pair_tasks(ours, theirs)
    overlapping, others = pair_tasks(ours, pl.concat([theirs[::-1], more]))
    assert_frame_equal(same, overlapping)
    assert values.candidate.tolist() == others.candidate.tolist() == [2.2, 5.2, 9.2]
    assert values.base.tolist() == others.base.tolist() == [2.1, 5.1, 9.1]


def test_columns_of_one_value_take_no_room_and_change_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = [*logs(40, seed=1, runs=2), {"id": "t1", "correct": None, "error": "timeout: 30 s"}]
    others = logs(40, seed=2, runs=2)[6:]
    before = cal.compare(rows, others, resamples=1000).to_json()
    monkeypatch.setattr("calipers.scores.task_values._MANY_ROWS", 1)
    monkeypatch.setattr("calipers.comparisons.pairing._ONE_BY_ONE", 1)
    assert cal.compare(rows, others, resamples=1000).to_json() == before
    alike = [{"id": "t0", "correct": True, "model": "llama3"}] * 3
    assert cal.compare(alike, alike).pairs[0].n_pairs == 1


def test_only_columns_of_one_value_are_held_as_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("calipers.scores.task_values._MANY_ROWS", 1)
    rows = pl.DataFrame(
        {
            "model": ["gpt-4o"] * 3,
            "tags": [["a"]] * 3,
            "weight": [1.0, float("nan"), 1.0],
            "run": [1, None, 1],
            "latency_ms": [1.5, 1.5, 2.0],
        }
    )
    assert_frame_equal(hold_single_values(rows), rows)


_COMPARE = """
import sys
import calipers
found = calipers.compare(*sys.argv[1:], metrics=["accuracy", "latency_p95_ms", "cost_usd"])
assert found.pairs[0].n_pairs == 1_000_000
"""


@pytest.mark.long
def test_a_million_tasks_take_seconds_and_little_memory(tmp_path: Path) -> None:
    """Two runs of 5 million tasks took 4.7 GB, and now take 2; of a million 0.9, and now 0.6."""
    files = []
    for side, skill in enumerate((0.6, 0.62)):
        rng = np.random.default_rng(side)
        ids = pl.Series("id", rng.permutation(1_000_000)).cast(pl.String)
        columns = {
            "model": ["Qwen/Qwen2.5-7B"] * ids.len(),
            "correct": rng.random(ids.len()) < skill,
            "latency_ms": rng.exponential(900, ids.len()),
            "cost_usd": rng.exponential(0.01, ids.len()),
        }
        files.append(tmp_path / f"{side}.parquet")
        pl.DataFrame(columns).with_columns(ids).write_parquet(files[-1])
    taken = measure_process(tmp_path, "-c", _COMPARE, *files)
    assert taken.seconds < 20
    assert taken.megabytes < 800

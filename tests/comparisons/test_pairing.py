"""Tasks of two runs side by side, whether or not both runs have the same tasks."""

from __future__ import annotations

import polars as pl
from polars.testing import assert_frame_equal

from calipers.comparisons.pairing import pair_tasks
from calipers.metrics.declare.declaration import GROUP, RUNS, TASK
from calipers.scores.task_values import SQUARES, VALUE


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

"""Repeated runs: agreement of a task's runs (Z, section 8).

Each metric is averaged over the tasks with at least two runs that it can use. Rows that share an
`id` in a group are runs of one task.
"""

from __future__ import annotations

from math import inf, log
from typing import Any

import polars as pl

from calipers.metrics.answers.accuracy import DECIDABLE, correct
from calipers.metrics.answers.normalize import answer_key
from calipers.metrics.declare.declaration import (
    GROUP,
    RUNS,
    TASK,
    Aggregate,
    Frame,
    Metric,
    TaskValues,
    Totals,
)
from calipers.metrics.declare.intervals import OfMean, Wilson
from calipers.metrics.declare.means import COUNT, count_true, declare_task_totals
from calipers.statistics.intervals import Interval
from calipers.support.quick_dataclasses import dataclass

_AT_LEAST = 2


def measure_agreement(answers: Frame) -> Frame:
    """Return how far the runs of each repeated task agree, from a row per task and answer."""
    n = pl.col("n").cast(pl.Float64)
    runs = pl.col(RUNS).cast(pl.Float64)
    # Where all runs agree the entropy is exactly 0, which the subtraction may miss by a rounding.
    agreed = pl.when(pl.col("most") == pl.col(RUNS)).then(0.0)
    return (
        answers.with_columns(n_log_n=n * n.log())
        .group_by(GROUP, TASK)
        .agg(
            pl.col("n").sum().alias(RUNS), pl.col("n").max().alias("most"), pl.col("n_log_n").sum()
        )
        .filter(pl.col(RUNS) >= _AT_LEAST)
        .with_columns(
            answer_entropy=agreed.otherwise(runs.log() - pl.col("n_log_n") / runs),
            most_common_share=pl.col("most") / runs,
        )
    )


def _keep_most_common(answers: Frame) -> Frame:
    """Keep each repeated task's most common answer, the smallest of equals; say if it is right."""
    n = pl.col("checked")
    return (
        answers.filter(n > 0)
        .with_columns(
            n.max().over(GROUP, TASK).alias("most"), n.sum().over(GROUP, TASK).alias(RUNS)
        )
        .filter((n == pl.col("most")) & (pl.col(RUNS) >= _AT_LEAST))
        .with_columns(smallest=pl.col("answer_key").min().over(GROUP, TASK))
        .filter(pl.col("answer_key") == pl.col("smallest"))
        .with_columns(mode_right=(pl.col("right") * 2 > n).cast(pl.Int64))
    )


ANSWERS = Aggregate(
    features=(answer_key, correct),
    keys=(TASK, "answer_key"),
    where=lambda: ~pl.col(TASK).is_null() & ~pl.col("answer_key").is_null(),
    totals={
        "n": COUNT,
        "checked": pl.col("correct").count().cast(pl.Int64),
        "right": count_true(correct),
    },
    tasks=(
        TaskValues(
            name="repeats", step=measure_agreement, values=("answer_entropy", "most_common_share")
        ),
        TaskValues(name="mode", step=_keep_most_common, values=("mode_right",)),
    ),
)

_OF_ANSWERS: dict[str, Any] = {
    "needs": ("id", "answer"),
    "nulls": "a row without an answer is left out, and a task with fewer than two runs left",
    "empty": "no task has two runs with an answer",
}


@dataclass(frozen=True)
class _WithinRuns:
    """The entropy of r runs is at most ln r: an interval between 0 and that of as many as usual."""

    name: str = "logit t"

    def interval(self, value: float, totals: Totals, confidence: float) -> Interval:
        runs = totals["repeats__rows"] / totals["repeats__tasks"]
        within = OfMean("answer_entropy", (0.0, max(value, log(runs))), unit="task")
        return within.interval(value, totals, confidence)


def _declare(
    value: str, of: str, *, work: str, aggregate: Aggregate = ANSWERS, **facts: Any
) -> Metric:
    """Return the metric that is the mean, over tasks, of one of the task values `of`."""
    summed, tasks = f"{value}__sum", f"{of}__tasks"
    return Metric(
        spec="Z 8",
        aggregate=aggregate,
        rows=f"{of}__rows",
        value=lambda totals: totals[summed] / totals[tasks],
        work=f"{{{summed}}} / {{{tasks}}}, {work}",
        averaged=value,
        **facts,
    )


answer_entropy = _declare(
    "answer_entropy",
    "repeats",
    name="answer_entropy",
    says="How much the answers to one task vary over its runs, in nats; 0 when all agree.",
    formula="mean over tasks of −Σ p ln p over the task's distinct normalised answers",
    **_OF_ANSWERS,
    unit="nats",
    range=(0, inf),
    better="lower",
    work="the sum of the tasks' entropies over the tasks",
    interval=_WithinRuns(),
    weight=lambda _: 1 / pl.col("n"),
)

determinism_index = _declare(
    "most_common_share",
    "repeats",
    name="determinism_index",
    says="The share of a task's runs that give its most common answer; 1 when all agree.",
    formula="mean over tasks of (runs with the most common answer / runs)",
    **_OF_ANSWERS,
    range=(0, 1),
    better="higher",
    work="the sum of the tasks' shares over the tasks",
    interval=OfMean("most_common_share", unit="task"),
    weight=answer_entropy.weight,
)

mode_accuracy = _declare(
    "mode_right",
    "mode",
    name="mode_accuracy",
    says="The share of tasks whose most common answer is right: accuracy by majority vote.",
    formula="mean over tasks of (the most common answer is right; a tie goes to the smallest)",
    needs=("id", "answer", DECIDABLE),
    nulls="a row without an answer or a decidable correctness is left out, "
    "and a task with fewer than two runs left",
    range=(0, 1),
    better="higher",
    empty="no task has two runs with an answer that can be checked",
    work="tasks whose most common answer is right over tasks",
    interval=Wilson("mode_right", "mode__tasks"),
    weight=lambda _: pl.col("n") - pl.col("right"),
)


def _mark_stable(tasks: Frame) -> Frame:
    runs, right = pl.col(RUNS), pl.col("right")
    return tasks.filter(runs >= _AT_LEAST).with_columns(
        stable=((right == 0) | (right == runs)).cast(pl.Int64)
    )


stability = _declare(
    "stable",
    "stable",
    name="stability",
    says="The share of tasks whose runs are all right or all wrong.",
    formula="mean over tasks of (all runs right or all runs wrong)",
    needs=("id", DECIDABLE),
    nulls="a row whose correctness cannot be decided is left out, "
    "and a task with fewer than two runs left",
    range=(0, 1),
    better="higher",
    aggregate=declare_task_totals(
        correct,
        {"right": count_true(correct)},
        tasks=(TaskValues(name="stable", step=_mark_stable, values=("stable",)),),
    ),
    empty="no task has two runs whose answers can be checked",
    work="tasks all right or all wrong over the tasks",
    interval=Wilson("stable", "stable__tasks"),
    weight=lambda _: pl.min_horizontal(pl.col("right"), pl.col(RUNS) - pl.col("right")),
)

"""Repeated runs: what a task's runs have in common (Z, section 8).

Each metric is averaged over the tasks with at least two runs that it can use. Rows that share an
`id` in a group are runs of one task.
"""

from __future__ import annotations

import narwhals as nw
import polars as pl

from calipers.metrics.accuracy import DECIDABLE, correct
from calipers.metrics.declaration import GROUP, TASK, Aggregate, Frame, Metric
from calipers.metrics.normalize import answer_key

_AT_LEAST = 2
_COUNT = nw.len().cast(nw.Int64)


def _per_task(answers: Frame) -> Frame:
    """From a row per task and distinct answer to a row per repeated task."""
    n = nw.col("n").cast(nw.Float64)
    return (
        answers.with_columns(n_log_n=n * n.log())
        .group_by(GROUP, TASK)
        .agg(
            nw.col("n").sum().alias("runs"),
            nw.col("n").max().alias("most"),
            nw.col("n_log_n").sum(),
        )
        .filter(nw.col("runs") >= _AT_LEAST)
    )


def _agreement(tasks: Frame) -> Frame:
    """How far the runs of the tasks agree, summed over each group."""
    runs = nw.col("runs").cast(nw.Float64)
    # Where all runs agree the entropy is exactly 0, which the subtraction may miss by a rounding.
    entropy = nw.when(nw.col("most") == nw.col("runs")).then(0.0)
    return (
        tasks.with_columns(
            entropy=entropy.otherwise(runs.log() - nw.col("n_log_n") / runs),
            share=nw.col("most") / runs,
        )
        .group_by(GROUP)
        .agg(
            _COUNT.alias("repeats__tasks"),
            nw.col("runs").sum().alias("repeats__rows"),
            nw.col("entropy").sum().alias("repeats__entropy"),
            nw.col("share").sum().alias("repeats__share"),
        )
    )


def _most_common(answers: Frame) -> Frame:
    """Keep each repeated task's most common answer, of equals the smallest; say if it is right."""
    n = nw.col("checked")
    return (
        answers.filter(n > 0)
        .with_columns(most=n.max().over(GROUP, TASK), runs=n.sum().over(GROUP, TASK))
        .filter((n == nw.col("most")) & (nw.col("runs") >= _AT_LEAST))
        .with_columns(smallest=nw.col("answer_key").min().over(GROUP, TASK))
        .filter(nw.col("answer_key") == nw.col("smallest"))
        .with_columns(is_right=(nw.col("right") * 2 > n).cast(nw.Int64))
        .group_by(GROUP)
        .agg(
            _COUNT.alias("mode__tasks"),
            nw.col("runs").sum().alias("mode__rows"),
            nw.col("is_right").sum().alias("mode__right"),
        )
    )


_answers = Aggregate(
    features=(answer_key, correct),
    keys=(TASK, "answer_key"),
    where=lambda: ~nw.col(TASK).is_null() & ~nw.col("answer_key").is_null(),
    totals={
        "n": _COUNT,
        "checked": nw.col("correct").count().cast(nw.Int64),
        "right": nw.col("correct").cast(nw.Int64).sum(),
    },
    finish=((_per_task, _agreement), (_most_common,)),
)

_NO_REPEATS = "no task has two runs with an answer"
_ANSWER_NULLS = "a row without an answer is left out, and a task with fewer than two runs left"

answer_entropy = Metric(
    name="answer_entropy",
    says="How much the answers to one task vary over its runs, in nats; 0 when all agree.",
    formula="mean over tasks of −Σ p ln p over the task's distinct normalised answers",
    spec="Z 8",
    profiles=("reasoning",),
    needs=("id", "answer"),
    nulls=_ANSWER_NULLS,
    unit="nats",
    range=(0, float("inf")),
    better="lower",
    aggregate=_answers,
    rows="repeats__rows",
    value=lambda totals: totals["repeats__entropy"] / totals["repeats__tasks"],
    empty=_NO_REPEATS,
    work="{repeats__entropy} / {repeats__tasks}, the sum of the tasks' entropies over the tasks",
    influence=lambda _: 1 / pl.col("n"),
)

determinism_index = Metric(
    name="determinism_index",
    says="The share of a task's runs that give its most common answer; 1 when all agree.",
    formula="mean over tasks of (runs with the most common answer / runs)",
    spec="Z 8",
    profiles=("reasoning",),
    needs=("id", "answer"),
    nulls=_ANSWER_NULLS,
    unit=None,
    range=(0, 1),
    better="higher",
    aggregate=_answers,
    rows="repeats__rows",
    value=lambda totals: totals["repeats__share"] / totals["repeats__tasks"],
    empty=_NO_REPEATS,
    work="{repeats__share} / {repeats__tasks}, the sum of the tasks' shares over the tasks",
    influence=answer_entropy.influence,
)


mode_accuracy = Metric(
    name="mode_accuracy",
    says="The share of tasks whose most common answer is right: accuracy by majority vote.",
    formula="mean over tasks of (the most common answer is right; a tie goes to the smallest)",
    spec="Z 8",
    profiles=("reasoning",),
    needs=("id", "answer", DECIDABLE),
    nulls="a row without an answer or a decidable correctness is left out, "
    "and a task with fewer than two runs left",
    unit=None,
    range=(0, 1),
    better="higher",
    aggregate=_answers,
    rows="mode__rows",
    value=lambda totals: totals["mode__right"] / totals["mode__tasks"],
    empty="no task has two runs with an answer that can be checked",
    work="{mode__right} / {mode__tasks}, tasks whose most common answer is right over the tasks",
    influence=lambda _: pl.col("n") - pl.col("right"),
)


def _all_or_none(tasks: Frame) -> Frame:
    runs, right = nw.col("n"), nw.col("right")
    return (
        tasks.filter(runs >= _AT_LEAST)
        .with_columns(is_stable=((right == 0) | (right == runs)).cast(nw.Int64))
        .group_by(GROUP)
        .agg(
            _COUNT.alias("stable__tasks"),
            runs.sum().alias("stable__rows"),
            nw.col("is_stable").sum().alias("stable__sum"),
        )
    )


stability = Metric(
    name="stability",
    says="The share of tasks whose runs are all right or all wrong.",
    formula="mean over tasks of (all runs right or all runs wrong)",
    spec="Z 8",
    profiles=("reasoning",),
    needs=("id", DECIDABLE),
    nulls="a row whose correctness cannot be decided is left out, "
    "and a task with fewer than two runs left",
    unit=None,
    range=(0, 1),
    better="higher",
    aggregate=Aggregate(
        features=(correct,),
        keys=(TASK,),
        where=lambda: ~nw.col(TASK).is_null() & ~nw.col("correct").is_null(),
        totals={"n": _COUNT, "right": nw.col("correct").cast(nw.Int64).sum()},
        finish=((_all_or_none,),),
    ),
    rows="stable__rows",
    value=lambda totals: totals["stable__sum"] / totals["stable__tasks"],
    empty="no task has two runs whose answers can be checked",
    work="{stable__sum} / {stable__tasks}, tasks all right or all wrong over the tasks",
    influence=lambda _: pl.min_horizontal(pl.col("right"), pl.col("n") - pl.col("right")),
)

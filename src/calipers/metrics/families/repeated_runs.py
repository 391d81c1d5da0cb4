"""Several runs of a task: how far their answers agree (Z 8), pass@k and pass^k (T 7).

Rows that share an `id` in a group are runs of one task, and each metric is averaged over the tasks
that have enough runs. The chance that one of k runs passes, and that all k do, is estimated without
bias from n runs of which c passed (Chen et al. 2021, arXiv 2107.03374; Yao et al. 2024, arXiv
2406.12045).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, partial, reduce
from math import inf, log
from operator import mul
from typing import Any

import polars as pl

from calipers.metrics.declare.declaration import (
    GROUP,
    RUNS,
    TASK,
    Aggregate,
    Feature,
    Frame,
    Metric,
    OneOf,
    TaskValues,
    Totals,
)
from calipers.metrics.declare.interval_methods import OfMean, Wilson
from calipers.metrics.declare.means import COUNT, count_true, declare_task_totals
from calipers.metrics.families.answers import DECIDABLE, answer_key, correct
from calipers.metrics.families.scenarios import PASSED, VERSION, passed
from calipers.statistics.intervals import Interval

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
    """Keep each repeated task's most common answer, the smallest of equals, and if it is right."""
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


SHOWN = (1, 2, 3, 4, 5, 10)
_TIGHT = 0.1  # tasks at 0 and 1 are common: with 0.02 as elsewhere, coverage is 92 %, not 93 %


def _compute_chances(tasks: Frame, k: int) -> Frame:
    """Return each task's probability that one of k runs passes and that all do; null if few ran."""
    runs, right = pl.col(RUNS), pl.col("passes")
    left = [(runs - i).clip(1) for i in range(k)]  # 1: nothing is left to draw
    all_fail = reduce(mul, ((runs - right - i).clip(0) / each for i, each in enumerate(left)))
    all_pass = reduce(mul, ((right - i).clip(0) / each for i, each in enumerate(left)))
    return tasks.with_columns(
        pl.when(runs >= k).then(1 - all_fail).alias(f"pass_at_{k}"),
        pl.when(runs >= k).then(all_pass).alias(f"pass_hat_{k}"),
        (runs < k).cast(pl.Int64).alias(f"short_of_{k}"),
    )


_DECIDED = OneOf((*PASSED.choices, *DECIDABLE.choices))  # with one run, it equals accuracy

succeeded = Feature(
    "_succeeded", (passed, correct), lambda _: pl.coalesce(passed.name, correct.name), pl.Boolean()
)
"""Whether a run passed; of one that nothing says this of, whether its answer is right."""

_tries = declare_task_totals(succeeded, {"passes": count_true(succeeded)}, every_task=True)


@cache
def _declare_tries(k: int) -> Aggregate:
    """Return the aggregate; the same counts for every k, so that one pass serves them all."""
    values = (f"pass_at_{k}", f"pass_hat_{k}", f"short_of_{k}")
    chances = TaskValues(name=f"tries_{k}", step=partial(_compute_chances, k=k), values=values)
    return replace(_tries, tasks=(chances,))


def _explain_short(totals: Totals, k: int) -> str | None:
    short = int(totals.get(f"short_of_{k}__sum", 0))
    tasks = int(totals.get(f"tries_{k}__tasks", 0))
    return f"{short} of {tasks} tasks have fewer than {k} runs" if short else None


@cache
def declare_pass(kind: str, k: int) -> Metric:
    """Return `pass_at_K` (one of k runs passes) or `pass_hat_K` (all k pass)."""
    one = kind == "at"
    return Metric(
        name=f"pass_{kind}_{k}",
        says=f"The chance that {'one' if one else 'each'} of {k} runs of a task passes.",
        formula=f"mean over tasks of {'1 − C(n−c, k) / C(n, k)' if one else 'C(c, k) / C(n, k)'}, "
        f"k = {k}, c of n runs passed",
        spec="T 7, several runs per task",
        needs=("id", PASSED if k == 1 else _DECIDED),
        nulls="of a run not known to pass or fail, `correct` decides, else it is left out; null "
        "where any task has fewer than k runs",
        range=(0, 1),
        better="higher",
        aggregate=_declare_tries(k),
        rows=f"tries_{k}__tasks",
        used=f"tries_{k}__rows",
        value=lambda totals: totals[f"pass_{kind}_{k}__sum"] / totals[f"tries_{k}__tasks"],
        empty="no task has a run that is known to pass or fail",
        work=f"{{pass_{kind}_{k}__sum}} / {{tries_{k}__tasks}}, the tasks' chances over the tasks",
        interval=OfMean(f"pass_{kind}_{k}", unit="task", tight=_TIGHT),
        refused=partial(_explain_short, k=k),
        optional="unless named",
        averaged=f"pass_{kind}_{k}",
        version=VERSION,
    )


SHOWN_METRICS = tuple(declare_pass(kind, k) for kind in ("at", "hat") for k in SHOWN)

"""Several tries at a task: does one of k pass (pass@k), do all k (pass^k)? Averaged over the tasks.

Unbiased from n runs of which c passed (Chen et al. 2021, arXiv 2107.03374; Yao et al. 2024, arXiv
2406.12045).
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial, reduce
from operator import mul

import polars as pl

from calipers.metrics.answers.accuracy import DECIDABLE, correct
from calipers.metrics.declare.declaration import (
    RUNS,
    Aggregate,
    Feature,
    Frame,
    Metric,
    OneOf,
    TaskValues,
    Totals,
)
from calipers.metrics.declare.intervals import OfMean
from calipers.metrics.declare.means import count_true, declare_task_totals
from calipers.metrics.scenarios.passing import PASSED, VERSION, passed

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

"""The interval of every reasoning metric in plain Python: slow, from the formulas alone.

What a cluster does to a value is a derivative, taken numerically; Wilson's bounds are found by
bisection; binomial tails are summed in fractions. Student's t comes from scipy.

>>> rows = [{"latency_ms": ms} for ms in (1.0, 2.0, 3.0)]
>>> [found] = possible_intervals("latency_mean_ms", rows, Asked())
>>> round(found.stderr, 6), round(found.low, 4), round(found.high, 4)
(0.57735, 0.5776, 6.9255)
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator
from functools import partial
from itertools import product

from tests.conformance.interval_derivatives import _auroc, _ece, _entropy, _forecast
from tests.conformance.interval_errors import Asked, Bounds, Row, _apart, _cluster, _known
from tests.conformance.interval_means import _log_t, _logit_t, _order_statistics, _wilson
from tests.conformance.reference import (
    REFERENCES,
    Record,
    _answer,
    _called,
    _text,
)

BY_WILSON = {"accuracy", "usr", "error_rate", "self_correction_rate"}
BOUNDED = {
    *("brier", "math_usr", "determinism_index", "answer_entropy", "rag_usr", "retrieval_mrr"),
    *(f"retrieval_{kind}_at_5" for kind in ("precision", "recall", "ndcg")),
}
OVER_TASKS = {"answer_entropy", "determinism_index", "mode_accuracy", "stability"}
METHODS = {
    **dict.fromkeys(REFERENCES, "log t"),
    **dict.fromkeys([*BY_WILSON, "mode_accuracy", "stability"], "wilson"),
    **dict.fromkeys(BOUNDED, "logit t"),
    **dict.fromkeys(["sce", "sce_normalized", "ece", "auroc"], "delta"),
    **{f"latency_p{percent}_ms": "order statistics" for percent in (50, 95, 99)},
}


def possible_intervals(name: str, records: list[Record], asked: Asked) -> Iterator[Bounds]:
    """The interval of a metric that has a value, before it is cut to the metric's range.

    More than one where the runs of a task lie in several clusters: the task may be put in any.
    """
    if name in OVER_TASKS:
        yield from _over_tasks(name, records, asked)
        return
    rows = _called(records)
    clusters = [_cluster(row, number, asked) for number, row in enumerate(rows)]
    if name in {"sce", "sce_normalized"}:
        answers = _apart(_known([_answer(row, asked.options) for row in rows], clusters))
        yield _entropy(answers, asked, normalized=name == "sce_normalized")
    elif name in {"ece", "auroc"}:
        forecasts = _apart(_known([_forecast(row, asked) for row in rows], clusters))
        yield (_ece if name == "ece" else _auroc)(forecasts, asked)
    else:
        # The mean of one row is what the row counts for.
        values = [REFERENCES[name]([row], asked.options).value for row in rows]
        yield _method(name)(_apart(_known(values, clusters)), asked)


def _over_tasks(name: str, records: list[Record], asked: Asked) -> Iterator[Bounds]:
    """Tasks take the place of rows; each lies in a cluster of its runs, or is one of its own."""
    tasks: dict[str, list[Record]] = defaultdict(list)
    choices: dict[str, set[Hashable]] = defaultdict(set)
    for row in records:
        if (task := _text(row, "id")) is not None:
            tasks[task].append(row)
            known = None if asked.cluster is None else _text(row, asked.cluster)
            choices[task] |= set() if known is None else {known}
    every = {task: REFERENCES[name](rows, asked.options).value for task, rows in tasks.items()}
    values = {task: value for task, value in every.items() if value is not None}
    used = list(values)
    for chosen in product(*(choices[task] or {("task", task)} for task in used)):
        # The entropy of r runs is at most ln r: a share of that.
        most = 1.0
        if name == "answer_entropy":
            runs = sum(REFERENCES[name](tasks[task], asked.options).n for task in used)
            mean = math.fsum(values[task] for task in used) / len(used)
            most = max(mean, math.log(runs / len(used)))
        rows: list[Row] = [
            (values[task] / most, cluster) for task, cluster in zip(used, chosen, strict=True)
        ]
        yield _times(most, _method(name)(rows, asked))


def _times(unit: float, found: Bounds) -> Bounds:
    low, high, stderr = (
        None if each is None else unit * each for each in (found.low, found.high, found.stderr)
    )
    return Bounds(low, high, stderr, found.slack * unit)


_METHODS: dict[str, Callable[[list[Row], Asked], Bounds]] = {
    "log t": _log_t,
    "logit t": _logit_t,
    "wilson": _wilson,
    "order statistics": _order_statistics,
}


def _method(name: str) -> Callable[[list[Row], Asked], Bounds]:
    if name.startswith("latency_p"):
        return partial(_order_statistics, percent=int(name[9:11]))
    return _METHODS[METHODS[name]]

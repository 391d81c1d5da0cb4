"""`--weight task`: means count every task alike; metrics that are not means over rows are named."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from calipers.engines.plan import Plan
from calipers.metrics import Metric
from calipers.metrics.declare.means import weigh_tasks


def weigh_all(metrics: Sequence[Metric]) -> tuple[Metric, ...]:
    """Return the metrics with means over rows as means over tasks, the others as they are."""
    return tuple(weigh_tasks(metric) or metric for metric in metrics)


def note_row_weights(plan: Plan) -> Iterator[str]:
    """Say which metrics of a plan that weighs tasks count every row alike nevertheless."""
    names = [metric.name for metric in plan.metrics if metric.used is None]
    if names:
        yield (
            f"--weight task: {', '.join(names)}: no mean of rows, so a task counts by its rows here"
        )

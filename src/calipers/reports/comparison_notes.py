"""The lines below a table of a comparison."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from calipers.metrics import metric_named
from calipers.reports.figures import figure

if TYPE_CHECKING:
    from calipers.comparisons.results import Margin, Pair, Weights


def pair_notes(pair: Pair, confidence: float) -> Iterator[str]:
    """Yield which test stands behind which p, what is held against a margin, and what to know."""
    tests: dict[str, list[str]] = {}
    for name, metric in pair.metrics.items():
        if metric.p_value is None:
            tests.setdefault(metric.reason or "no test", []).append(name)
        else:
            tests.setdefault(f"{metric.test}; interval: {metric.interval}", []).append(name)
    for test, names in tests.items():
        yield f"{', '.join(names)}: {test}"
    for name, metric in pair.metrics.items():
        if metric.against is not None and metric.difference is not None:
            yield f"{name}: {_against(metric.against, metric_named(name).unit)}"
    for name, metric in pair.metrics.items():
        if metric.weights is not None:
            yield f"{name}: {_weighed(metric.weights, metric_named(name).unit)}"
    for name, metric in pair.metrics.items():
        if metric.detectable is not None and (metric.p_value or 0) > 1 - confidence:
            unit = metric_named(name).unit
            seen = figure(metric.detectable, unit)
            yield f"{name}: a difference below {seen} would mostly go unseen here (power 0.8)"


def _against(held: Margin, unit: str | None) -> str:
    """Say whether the candidate is not worse by more than the margin, and if both are alike."""
    margin = figure(held.margin, unit)
    alike = {
        "yes": f"equivalent within ±{margin}",
        "no": f"they differ by more than {margin}",
        "undecided": f"equivalence within ±{margin} is undecided",
    }[held.equivalent]
    if held.noninferior is None:
        return alike
    worse = {
        "yes": f"not worse by more than {margin}",
        "no": f"worse by more than {margin}",
        "undecided": f"undecided whether it is worse by more than {margin}",
    }[held.noninferior]
    return f"{worse}; {alike}"


def _weighed(weights: Weights, unit: str | None) -> str:
    """Say why `score` shows other values: tasks have different numbers of runs."""
    used, other = weights.used, "row" if weights.used == "task" else "task"
    values = weights.by_row if other == "row" else weights.by_task
    base, candidate = (figure(each, unit) for each in values)
    where = " as in `score`" if other == "row" else ""
    return (
        f"every {used} counts the same here; every {other}{where}: {base} and {candidate} "
        f"(tasks have different numbers of runs; --weight {other})"
    )

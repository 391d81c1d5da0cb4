"""Data of figures from a group's totals: histograms and bins of confidence."""

from __future__ import annotations

from collections.abc import Iterator

from calipers.engines.plan import Plan
from calipers.metrics.calibration.confidence import list_bins
from calipers.metrics.cost.efficiency import latency_ms, total_tokens
from calipers.metrics.declare.declaration import Totals
from calipers.metrics.declare.histogram import EDGES, read_bins, read_wide_bins
from calipers.metrics.reasoning.cot_shape import cot_tokens
from calipers.scores.results import Histogram, ReliabilityBin
from calipers.statistics.intervals import wilson

SPREAD = (latency_ms, total_tokens, cot_tokens)  # whose distributions are drawn


def read_histograms(totals: Totals, plan: Plan) -> dict[str, Histogram | None]:
    """Return the histograms that the plan asks for; unbounded ones only if they hold a value."""
    found: dict[str, Histogram | None] = {}
    for feature in plan.binned:
        counts = read_bins(feature.name, totals)
        found[feature.name] = None if counts is None else Histogram(edges=EDGES, counts=counts)
    for feature in plan.widely_binned:
        if wide := read_wide_bins(feature.name, totals):
            found[feature.name] = Histogram(edges=wide[0], counts=wide[1])
    return found


def read_reliability(totals: Totals, plan: Plan) -> Iterator[ReliabilityBin]:
    """Yield the bins that hold answers; their intervals treat rows as independent."""
    for low, high, n, confidence, right in list_bins(plan.settings.bins, totals):
        around = wilson(right / n, n, 0.0, n, plan.confidence)
        yield ReliabilityBin(
            low=low,
            high=high,
            n=n,
            confidence=confidence,
            accuracy=right / n,
            accuracy_low=around.low,
            accuracy_high=around.high,
        )

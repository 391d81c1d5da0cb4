"""The metrics of the dashboard: all that need no language model, which would take minutes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from calipers.engines.plan import Plan
from calipers.metrics import Metric
from calipers.metrics.declare.declaration import Feature
from calipers.metrics.text.similarity import semantic_similarity
from calipers.records.sources import Source
from calipers.scores.options import Options


class ViewOptions(Options):
    """The options of a score whose plan asks no model."""

    def plan(self, sources: Sequence[Source] = ()) -> Plan:
        """Return the plan without metrics that are based on a model's similarity."""
        plan = super().plan(sources)
        return replace(plan, metrics=tuple(filter(_needs_no_model, plan.metrics)))


def needs_no_model(feature: Feature) -> bool:
    """Say whether a feature is available without a language model."""
    return semantic_similarity not in feature.inputs and not feature.name.startswith("_sem")


def _needs_no_model(metric: Metric) -> bool:
    return all(map(needs_no_model, metric.features))

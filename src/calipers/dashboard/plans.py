"""The metrics of the dashboard: all that need no language model, which would take minutes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from calipers.engines.plan import Plan
from calipers.metrics.declare.declaration import Feature
from calipers.metrics.text.similarity import semantic_similarity
from calipers.records.sources import Source
from calipers.scores.options import Options


class ViewOptions(Options):
    """The options of a score whose plan asks no model."""

    def plan(self, sources: Sequence[Source] = ()) -> Plan:
        """Return the plan without metrics that are based on a model's similarity."""
        plan = super().plan(sources)
        own = (each for each in plan.metrics if not any(map(_needs_model, each.features)))
        return replace(plan, metrics=tuple(own))


def _needs_model(feature: Feature) -> bool:
    return semantic_similarity in feature.inputs or feature.name.startswith("_sem")

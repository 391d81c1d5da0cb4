"""Figures of a score, as Altair charts: shown in a notebook, put into a page, or saved as files.

A figure is a function from a score to a chart, or to the reason why it cannot be drawn. It draws
what the score holds, groups and histograms, never records.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from calipers.reports.charts.composite import composite_by_tier
from calipers.reports.charts.cost import cost_pass_rate
from calipers.reports.charts.distribution import latency, tokens
from calipers.reports.charts.forest import main_by_group, metric_by_group
from calipers.reports.charts.reliability import reliability
from calipers.reports.charts.saving import save_charts
from calipers.reports.charts.style import Drawing, styled

if TYPE_CHECKING:
    from calipers.scores.results import Score

__all__ = ["FIGURES", "charts_of", "metric_by_group", "save_charts"]

Figure = Callable[["Score"], Drawing | str]

FIGURES: Mapping[str, Mapping[str, Figure]] = {
    "reasoning": {
        "accuracy": main_by_group("accuracy"),
        "reliability": reliability,
        "latency": latency,
        "tokens": tokens,
    },
    "tiers": {
        "composite_by_tier": composite_by_tier,
        "cost_pass_rate": cost_pass_rate,
        "pass_rate": main_by_group("pass_rate"),
    },
    "scenarios": {"pass_rate": main_by_group("pass_rate"), "latency": latency},
    "agents": {"agent_composite": main_by_group("agent_composite")},
}
"""By profile, every figure under the name of its files."""


def charts_of(score: Score) -> tuple[dict[str, Drawing], dict[str, str]]:
    """Every chart that can be drawn of the score, and why the others cannot."""
    charts: dict[str, Drawing] = {}
    left_out: dict[str, str] = {}
    every = {name: figure for figures in FIGURES.values() for name, figure in figures.items()}
    for name, figure in every.items():
        drawn = figure(score)
        if isinstance(drawn, str):
            left_out[name] = drawn
        else:
            charts[name] = styled(drawn)
    return charts, left_out

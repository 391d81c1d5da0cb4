"""Figures of a score: shown in a notebook, put into a page, or saved as files.

A figure is a function from a score to a chart, or to the reason why it cannot be drawn. It draws
what the score holds, groups and histograms, never records.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from calipers.reports.charts.chart import Chart, save_charts
from calipers.reports.charts.cost_scatter import draw_cost
from calipers.reports.charts.forest import draw_forest, make_forest
from calipers.reports.charts.histograms import draw_composite, draw_latency, draw_tokens
from calipers.reports.charts.reliability import draw_reliability

if TYPE_CHECKING:
    from calipers.scores.result import Score

__all__ = ["FIGURES", "Chart", "draw_charts", "draw_forest", "save_charts"]

Figure = Callable[["Score"], Chart | str]
_NOT_IN_FILES = re.compile(r"[^\w().-]+")  # of a metric's name, which may be any text

FIGURES: Mapping[str, Mapping[str, Figure]] = {
    "reasoning": {
        "accuracy": make_forest("accuracy"),
        "reliability": draw_reliability,
        "latency": draw_latency,
        "tokens": draw_tokens,
    },
    "tiers": {
        "composite_by_tier": draw_composite,
        "cost_pass_rate": draw_cost,
        "pass_rate": make_forest("pass_rate"),
    },
    "scenarios": {"pass_rate": make_forest("pass_rate"), "latency": draw_latency},
    "agents": {"agent_composite": make_forest("agent_composite")},
}
"""By profile, every figure under the name of its files."""


def draw_charts(
    score: Score, profile: str | None = None
) -> tuple[dict[str, Chart], dict[str, str]]:
    """Return the charts that can be drawn of the score, and why the others cannot.

    Those of a profile, or of all four; of a profile of one's own, a chart for each metric.
    """
    figures: Mapping[str, Figure]
    if profile is None:
        figures = {name: figure for of in FIGURES.values() for name, figure in of.items()}
    elif profile in FIGURES:
        figures = FIGURES[profile]
    else:
        names = dict.fromkeys(name for group in score.groups for name in group.metrics)
        figures = {_NOT_IN_FILES.sub("_", name): make_forest(name) for name in names}
    drawn = {name: figure(score) for name, figure in figures.items()}
    charts = {name: each for name, each in drawn.items() if not isinstance(each, str)}
    return charts, {name: each for name, each in drawn.items() if isinstance(each, str)}

"""Figures below a table in a notebook: drawn as SVG, so that they show anywhere and offline."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from calipers.comparisons.rankings import Ranking
    from calipers.comparisons.results import Compared
    from calipers.reports.charts.chart import Chart
    from calipers.scores.results import Score

_MOST = 3  # a notebook is no report


def render_score_figures(score: Score) -> str:
    """Return the first figures of the score as HTML; empty without the extra `figures`."""
    if not _can_draw():
        return ""
    from calipers.reports.charts import draw_charts  # noqa: PLC0415

    return _as_html(draw_charts(score)[0])


def render_comparison_figures(compared: Compared) -> str:
    """Return the same for a comparison."""
    if not _can_draw():
        return ""
    from calipers.reports.charts.differences import draw_differences  # noqa: PLC0415

    drawn = draw_differences(compared)
    return "" if isinstance(drawn, str) else _as_html({"differences": drawn})


def render_ranking_figures(ranking: Ranking) -> str:
    """Return the same for a ranking, a figure per metric."""
    if not _can_draw():
        return ""
    return _as_html(ranking.charts())


def _can_draw() -> bool:
    return find_spec("vl_convert") is not None


def _as_html(charts: Mapping[str, Chart]) -> str:
    return "".join(chart.to_html() for chart in list(charts.values())[:_MOST])

"""Figures below a table in a notebook: drawn as SVG, so that they show anywhere and offline."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from calipers.comparisons.rankings import Ranking
    from calipers.comparisons.results import Compared
    from calipers.reports.charts.chart import Chart
    from calipers.runs.finish import RunResult
    from calipers.scores.results import Score

_MOST = 3  # figures: the report shows them all


def render_figures(result: Any) -> str:
    """Return the first figures of a result as HTML; empty without any, or the extra `figures`."""
    draw = _DRAWERS.get(type(result).__name__)
    if draw is None or find_spec("vl_convert") is None:
        return ""
    return "".join(chart.to_html() for chart in list(draw(result).values())[:_MOST])


def _draw_score(score: Score) -> Mapping[str, Chart]:
    from calipers.reports.charts import draw_charts  # noqa: PLC0415 (only in notebooks)

    return draw_charts(score)[0]


def _draw_comparison(compared: Compared) -> Mapping[str, Chart]:
    from calipers.reports.charts.differences import draw_differences  # noqa: PLC0415

    drawn = draw_differences(compared)
    return {} if isinstance(drawn, str) else {"differences": drawn}


def _draw_ranking(ranking: Ranking) -> Mapping[str, Chart]:
    return ranking.charts()


def _draw_run(run: RunResult) -> Mapping[str, Chart]:
    return {} if run.score is None else _draw_score(run.score)


_DRAWERS: Mapping[str, Callable[[Any], Mapping[str, Chart]]] = {
    "Score": _draw_score,
    "Compared": _draw_comparison,
    "Ranking": _draw_ranking,
    "RunResult": _draw_run,
}

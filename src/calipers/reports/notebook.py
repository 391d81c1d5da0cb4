"""Figures below a table in a notebook: drawn as SVG, so that they show anywhere and offline."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from calipers.reports.charts.chart import Chart

_MOST = 3  # figures: the report shows them all


def render_figures(result: Any) -> str:
    """Return the first figures of a result as HTML; empty without any, or the extra `figures`."""
    if find_spec("vl_convert") is None:
        return ""
    return "".join(chart.to_html() for chart in list(_draw(result).values())[:_MOST])


def _draw(result: Any) -> Mapping[str, Chart]:
    kind = type(result).__name__
    if kind == "RunResult":
        return _draw(result.score)
    if kind == "Score":
        from calipers.reports.charts import draw_charts  # noqa: PLC0415 (only in notebooks)

        return draw_charts(result)[0]
    if kind == "Compared":
        from calipers.reports.charts.differences import draw_differences  # noqa: PLC0415

        drawn = draw_differences(result)
        return {} if isinstance(drawn, str) else {"differences": drawn}
    charts: Mapping[str, Chart] = result.charts() if kind == "Ranking" else {}
    return charts

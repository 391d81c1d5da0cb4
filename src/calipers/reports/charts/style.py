"""The look of every chart: fonts, colours for colour-blind readers, a light background."""

from __future__ import annotations

from collections.abc import Iterable
from textwrap import wrap

from calipers.reports.charts.chart import Chart
from calipers.reports.charts.vega_lite import Spec
from calipers.reports.colours import FAINT, GREY, INK, PALETTE, PAPER

__all__ = ["FAINT", "FONT", "GREY", "INK", "PALETTE", "PAPER", "finish_chart"]

FONT = "Liberation Sans, Arial, Helvetica, sans-serif"
_SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
_LINE_CHARS = 105  # of a subtitle, so that it fits the width of a chart
_TITLE = {
    "anchor": "start",
    "frame": "group",
    "fontSize": 16,
    "subtitleFontSize": 12,
    "subtitleColor": GREY,
    "subtitleLineHeight": 16,
    "offset": 14,
}
_CONFIG = {
    "background": PAPER,
    "font": FONT,
    "padding": {"left": 16, "top": 16, "right": 20, "bottom": 16},
    "title": {"color": INK, "subtitleColor": GREY, "limit": 0},
    "axis": {
        "labelColor": GREY,
        "labelFontSize": 11,
        "titleColor": INK,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "titlePadding": 8,
        "gridColor": "#eeeeee",
        "domainColor": "#888888",
        "tickColor": "#888888",
    },
    "legend": {
        "labelFontSize": 12,
        "titleFontSize": 12,
        "labelColor": INK,
        "titleColor": GREY,
        "labelLimit": 260,
    },
    "view": {"stroke": None},
}


def finish_chart(picture: Spec, title: str, notes: Iterable[str]) -> Chart:
    """Return the chart in the look of all, its title above it, and how to read it below that."""
    lines = [line for note in notes for line in wrap(note, _LINE_CHARS)]
    shown = {"text": title, "subtitle": lines, **_TITLE}
    return Chart({"$schema": _SCHEMA, "config": _CONFIG, "title": shown, **picture})

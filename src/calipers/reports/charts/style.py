"""The look of every chart: fonts, colours for colour-blind readers, a light background."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from textwrap import wrap
from typing import Any, cast

import altair as alt

from calipers.reports.colours import FAINT, GREY, INK, PALETTE, PAPER

__all__ = [
    "FAINT",
    "FONT",
    "GREY",
    "INK",
    "PALETTE",
    "PAPER",
    "Drawing",
    "add_title",
    "apply_style",
    "make_chart",
]

Drawing = alt.Chart | alt.LayerChart | alt.ConcatChart | alt.FacetChart

FONT = "Liberation Sans, Arial, Helvetica, sans-serif"
_LINE_CHARS = 105  # of a subtitle, that it does not reach beyond a chart


class _Rows(alt.Data):
    """Rows of a chart, which all its copies share: Altair copies a chart whenever it grows."""

    def __deepcopy__(self, _: Any) -> _Rows:
        return self


def make_chart(rows: Iterable[Mapping[str, Any]]) -> alt.Chart:
    """Return a chart of some rows, which it contains."""
    return alt.Chart(_Rows(values=[dict(row) for row in rows]))  # type: ignore[no-untyped-call]


def add_title(drawing: Drawing, title: str, notes: Iterable[str]) -> Drawing:
    """Return the chart with its title above it, and how to read it below."""
    lines = [line for note in notes for line in wrap(note, _LINE_CHARS)]
    shown = alt.TitleParams(
        text=title,
        subtitle=lines,
        anchor="start",
        frame="group",
        fontSize=16,
        subtitleFontSize=12,
        subtitleColor=GREY,
        subtitleLineHeight=16,
        offset=14,
    )
    return drawing.properties(title=shown)


def apply_style(drawing: Drawing) -> Drawing:
    """Return the chart as it is shown and saved."""
    # One call: each copies the chart.
    whole = drawing.configure(
        background=PAPER,
        font=FONT,
        padding={"left": 16, "top": 16, "right": 20, "bottom": 16},
        title=alt.TitleConfig(color=INK, subtitleColor=GREY, limit=0),
        axis=alt.AxisConfig(
            labelColor=GREY,
            labelFontSize=11,
            titleColor=INK,
            titleFontSize=12,
            titleFontWeight="normal",
            titlePadding=8,
            gridColor="#eeeeee",
            domainColor="#888888",
            tickColor="#888888",
        ),
        legend=alt.LegendConfig(
            labelFontSize=12, titleFontSize=12, labelColor=INK, titleColor=GREY, labelLimit=260
        ),
        view=alt.ViewConfig(stroke=None),
    )
    return cast("Drawing", whole)

"""A metric over the runs of a suite: a line per system with its intervals, and the verdicts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

import altair as alt

from calipers.reports.charts.groups import number_duplicates, shorten
from calipers.reports.charts.style import GREY, PALETTE, Drawing, add_title, make_chart
from calipers.reports.figures import format_figure, strip_controls

_WIDTH, _HEIGHT = 1080, 280
_MARKS = 14  # pixels above the lines for the verdicts
_VERDICTS = {
    "pass": (PALETTE[2], "circle"),
    "fail": (PALETTE[1], "cross"),
    "inconclusive": (PALETTE[3], "diamond"),
    "incomplete": (GREY, "triangle-up"),
}
_LEGEND = alt.Legend(title=None, orient="bottom", columns=3, symbolOpacity=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendPoint:
    """The value of one system in one run."""

    run: str  # what the axis calls it
    full_name: str
    verdict: str
    system: str
    value: float
    low: float | None
    high: float | None


def draw_trend(points: Sequence[TrendPoint], metric: str, unit: str | None) -> Drawing:
    """Return a line per system over the runs, oldest first, with each run's verdict above."""
    systems = list(dict.fromkeys(point.system for point in points))
    short = dict(zip(systems, number_duplicates([_shorten(each) for each in systems]), strict=True))
    rows = [_row(point, short[point.system]) for point in points]
    runs = list(dict.fromkeys(row["run"] for row in rows))
    place = alt.X(
        "run:N",
        sort=None,
        scale=alt.Scale(domain=runs),
        axis=alt.Axis(title=None, labelAngle=-35, labelOverlap=True, grid=False),
    )
    axis = alt.Axis(title=f"{metric} ({unit})" if unit else metric, tickCount=6)
    scale = alt.Scale(zero=False, nice=True, padding=_MARKS)
    colour = alt.Color(
        "system:N",
        scale=alt.Scale(domain=list(short.values()), range=list(PALETTE)),
        legend=_LEGEND if len(systems) > 1 else None,
    )
    beside = alt.XOffset("system:N", scale=alt.Scale(domain=list(short.values())))
    hover = [
        alt.Tooltip("full_name:N", title="run"),
        alt.Tooltip("system:N"),
        alt.Tooltip("shown:N", title=metric),
        alt.Tooltip("verdict:N"),
    ]
    base = make_chart(rows).encode(x=place, color=colour, xOffset=beside)
    values = alt.Y("value:Q", scale=scale, axis=axis)
    lines = base.mark_line(strokeWidth=1.5, opacity=0.6).encode(y=values)
    bars = base.mark_rule(strokeWidth=2.5, opacity=0.45).encode(
        y=alt.Y("low:Q", scale=scale, axis=axis), y2="high:Q"
    )
    dots = base.mark_point(filled=True, size=45, opacity=1).encode(y=values, tooltip=hover)
    layers = alt.layer(bars, lines, dots)
    if marks := _draw_verdicts(rows, place):
        layers = alt.layer(layers, marks).resolve_scale(color="independent", shape="independent")
    drawn = layers.properties(width=_WIDTH, height=_HEIGHT)
    return add_title(drawn, f"{metric} over the runs", _list_notes(rows))


def _draw_verdicts(rows: Sequence[dict[str, Any]], place: alt.X) -> alt.Chart | None:
    """Return a mark per run that has a verdict, in a line on top; None without any."""
    once = {row["run"]: row for row in rows if row["verdict"] in _VERDICTS}
    if not once:
        return None
    names = [name for name in _VERDICTS if any(row["verdict"] == name for row in once.values())]
    colours, shapes = zip(*(_VERDICTS[name] for name in names), strict=True)
    legend = alt.Legend(title=None, orient="top")
    marks: alt.Chart = (
        make_chart(once.values())
        .mark_point(filled=True, size=60, opacity=1)
        .encode(
            x=place,
            y=alt.value(0),
            color=alt.Color(
                "verdict:N", scale=alt.Scale(domain=names, range=list(colours)), legend=legend
            ),
            shape=alt.Shape(
                "verdict:N", scale=alt.Scale(domain=names, range=list(shapes)), legend=legend
            ),
            tooltip=[alt.Tooltip("full_name:N", title="run"), alt.Tooltip("verdict:N")],
        )
    )
    return marks


def _row(point: TrendPoint, system: str) -> dict[str, Any]:
    low, high = (
        end if end is not None and isfinite(end) else point.value for end in (point.low, point.high)
    )
    return {
        "run": strip_controls(point.run),
        "full_name": strip_controls(point.full_name),
        "verdict": point.verdict,
        "system": system,
        "value": point.value,
        "low": low,
        "high": high,
        "shown": format_figure(point.value, point.low, point.high),
    }


def _shorten(name: str) -> str:
    return shorten(strip_controls(name))


def _list_notes(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    yield "Bars are the intervals of each run; runs from the oldest to the newest."
    if any(row["verdict"] in _VERDICTS for row in rows):
        yield "The marks on top are the verdicts of the gate."

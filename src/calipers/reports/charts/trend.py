"""A metric over the runs of a suite: a line per system with its intervals, and the verdicts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import isfinite
from typing import Any

from calipers.reports.charts.chart import (
    GREY,
    PALETTE,
    Chart,
    Spec,
    category,
    constant,
    finish_chart,
    layer,
    mark,
    quantity,
)
from calipers.reports.charts.labels import LONGEST, number_duplicates
from calipers.reports.number_format import format_figure, shorten_name, strip_controls

_WIDTH, _HEIGHT = 1080, 280
_MARKS = 14  # pixels above the lines for the verdicts
_VERDICTS = {
    "pass": (PALETTE[2], "circle"),
    "fail": (PALETTE[1], "cross"),
    "inconclusive": (PALETTE[3], "diamond"),
    "incomplete": (GREY, "triangle-up"),
}
_LEGEND = {"title": None, "orient": "bottom", "columns": 3, "symbolOpacity": 1}
_APART = {"scale": {"color": "independent", "shape": "independent"}}


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


def draw_trend(points: Sequence[TrendPoint], metric: str, unit: str | None) -> Chart:
    """Return a line per system over the runs, oldest first, with each run's verdict above."""
    systems = list(dict.fromkeys(point.system for point in points))
    called = number_duplicates([shorten_name(each, LONGEST) for each in systems])
    short = dict(zip(systems, called, strict=True))
    rows = [_make_row(point, short[point.system]) for point in points]
    runs = list(dict.fromkeys(row["run"] for row in rows))
    place = category(
        "run",
        sort=None,
        scale={"domain": runs},
        axis={"title": None, "labelAngle": -35, "labelOverlap": True, "grid": False},
    )
    names = list(short.values())
    drawn = layer(
        _draw_lines(rows, names, place, metric, unit),
        *_draw_verdicts(rows, place),
        resolve=_APART,
        width=_WIDTH,
        height=_HEIGHT,
    )
    return finish_chart(drawn, f"{metric} over the runs", _list_notes(rows))


def _draw_lines(
    rows: Sequence[dict[str, Any]], names: list[str], place: Spec, metric: str, unit: str | None
) -> Spec:
    up = partial(
        quantity,
        scale={"zero": False, "nice": True, "padding": _MARKS},
        axis={"title": f"{metric} ({unit})" if unit else metric, "tickCount": 6},
    )
    colour = category(
        "system",
        scale={"domain": names, "range": list(PALETTE)},
        legend=_LEGEND if len(names) > 1 else None,
    )
    beside = category("system", scale={"domain": names})
    hover = [
        category("full_name", title="run"),
        category("system"),
        category("shown", title=metric),
        category("verdict"),
    ]
    lines = {"strokeWidth": 1.5, "opacity": 0.6}
    bars = {"strokeWidth": 2.5, "opacity": 0.45}
    dots = {"filled": True, "size": 45, "opacity": 1}
    drawn = partial(mark, x=place, xOffset=beside, color=colour)
    return layer(
        drawn("rule", bars, y=up("low"), y2="high"),
        drawn("line", lines, y=up("value")),
        drawn("point", dots, y=up("value"), tooltip=hover),
        rows=rows,
    )


def _draw_verdicts(rows: Sequence[dict[str, Any]], place: Spec) -> Iterator[Spec]:
    """Yield a mark per run that has a verdict, in a line on top; nothing without any."""
    once = {row["run"]: row for row in rows if row["verdict"] in _VERDICTS}
    if not once:
        return
    names = [name for name in _VERDICTS if any(row["verdict"] == name for row in once.values())]
    colour, shape = (
        category(
            "verdict",
            scale={"domain": names, "range": list(looks)},
            legend={"title": None, "orient": "top"},
        )
        for looks in zip(*(_VERDICTS[name] for name in names), strict=True)
    )
    yield mark(
        "point",
        {"filled": True, "size": 60, "opacity": 1},
        rows=once.values(),
        x=place,
        y=constant(0),
        color=colour,
        shape=shape,
        tooltip=[category("full_name", title="run"), category("verdict")],
    )


def _make_row(point: TrendPoint, system: str) -> dict[str, Any]:
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


def _list_notes(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    yield "Bars are the intervals of each run; runs from the oldest to the newest."
    if any(row["verdict"] in _VERDICTS for row in rows):
        yield "The marks on top are the verdicts of the gate."

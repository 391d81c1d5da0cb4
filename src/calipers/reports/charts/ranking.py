"""Systems from the best down, a line each: a point, its interval, the letters of its group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from math import isfinite
from typing import TYPE_CHECKING, Any

from calipers.reports.charts.chart import Chart
from calipers.reports.charts.groups import name_lines, number_duplicates, shorten
from calipers.reports.charts.style import GREY, INK, PALETTE, finish_chart
from calipers.reports.charts.vega_lite import Spec, category, layer, mark, quantity
from calipers.reports.figures import format_figure, strip_controls

if TYPE_CHECKING:
    from calipers.comparisons.rankings import MetricRanking, RankedSystem

_WIDTH, _LINE, _ENDS = 560, 20, 16
_MOST = 40
_NAME_CHARS = 32
_NAME_PIXELS = 200
_ROOM = 0.04  # of the span, at both ends
_LETTER_ROOM = 0.07
_BEST, _BEHIND = "best, or not told apart from it", "significantly behind the best"


def draw_systems(ranked: MetricRanking) -> Chart:
    """Return a line per system, the best on top; colours follow the adjusted test."""
    shown = ranked.systems[:_MOST]
    best = {each.name for each in ranked.best}
    names = number_duplicates([shorten(strip_controls(each.name), _NAME_CHARS) for each in shown])
    rows = [
        _make_row(each, called, best=each.name in best)
        for each, called in zip(shown, names, strict=True)
    ]
    title = f"{ranked.metric}, ranked"
    return finish_chart(_draw(rows, ranked), title, _list_notes(ranked))


def _make_row(each: RankedSystem, called: str, *, best: bool) -> dict[str, Any]:
    assert each.value is not None
    low, high = (
        end if end is not None and isfinite(end) else each.value for end in (each.low, each.high)
    )
    alone = each.rank_low == each.rank_high
    return {
        "name": called,
        "full_name": strip_controls(each.name),
        "value": each.value,
        "low": low,
        "high": high,
        "shown": format_figure(each.value, each.low, each.high),
        "ranks": str(each.rank_low) if alone else f"{each.rank_low} to {each.rank_high}",
        "group": each.group,
        "place": _BEST if best else _BEHIND,
    }


def _draw(rows: Sequence[dict[str, Any]], ranked: MetricRanking) -> Spec:
    low, high = min(row["low"] for row in rows), max(row["high"] for row in rows)
    span = (high - low) or abs(high) or 1.0
    letters = max(_LETTER_ROOM, 0.02 * max(len(row["group"]) for row in rows))
    domain = [low - _ROOM * span, high + (_ROOM + letters) * span]
    title = f"{ranked.metric} ({ranked.unit})" if ranked.unit else ranked.metric
    across = partial(
        quantity,
        scale={"domain": domain, "nice": False, "zero": False},
        axis={"title": title, "tickCount": 6},
    )
    names = name_lines(rows, _NAME_PIXELS)
    places = [_BEST, *([_BEHIND] if any(row["place"] == _BEHIND for row in rows) else [])]
    colour = category(
        "place",
        scale={"domain": places, "range": [PALETTE[0], GREY][: len(places)]},
        legend={"title": None, "orient": "bottom", "columns": 1},  # fits a phone
    )
    hover = [
        category("full_name", title="system"),
        category("shown", title=ranked.metric),
        category("ranks", title="rank"),
        category("group", title="group"),
    ]
    bars = {"strokeWidth": 3, "opacity": 0.45}
    points = {"filled": True, "size": 60, "opacity": 1}
    group = {"align": "left", "dx": 8, "color": INK, "fontSize": 11}
    return layer(
        mark("rule", bars, x=across("low"), x2="high", y=names, color=colour),
        mark("point", points, x=across("value"), y=names, color=colour, tooltip=hover),
        mark("text", group, x=across("high"), y=names, text=category("group")),
        rows=rows,
        width=_WIDTH,
        height=_LINE * len(rows) + _ENDS,
    )


def _list_notes(ranked: MetricRanking) -> Iterator[str]:
    yield (
        f"Bars are {100 * ranked.confidence:g} % intervals that hold for all systems at once; "
        "systems that share a letter cannot be told apart."
    )
    if len(ranked.systems) > _MOST:
        yield f"The first {_MOST} of {len(ranked.systems)} systems."

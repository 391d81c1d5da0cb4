"""Systems from the best down, a line each: a point, its interval, the letters of its group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any

import altair as alt

from calipers.reports.charts.groups import number_duplicates, shorten
from calipers.reports.charts.style import GREY, INK, PALETTE, Drawing, add_title, make_chart
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


def draw_systems(ranked: MetricRanking) -> Drawing:
    """Return a line per system, the best on top; colours follow the adjusted test."""
    shown = ranked.systems[:_MOST]
    best = {each.name for each in ranked.best}
    names = number_duplicates([shorten(strip_controls(each.name), _NAME_CHARS) for each in shown])
    rows = [
        _row(each, called, best=each.name in best)
        for each, called in zip(shown, names, strict=True)
    ]
    title = f"{ranked.metric}, ranked"
    return add_title(_drawn(rows, ranked), title, _notes(ranked))


def _row(each: RankedSystem, called: str, *, best: bool) -> dict[str, Any]:
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


def _drawn(rows: Sequence[dict[str, Any]], ranked: MetricRanking) -> Drawing:
    low, high = min(row["low"] for row in rows), max(row["high"] for row in rows)
    span = (high - low) or abs(high) or 1.0
    letters = max(_LETTER_ROOM, 0.02 * max(len(row["group"]) for row in rows))
    scale = alt.Scale(
        domain=[low - _ROOM * span, high + (_ROOM + letters) * span], nice=False, zero=False
    )
    axis = alt.Axis(
        title=f"{ranked.metric} ({ranked.unit})" if ranked.unit else ranked.metric, tickCount=6
    )
    names = alt.Y(
        "name:N",
        sort=None,
        scale=alt.Scale(domain=[row["name"] for row in rows]),
        axis=alt.Axis(title=None, labelLimit=_NAME_PIXELS, ticks=False, domain=False),
    )
    places = [_BEST, *([_BEHIND] if any(row["place"] == _BEHIND for row in rows) else [])]
    colour = alt.Color(
        "place:N",
        scale=alt.Scale(domain=places, range=[PALETTE[0], GREY][: len(places)]),
        legend=alt.Legend(title=None, orient="bottom", columns=1),  # fits a phone
    )
    hover = [
        alt.Tooltip("full_name:N", title="system"),
        alt.Tooltip("shown:N", title=ranked.metric),
        alt.Tooltip("ranks:N", title="rank"),
        alt.Tooltip("group:N", title="group"),
    ]
    base = make_chart(rows).encode(y=names)
    bars = base.mark_rule(strokeWidth=3, opacity=0.45)
    points = base.mark_point(filled=True, size=60, opacity=1)
    group = base.mark_text(align="left", dx=8, color=INK, fontSize=11)
    return alt.layer(
        bars.encode(x=alt.X("low:Q", scale=scale, axis=axis), x2="high:Q", color=colour),
        points.encode(x=alt.X("value:Q", scale=scale, axis=axis), color=colour, tooltip=hover),
        group.encode(x=alt.X("high:Q", scale=scale, axis=axis), text="group:N"),
    ).properties(width=_WIDTH, height=_LINE * len(rows) + _ENDS)


def _notes(ranked: MetricRanking) -> Iterator[str]:
    yield (
        f"Bars are {100 * ranked.confidence:g} % intervals that hold for all systems at once; "
        "systems that share a letter cannot be told apart."
    )
    if len(ranked.systems) > _MOST:
        yield f"The first {_MOST} of {len(ranked.systems)} systems."

"""Systems from the best down, a line each: a point, its interval, the letters of its group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from calipers.reports.charts.chart import Chart
from calipers.reports.charts.forest import MOST_LINES, ROOM, make_lines, place_lines
from calipers.reports.charts.style import GREY, INK, PALETTE, finish_chart
from calipers.reports.charts.vega_lite import Spec, category, layer, mark
from calipers.reports.figures import strip_controls

if TYPE_CHECKING:
    from calipers.comparisons.rankings import MetricRanking

_LETTER_ROOM = 0.07
_BEST, _BEHIND = "best, or not told apart from it", "significantly behind the best"


def draw_systems(ranked: MetricRanking) -> Chart:
    """Return a line per system, the best on top; colours follow the adjusted test."""
    shown = ranked.systems[:MOST_LINES]
    best = {each.name for each in ranked.best}
    rows = make_lines([strip_controls(each.name) for each in shown], shown)
    for row, each in zip(rows, shown, strict=True):
        alone = each.rank_low == each.rank_high
        row["ranks"] = str(each.rank_low) if alone else f"{each.rank_low} to {each.rank_high}"
        row |= {"group": each.group, "place": _BEST if each.name in best else _BEHIND}
    return finish_chart(_draw(rows, ranked), f"{ranked.metric}, ranked", _list_notes(ranked))


def _draw(rows: Sequence[dict[str, Any]], ranked: MetricRanking) -> Spec:
    low, high = min(row["low"] for row in rows), max(row["high"] for row in rows)
    span = (high - low) or abs(high) or 1.0
    letters = max(_LETTER_ROOM, 0.02 * max(len(row["group"]) for row in rows))
    domain = [low - ROOM * span, high + (ROOM + letters) * span]
    across, names, size = place_lines(rows, domain, ranked.metric, ranked.unit)
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
        **size,
    )


def _list_notes(ranked: MetricRanking) -> Iterator[str]:
    yield (
        f"Bars are {100 * ranked.confidence:g} % intervals that hold for all systems at once; "
        "systems that share a letter cannot be told apart."
    )
    if len(ranked.systems) > MOST_LINES:
        yield f"The first {MOST_LINES} of {len(ranked.systems)} systems."

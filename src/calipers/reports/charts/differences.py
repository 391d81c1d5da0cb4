"""What a comparison found: the difference of each share, with its interval, about zero."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import isfinite
from typing import TYPE_CHECKING, Any

from calipers.metrics import metric_named
from calipers.reports.charts.chart import Chart
from calipers.reports.charts.groups import name_lines, number_duplicates
from calipers.reports.charts.style import GREY, PALETTE, finish_chart
from calipers.reports.charts.vega_lite import Spec, category, layer, mark, quantity
from calipers.reports.comparison import choose_tone
from calipers.reports.figures import shorten_text
from calipers.reports.restated import drop_restated

if TYPE_CHECKING:
    from calipers.comparisons.results import Compared, MetricComparison, Pair

_WIDTH, _LINE, _ENDS = 520, 22, 18
_MOST = 40
_NAME_PIXELS = 230
_VERDICTS = {"gain": "better", "loss": "worse", "": "neither"}
_COLOURS = {"better": PALETTE[2], "worse": PALETTE[1], "neither": GREY}


def draw_differences(compared: Compared) -> Chart | str:
    """Return a line per share and pair of runs (candidate − base), or why there is no chart."""
    several = len(compared.pairs) > 1
    rows = [
        _make_row(pair, name, compared.confidence, several=several)
        for pair in compared.pairs
        for name in drop_restated(pair.metrics, named=compared.named)
        if _is_drawable(name, pair.metrics[name])
    ][:_MOST]
    if not rows:
        return "no metric that is a share has a difference"
    names = number_duplicates([str(row["name"]) for row in rows])
    rows = [row | {"name": name} for row, name in zip(rows, names, strict=True)]
    one = compared.pairs[0]
    sides = (shorten_text(each, 40) for each in (one.candidate, one.base))
    what = "Differences" if several else " − ".join(sides)
    intervals = f"Bars are {100 * compared.confidence:g} % intervals. Only shares are drawn."
    colours = "Colours follow the tests, adjusted for all metrics and pairs (Holm)."
    return finish_chart(_draw(rows), what, (intervals, colours))


def _is_drawable(name: str, each: MetricComparison) -> bool:
    share = metric_named(name).range == (0, 1)
    return share and each.difference is not None and isfinite(each.difference)


def _make_row(pair: Pair, name: str, confidence: float, *, several: bool) -> dict[str, Any]:
    each = pair.metrics[name]
    difference = each.difference
    assert difference is not None
    low, high = (difference if end is None else end for end in (each.low, each.high))
    return {
        "name": f"{name}, {shorten_text(pair.candidate, 24)}" if several else name,
        "difference": difference,
        "low": low,
        "high": high,
        "verdict": _VERDICTS[choose_tone(name, each, confidence)],
        "p": "unknown" if each.p_value is None else f"{each.p_value:.3g}",
        "pairs": each.n_pairs or 0,
    }


def _draw(rows: Sequence[dict[str, Any]]) -> Spec:
    ends = [0.0, *(row[end] for row in rows for end in ("low", "high"))]
    room = 0.05 * ((max(ends) - min(ends)) or 1.0)
    across = partial(
        quantity,
        scale={"domain": [min(ends) - room, max(ends) + room], "nice": False},
        axis={"title": "difference, candidate − base", "format": "+.2~f", "tickCount": 6},
    )
    names = name_lines(rows, _NAME_PIXELS)
    colour = category(
        "verdict",
        scale={"domain": list(_COLOURS), "range": list(_COLOURS.values())},
        legend={"title": None, "orient": "bottom"},
    )
    hover = [
        category("name", title="metric"),
        quantity("difference", format="+.4f"),
        quantity("low", title="from", format="+.4f"),
        quantity("high", title="to", format="+.4f"),
        category("p", title="p"),
        quantity("pairs", format=","),
    ]
    zero = {"color": GREY, "strokeDash": [4, 3]}
    bars = {"strokeWidth": 3, "opacity": 0.5}
    points = {"filled": True, "size": 60, "opacity": 1}
    return layer(
        mark("rule", zero, rows=[{"zero": 0}], x=across("zero")),
        mark("rule", bars, x=across("low"), x2="high", y=names, color=colour),
        mark("point", points, x=across("difference"), y=names, color=colour, tooltip=hover),
        rows=rows,
        width=_WIDTH,
        height=_LINE * len(rows) + _ENDS,
    )

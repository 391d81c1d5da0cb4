"""What a comparison found: the difference of each share, with its interval, about zero."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any

import altair as alt

from calipers.metrics import metric_named
from calipers.reports.charts.groups import number_duplicates, shorten
from calipers.reports.charts.style import GREY, PALETTE, Drawing, add_title, make_chart
from calipers.reports.figures import strip_controls
from calipers.reports.restated import drop_restated

if TYPE_CHECKING:
    from calipers.comparisons.results import Compared, MetricComparison, Pair

_WIDTH, _LINE, _ENDS = 520, 22, 18
_MOST = 40
_NAME_PIXELS = 230
_BETTER, _WORSE, _NEITHER = "better", "worse", "neither"
_COLOURS = {_BETTER: PALETTE[2], _WORSE: PALETTE[1], _NEITHER: GREY}


def draw_differences(compared: Compared) -> Drawing | str:
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
    what = "Differences" if several else f"{_run(one.candidate)} − {_run(one.base)}"
    return add_title(_draw(rows), what, _list_notes(compared))


def _is_drawable(name: str, each: MetricComparison) -> bool:
    share = metric_named(name).range == (0, 1)
    return share and each.difference is not None and isfinite(each.difference)


def _run(name: str) -> str:
    return shorten(strip_controls(name), 40)


def _make_row(pair: Pair, name: str, confidence: float, *, several: bool) -> dict[str, Any]:
    each = pair.metrics[name]
    difference = each.difference
    assert difference is not None
    low = difference if each.low is None else each.low
    high = difference if each.high is None else each.high
    return {
        "name": f"{name}, {shorten(strip_controls(pair.candidate), 24)}" if several else name,
        "difference": difference,
        "low": low,
        "high": high,
        "verdict": _judge_side(name, each, confidence),
        "p": "unknown" if each.p_value is None else f"{each.p_value:.3g}",
        "pairs": each.n_pairs or 0,
    }


def _judge_side(name: str, each: MetricComparison, confidence: float) -> str:
    """Return on which side of zero the adjusted test puts it, by the metric's direction."""
    better = metric_named(name).better
    if better is None or not each.is_significant(confidence):
        return _NEITHER
    return _BETTER if ((each.difference or 0.0) > 0) == (better == "higher") else _WORSE


def _draw(rows: Sequence[dict[str, Any]]) -> Drawing:
    ends = [0.0, *(row[end] for row in rows for end in ("low", "high"))]
    room = 0.05 * ((max(ends) - min(ends)) or 1.0)
    scale = alt.Scale(domain=[min(ends) - room, max(ends) + room], nice=False)
    axis = alt.Axis(title="difference, candidate − base", format="+.2~f", tickCount=6)
    names = alt.Y(
        "name:N",
        sort=None,
        scale=alt.Scale(domain=[row["name"] for row in rows]),
        axis=alt.Axis(title=None, labelLimit=_NAME_PIXELS, ticks=False, domain=False),
    )
    legend = alt.Legend(title=None, orient="bottom")
    domain = alt.Scale(domain=list(_COLOURS), range=list(_COLOURS.values()))
    colour = alt.Color("verdict:N", scale=domain, legend=legend)
    hover = [
        alt.Tooltip("name:N", title="metric"),
        alt.Tooltip("difference:Q", format="+.4f"),
        alt.Tooltip("low:Q", title="from", format="+.4f"),
        alt.Tooltip("high:Q", title="to", format="+.4f"),
        alt.Tooltip("p:N", title="p"),
        alt.Tooltip("pairs:Q", format=","),
    ]
    base = make_chart(rows).encode(y=names, color=colour)
    zero = make_chart([{"zero": 0}]).mark_rule(color=GREY, strokeDash=[4, 3])
    bars = base.mark_rule(strokeWidth=3, opacity=0.5)
    points = base.mark_point(filled=True, size=60, opacity=1)
    return alt.layer(
        zero.encode(x=alt.X("zero:Q", scale=scale, axis=axis)),
        bars.encode(x=alt.X("low:Q", scale=scale, axis=axis), x2="high:Q"),
        points.encode(x=alt.X("difference:Q", scale=scale, axis=axis), tooltip=hover),
    ).properties(width=_WIDTH, height=_LINE * len(rows) + _ENDS)


def _list_notes(compared: Compared) -> Iterator[str]:
    yield f"Bars are {100 * compared.confidence:g} % intervals. Only shares are drawn."
    yield "Colours follow the tests, adjusted for all metrics and pairs (Holm)."

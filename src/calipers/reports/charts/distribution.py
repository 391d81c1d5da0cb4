"""How long calls take and how many tokens they use: a histogram per group on one axis."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import altair as alt

from calipers.reports.charts.groups import describe_fields, join_names, make_panel_title, name_group
from calipers.reports.charts.style import INK, PALETTE, Drawing, add_title, make_chart
from calipers.reports.figures import format_figure

if TYPE_CHECKING:
    from calipers.scores.results import Group, Histogram, Score

_WIDTH, _HEIGHT = 470, 62
_MOST_PANELS = 10
_LEAST, _MOST = 0.1, 1e9  # what lies beyond is drawn at the edge
_TOKENS = {"total_tokens": "total_tokens_mean", "cot_tokens": "cot_tokens_mean"}


def draw_latency(score: Score) -> Drawing | str:
    """Return the distribution of latencies with each group's p95, or why there is no chart."""
    found = _select_groups(score, "latency_ms")
    if not found:
        return "no record has latency_ms"
    return _draw(score, "latency_ms", "Latency of calls", "ms", "latency_p95_ms", "p95")


def draw_tokens(score: Score) -> Drawing | str:
    """Return the same for tokens: of prompt and completion, else of the chain of thought."""
    for name, metric in _TOKENS.items():
        if _select_groups(score, name):
            what = "Tokens of calls" if name == "total_tokens" else "Tokens of chains of thought"
            return _draw(score, name, what, "tokens", metric, "mean")
    return "no record has tokens to count"


def _select_groups(score: Score, name: str) -> list[Group]:
    return [group for group in score.groups if group.histograms.get(name)]


def _get_histogram(group: Group, name: str) -> Histogram:
    found = group.histograms[name]
    assert found is not None
    return found


def _draw(score: Score, name: str, what: str, unit: str, metric: str, mark: str) -> Drawing:
    groups = _select_groups(score, name)
    shown = groups[:_MOST_PANELS]
    edges = [edge for group in shown for edge in _get_histogram(group, name).edges]
    span = max(_LEAST, min(edges)), min(_MOST, max(edges))
    panels = [
        _draw_panel(group, name, span, (metric, mark), unit if group is shown[-1] else None)
        for group in shown
    ]
    grid = alt.concat(*panels, columns=1, spacing=10)
    title = f"{what}{describe_fields(score.groups)}"
    return add_title(grid, title, _list_notes(score, groups, name, mark))


def _draw_panel(
    group: Group,
    name: str,
    span: tuple[float, float],
    marked: tuple[str, str],
    unit: str | None,
) -> Drawing:
    """Return one group's bars, as shares of its own calls, and a line at the marked value."""
    histogram = _get_histogram(group, name)
    calls = sum(histogram.counts)
    bars = [
        {
            "left": max(span[0], low),
            "right": min(span[1], high),
            "from": low,
            "to": high,
            "share": count / calls,
            "zero": 0,
            "calls": count,
        }
        for (low, high), count in zip(pairwise(histogram.edges), histogram.counts, strict=True)
        if count
    ]
    scale = alt.Scale(type="log", domain=list(span), nice=False)
    last = unit is not None
    numbers = "~s" if span[0] >= 1 else "~g"  # 10k, and 0.2 rather than 200m
    axis = alt.Axis(title=unit, format=numbers, tickCount=6, grid=False, labels=last, ticks=last)
    x = alt.X("left:Q", scale=scale, axis=axis)
    y = alt.Y("share:Q", axis=alt.Axis(title=None, format=".2~f", tickCount=2, grid=False))
    drawn = (
        make_chart(bars)
        .mark_rect(color=PALETTE[0], opacity=0.8)
        .encode(
            x=x,
            x2="right:Q",
            y=y,
            y2="zero:Q",
            tooltip=[
                alt.Tooltip("from:Q", title="from", format=",~g"),
                alt.Tooltip("to:Q", title="to", format=",~g"),
                alt.Tooltip("calls:Q", title="calls", format=","),
                alt.Tooltip("share:Q", title="share", format=".3~f"),
            ],
        )
    )
    layers = [drawn, *_mark(group, marked[0], span, scale, axis)]
    return alt.layer(*layers).properties(
        width=_WIDTH, height=_HEIGHT, title=_make_title(group, calls, *marked)
    )


def _mark(
    group: Group, metric: str, span: tuple[float, float], scale: alt.Scale, axis: alt.Axis
) -> Iterator[alt.Chart]:
    found = group.metrics.get(metric)
    if found is not None and found.value is not None and span[0] <= found.value <= span[1]:
        line = make_chart([{"at": found.value}]).mark_rule(color=INK, strokeWidth=1.5)
        yield line.encode(x=alt.X("at:Q", scale=scale, axis=axis))


def _make_title(group: Group, calls: int, metric: str, mark: str) -> alt.TitleParams:
    found = group.metrics.get(metric)
    known = found is not None and found.value is not None
    told = (
        f"{mark} {format_figure(found.value, found.low, found.high)}, "
        if found is not None and known
        else ""
    )
    return make_panel_title(group, f"{told}{calls:,} call{'' if calls == 1 else 's'}", 36)


def _list_notes(score: Score, groups: Sequence[Group], name: str, mark: str) -> Iterator[str]:
    yield f"Share of calls per bin, ten bins to a decade; the line is the {mark}."
    if len(groups) > _MOST_PANELS:
        yield f"The first {_MOST_PANELS} of {len(groups)} groups."
    without = [
        name_group(group, with_series=True)
        for group in score.groups
        if not group.histograms.get(name)
    ]
    if without:
        yield f"Without values: {join_names(without)}."

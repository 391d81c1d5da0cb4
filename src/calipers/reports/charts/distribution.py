"""How long calls take and how many tokens they use: a histogram per group on one axis."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

from calipers.reports.charts.chart import Chart
from calipers.reports.charts.groups import (
    describe_fields,
    get_histogram,
    join_groups,
    make_panel_title,
)
from calipers.reports.charts.style import INK, PALETTE, finish_chart
from calipers.reports.charts.vega_lite import Spec, concat, layer, mark, quantity
from calipers.reports.figures import format_figure

if TYPE_CHECKING:
    from calipers.scores.results import Group, Histogram, Measured, Score

_WIDTH, _HEIGHT = 470, 62
_MOST_PANELS = 10
_LEAST, _MOST = 0.1, 1e9  # values beyond are drawn at the edge
_TOKENS = {"total_tokens": "total_tokens_mean", "cot_tokens": "cot_tokens_mean"}


def draw_latency(score: Score) -> Chart | str:
    """Return the distribution of latencies with each group's p95, or why there is no chart."""
    if not _select_groups(score, "latency_ms"):
        return "no record has latency_ms"
    return _draw(score, "latency_ms", "Latency of calls", "ms", "latency_p95_ms", "p95")


def draw_tokens(score: Score) -> Chart | str:
    """Return the same for tokens: of prompt and completion, else of the chain of thought."""
    for name, metric in _TOKENS.items():
        if _select_groups(score, name):
            what = "Tokens of calls" if name == "total_tokens" else "Tokens of chains of thought"
            return _draw(score, name, what, "tokens", metric, "mean")
    return "no record has tokens to count"


def _select_groups(score: Score, name: str) -> list[Group]:
    return [group for group in score.groups if group.histograms.get(name)]


def _draw(score: Score, name: str, what: str, unit: str, metric: str, called: str) -> Chart:
    groups = _select_groups(score, name)
    shown = groups[:_MOST_PANELS]
    edges = [edge for group in shown for edge in get_histogram(group, name).edges]
    span = max(_LEAST, min(edges)), min(_MOST, max(edges))
    panels = []
    for group in shown:
        histogram, marked = get_histogram(group, name), group.metrics.get(metric)
        across = _make_axis(span, unit if group is shown[-1] else None)
        layers = [_draw_bars(histogram, span, across), *_draw_line(marked, span, across)]
        title = _make_title(group, sum(histogram.counts), marked, called)
        panels.append(layer(*layers, width=_WIDTH, height=_HEIGHT, title=title))
    grid = concat(panels, columns=1, spacing=10)
    whole = f"{what}{describe_fields(score.groups)}"
    return finish_chart(grid, whole, _list_notes(score, groups, name, called))


def _make_axis(span: tuple[float, float], unit: str | None) -> Callable[[str], Spec]:
    """Return how a field lies across; only with a unit, on the last panel, is it labelled."""
    numbers = "~s" if span[0] >= 1 else "~g"  # 10k, and 0.2 rather than 200m
    last = unit is not None
    look = {"format": numbers, "tickCount": 6, "grid": False, "labels": last, "ticks": last}
    scale = {"type": "log", "domain": list(span), "nice": False}
    return partial(quantity, scale=scale, axis={"title": unit, **look})


def _draw_bars(
    histogram: Histogram, span: tuple[float, float], across: Callable[[str], Spec]
) -> Spec:
    calls = sum(histogram.counts)
    rows = [
        {"left": max(span[0], low), "right": min(span[1], high), "from": low, "to": high}
        | {"share": count / calls, "zero": 0, "calls": count}
        for (low, high), count in zip(pairwise(histogram.edges), histogram.counts, strict=True)
        if count
    ]
    return mark(
        "rect",
        {"color": PALETTE[0], "opacity": 0.8},
        rows=rows,
        x=across("left"),
        x2="right",
        y=quantity("share", axis={"title": None, "format": ".2~f", "tickCount": 2, "grid": False}),
        y2="zero",
        tooltip=[
            quantity("from", title="from", format=",~g"),
            quantity("to", title="to", format=",~g"),
            quantity("calls", title="calls", format=","),
            quantity("share", title="share", format=".3~f"),
        ],
    )


def _draw_line(
    marked: Measured | None, span: tuple[float, float], across: Callable[[str], Spec]
) -> Iterator[Spec]:
    value = None if marked is None else marked.value
    if value is not None and span[0] <= value <= span[1]:
        look = {"color": INK, "strokeWidth": 1.5}
        yield mark("rule", look, rows=[{"at": value}], x=across("at"))


def _make_title(group: Group, calls: int, marked: Measured | None, called: str) -> Spec:
    told = ""
    if marked is not None and marked.value is not None:
        told = f"{called} {format_figure(marked.value, marked.low, marked.high)}, "
    return make_panel_title(group, f"{told}{calls:,} call{'' if calls == 1 else 's'}", 36)


def _list_notes(score: Score, groups: Sequence[Group], name: str, called: str) -> Iterator[str]:
    yield f"Share of calls per bin, ten bins to a decade; the line is the {called}."
    if len(groups) > _MOST_PANELS:
        yield f"The first {_MOST_PANELS} of {len(groups)} groups."
    without = [group for group in score.groups if not group.histograms.get(name)]
    if without:
        yield f"Without values: {join_groups(without)}."

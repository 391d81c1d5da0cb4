"""Histograms, a panel per group: latency and tokens of calls, and composite scores with grades."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

from calipers.metrics.families.cost import TIER, GradeScale, read_grade_scale
from calipers.reports.charts.chart import (
    FAINT,
    INK,
    PALETTE,
    Chart,
    Spec,
    category,
    concat,
    finish_chart,
    layer,
    mark,
    quantity,
)
from calipers.reports.charts.labels import (
    describe_fields,
    describe_range,
    get_histogram,
    get_series,
    join_groups,
    make_panel_title,
)
from calipers.reports.number_format import format_figure

if TYPE_CHECKING:
    from calipers.scores.result import Group, Histogram, Measured, Score

_WIDTH, _HEIGHT = 470, 62
_MOST_PANELS = 10
_LEAST, _MOST = 0.1, 1e9  # values beyond are drawn at the edge
_TOKENS = {"total_tokens": "total_tokens_mean", "cot_tokens": "cot_tokens_mean"}


def draw_latency(score: Score) -> Chart | str:
    """Return the distribution of latencies with each group's p95, or why there is no chart."""
    if not _select_groups(score, "latency_ms"):
        return "no record has latency_ms"
    return _draw_panels(score, "latency_ms", "Latency of calls", "ms", "latency_p95_ms", "p95")


def draw_tokens(score: Score) -> Chart | str:
    """Return the same for tokens: of prompt and completion, else of the chain of thought."""
    for name, metric in _TOKENS.items():
        if _select_groups(score, name):
            what = "Tokens of calls" if name == "total_tokens" else "Tokens of chains of thought"
            return _draw_panels(score, name, what, "tokens", metric, "mean")
    return "no record has tokens to count"


def _select_groups(score: Score, name: str) -> list[Group]:
    return [group for group in score.groups if group.histograms.get(name)]


def _draw_panels(
    score: Score, name: str, what: str, unit: str, metric: str, called: str
) -> Chart | str:
    groups = _select_groups(score, name)
    shown = groups[:_MOST_PANELS]
    if all(sum(count > 0 for count in get_histogram(each, name).counts) == 1 for each in groups):
        return f"every call of a system has about the same {unit}"
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
    found = describe_range(score, metric)
    whole = f"{what}, {called}{found}" if found else f"{what}{describe_fields(score.groups)}"
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
        y=quantity("share", axis={"title": None, "format": "~%", "tickCount": 2, "grid": False}),
        y2="zero",
        tooltip=[
            quantity("from", title="from", format=",~g"),
            quantity("to", title="to", format=",~g"),
            quantity("calls", title="calls", format=","),
            quantity("share", title="share", format=".1~%"),
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


_SCORE = "composite_score"
_MOST_COMPOSITE_PANELS = 36
_MOST_SIDE_BY_SIDE = 4
_COMPOSITE_WIDTH, _COMPOSITE_HEIGHT = 200, 110
_GAP = 0.002  # between bars
_HOW_TO_READ = "Share of runs per 0.05 of the score. The line is the median; letters are grades."
_HEADROOM = 1.22  # above the highest bar, for the letters


def draw_composite(score: Score) -> Chart | str:
    """Return a chart per tier of the distribution of composite scores, or why there is none."""
    groups = [group for group in score.groups if group.histograms.get(_SCORE)]
    if not groups:
        return "no run has a composite score, which needs passed and impl_rate"
    shown, columns = _arrange(groups)
    histograms = (get_histogram(group, _SCORE) for group in shown)
    top = _HEADROOM * max(max(_compute_shares(each)) for each in histograms)
    last_row = len(shown) - columns
    scale = read_grade_scale(score.settings.get("grade_scale"))
    panels = [
        _draw_composite_panel(
            *(group, top, scale), first=place % columns == 0, last=place >= last_row
        )
        for place, group in enumerate(shown)
    ]
    without = [group for group in score.groups if group not in groups]
    notes = [_HOW_TO_READ]
    notes += [f"Without a composite score: {join_groups(without)}."] if without else []
    if len(shown) < len(groups):
        notes.append(f"The first {len(shown)} of {len(groups)} groups.")
    grid = concat(panels, columns=columns, spacing={"row": 22, "column": 18})
    return finish_chart(grid, f"Composite score of runs{describe_fields(score.groups)}", notes)


def _arrange(groups: Sequence[Group]) -> tuple[list[Group], int]:
    """Return the panels in order, and how many of them in a row.

    A row per tier and a column per series where every series has every tier.
    """
    series = list(dict.fromkeys(get_series(group) for group in groups))
    tiers = list(dict.fromkeys(str(group.by.get(TIER)) for group in groups))
    whole = len(series) * len(tiers) == len(groups)
    if 1 < len(series) <= _MOST_SIDE_BY_SIDE and whole:
        rows = sorted(groups, key=lambda group: tiers.index(str(group.by[TIER])))
        most = _MOST_COMPOSITE_PANELS // len(series) * len(series)
        return rows[:most], len(series)
    shown = list(groups[:_MOST_COMPOSITE_PANELS])
    if len(shown) <= _MOST_SIDE_BY_SIDE:
        return shown, len(shown)
    return shown, min((4, 3), key=lambda columns: -len(shown) % columns)


def _compute_shares(histogram: Histogram) -> list[float]:
    runs = sum(histogram.counts)
    return [count / runs for count in histogram.counts]


def _draw_composite_panel(
    group: Group, top: float, scale: GradeScale, *, first: bool, last: bool
) -> Spec:
    """Return one group's histogram; only the outer panels name their axes."""
    histogram = get_histogram(group, _SCORE)
    bars = [
        {"from": low, "to": high, "left": low + _GAP, "right": high - _GAP}
        | {"share": share, "zero": 0, "runs": count}
        for (low, high), share, count in zip(
            pairwise(histogram.edges), _compute_shares(histogram), histogram.counts, strict=True
        )
    ]
    x_axis = {
        "values": [0, 0.2, 0.4, 0.6, 0.8, 1],
        "tickCount": 6,
        "format": ".1f",
        "grid": False,
        "labelFlush": False,
        "title": "composite score" if last else None,
    }
    y_title = "share of runs" if first else None
    y_axis = {"format": "~%", "tickCount": 3, "grid": False, "title": y_title}
    histogram_bars = mark(
        "rect",
        {"color": PALETTE[0]},
        rows=bars,
        x=quantity("left", scale={"domain": [0, 1], "nice": False}, axis=x_axis),
        x2="right",
        y=quantity("share", scale={"domain": [0, top], "nice": False}, axis=y_axis),
        y2="zero",
        tooltip=[
            quantity("from", title="from"),
            quantity("to", title="to"),
            quantity("runs", title="runs"),
            quantity("share", title="share", format=".1~%"),
        ],
    )
    bounds, letters = _draw_grades(top, scale)
    runs, median = sum(histogram.counts), _get_median(group)
    graded = f"{group.grade}, median {median:.3f}, " if median is not None else ""
    return layer(
        *(bounds, histogram_bars, *_draw_median(group, top), letters),
        width=_COMPOSITE_WIDTH,
        height=_COMPOSITE_HEIGHT,
        title=make_panel_title(group, f"{graded}{runs:,} run{'' if runs == 1 else 's'}", 36),
    )


def _draw_grades(top: float, scale: GradeScale) -> tuple[Spec, Spec]:
    """Return a faint line where one grade ends and the next begins, and their letters."""
    ends = [0.0, *(least for _, least in reversed(scale.letters)), 1.0]
    letters = [scale.lowest, *(letter for letter, _ in reversed(scale.letters))]
    bounds = [{"at": end} for end in ends[1:-1]]
    middles = [
        {"at": (low + high) / 2, "letter": letter, "top": top}
        for low, high, letter in zip(ends, ends[1:], letters, strict=False)
    ]
    line = {"color": FAINT, "strokeDash": [2, 2]}
    text = {"color": "#999999", "fontSize": 10, "baseline": "top", "dy": 1}
    x, y = quantity("at"), quantity("top")
    return (
        mark("rule", line, rows=bounds, x=x),
        mark("text", text, rows=middles, x=x, y=y, text=category("letter")),
    )


def _get_median(group: Group) -> float | None:
    found = (group.statistics or {}).get(_SCORE)
    return None if found is None else found["median"]


def _draw_median(group: Group, top: float) -> list[Spec]:
    median = _get_median(group)
    if median is None:
        return []
    ends = {"median": median, "zero": 0, "most": top / _HEADROOM * 1.04}
    line = {"color": INK, "strokeWidth": 1.5}
    x, y = quantity("median"), quantity("zero")
    return [mark("rule", line, rows=[ends], x=x, y=y, y2="most")]

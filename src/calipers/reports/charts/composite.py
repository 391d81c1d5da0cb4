"""Composite scores: a histogram per group, with its median and the grades."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from calipers.metrics.cost.tiers import TIER
from calipers.reports.charts.chart import Chart
from calipers.reports.charts.groups import (
    describe_fields,
    get_histogram,
    get_series,
    join_groups,
    make_panel_title,
)
from calipers.reports.charts.style import FAINT, INK, PALETTE, finish_chart
from calipers.reports.charts.vega_lite import Spec, category, concat, layer, mark, quantity
from calipers.scores.tiering import GRADES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from calipers.scores.results import Group, Histogram, Score

_SCORE = "composite_score"
_MOST_PANELS = 36
_MOST_SIDE_BY_SIDE = 4
_WIDTH, _HEIGHT = 200, 110
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
    panels = [
        _draw_panel(group, top, first=place % columns == 0, last=place >= last_row)
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
        most = _MOST_PANELS // len(series) * len(series)
        return rows[:most], len(series)
    shown = list(groups[:_MOST_PANELS])
    if len(shown) <= _MOST_SIDE_BY_SIDE:
        return shown, len(shown)
    return shown, min((4, 3), key=lambda columns: -len(shown) % columns)


def _compute_shares(histogram: Histogram) -> list[float]:
    runs = sum(histogram.counts)
    return [count / runs for count in histogram.counts]


def _draw_panel(group: Group, top: float, *, first: bool, last: bool) -> Spec:
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
    y_axis = {"format": ".2~f", "tickCount": 3, "grid": False, "title": y_title}
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
            quantity("share", title="share", format=".3~f"),
        ],
    )
    bounds, letters = _draw_grades(top)
    runs, median = sum(histogram.counts), _get_median(group)
    graded = f"{group.grade}, median {median:.3f}, " if median is not None else ""
    return layer(
        *(bounds, histogram_bars, *_draw_median(group, top), letters),
        width=_WIDTH,
        height=_HEIGHT,
        title=make_panel_title(group, f"{graded}{runs:,} run{'' if runs == 1 else 's'}", 36),
    )


def _draw_grades(top: float) -> tuple[Spec, Spec]:
    """Return a faint line where one grade ends and the next begins, and their letters."""
    ends = [0.0, *(least for least, _ in reversed(GRADES)), 1.0]
    letters = ["F", *(letter for _, letter in reversed(GRADES))]
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

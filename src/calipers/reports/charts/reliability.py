"""Reliability: how often answers are right against how sure they were said to be."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import altair as alt

from calipers.reports.charts.groups import describe_fields, join_names, make_panel_title, name_group
from calipers.reports.charts.style import GREY, PALETTE, Drawing, add_title, make_chart
from calipers.reports.figures import format_figure

if TYPE_CHECKING:
    from calipers.scores.results import Group, Score

_SIZE = 190
_MOST_PANELS = 12
_COLUMNS = 4
_HOW_TO_READ = (
    "Each point is a bin of confidence: on the dashed line answers are right as often as they are "
    "said to be, below it they are overconfident. Larger points hold more answers."
)


def draw_reliability(score: Score) -> Drawing | str:
    """Return a chart per group with a point per bin of confidence, or why there is none."""
    groups = [group for group in score.groups if group.reliability]
    if not groups:
        return "no record has both prob_correct and a decidable answer"
    shown = groups[:_MOST_PANELS]
    columns = min(_COLUMNS, len(shown))
    panels = [
        _draw_panel(group, first=place % columns == 0, last=place >= len(shown) - columns)
        for place, group in enumerate(shown)
    ]
    grid = alt.concat(*panels, columns=columns, spacing={"row": 22, "column": 24})
    title = f"Confidence against accuracy{describe_fields(score.groups)}"
    return add_title(grid, title, _list_notes(score, len(groups)))


def _draw_panel(group: Group, *, first: bool, last: bool) -> Drawing:
    rows = [
        {
            "bin": f"{each.low:g} to {each.high:g}",
            "confidence": each.confidence,
            "accuracy": each.accuracy,
            "low": each.accuracy if each.accuracy_low is None else each.accuracy_low,
            "high": each.accuracy if each.accuracy_high is None else each.accuracy_high,
            "n": each.n,
            "share": each.n / sum(one.n for one in group.reliability),
        }
        for each in group.reliability
    ]
    scale = alt.Scale(domain=[0, 1], nice=False)
    values = [0, 0.25, 0.5, 0.75, 1]
    x_axis = alt.Axis(values=values, format=".2~f", title="stated confidence" if last else None)
    y_axis = alt.Axis(values=values, format=".2~f", title="right" if first else None)
    x = alt.X("confidence:Q", scale=scale, axis=x_axis)
    y = alt.Y("accuracy:Q", scale=scale, axis=y_axis)
    ideal = make_chart([{"x": 0, "y": 0}, {"x": 1, "y": 1}]).mark_line(
        color=GREY, strokeDash=[4, 3], strokeWidth=1
    )
    bars = make_chart(rows).mark_rule(color=PALETTE[0], strokeWidth=2, opacity=0.4)
    points = make_chart(rows).mark_circle(color=PALETTE[0], opacity=1)
    size = alt.Size("share:Q", scale=alt.Scale(domain=[0, 1], range=[25, 260]), legend=None)
    hover = [
        alt.Tooltip("bin:N", title="confidence above, up to"),
        alt.Tooltip("confidence:Q", title="mean confidence", format=".3~f"),
        alt.Tooltip("accuracy:Q", title="right", format=".3~f"),
        alt.Tooltip("n:Q", title="answers", format=","),
    ]
    return alt.layer(
        ideal.encode(
            x=alt.X("x:Q", scale=scale, axis=x_axis), y=alt.Y("y:Q", scale=scale, axis=y_axis)
        ),
        bars.encode(x=x, y=alt.Y("low:Q", scale=scale, axis=y_axis), y2="high:Q"),
        points.encode(x=x, y=y, size=size, tooltip=hover),
    ).properties(width=_SIZE, height=_SIZE, title=_make_title(group))


def _make_title(group: Group) -> alt.TitleParams:
    answers = sum(each.n for each in group.reliability)
    ece = group.metrics.get("ece")
    known = ece is not None and ece.value is not None
    told = f"ECE {format_figure(ece.value, ece.low, ece.high)}, " if ece and known else ""
    return make_panel_title(group, f"{told}{answers:,} answers", offset=6)


def _list_notes(score: Score, known: int) -> Iterator[str]:
    yield _HOW_TO_READ
    yield (
        f"Bars are {100 * score.settings['confidence']:g} % intervals that take answers for "
        "independent."
    )
    if known > _MOST_PANELS:
        yield f"The first {_MOST_PANELS} of {known} groups."
    without = [
        name_group(group, with_series=True) for group in score.groups if not group.reliability
    ]
    if without:
        yield f"Without a stated confidence: {join_names(without)}."

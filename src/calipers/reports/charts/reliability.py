"""Reliability diagram: accuracy against stated confidence."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from calipers.reports.charts.chart import (
    GREY,
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
from calipers.reports.charts.labels import describe_range, join_groups, make_panel_title
from calipers.reports.tables.shown_metrics import format_measured

if TYPE_CHECKING:
    from calipers.scores.result import Group, Score

_SIZE = 190
_MOST_PANELS = 12
_COLUMNS = 4
_DIAGONAL = ({"x": 0, "y": 0}, {"x": 1, "y": 1})
_HOW_TO_READ = (
    "Each point is a bin of confidence: on the dashed line answers are right as often as they are "
    "said to be, below it they are overconfident. Larger points hold more answers."
)


def draw_reliability(score: Score) -> Chart | str:
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
    grid = concat(panels, columns=columns, spacing={"row": 22, "column": 24})
    title = f"Confidence against accuracy, ECE{describe_range(score, 'ece')}"
    return finish_chart(grid, title, _list_notes(score, len(groups)))


def _draw_panel(group: Group, *, first: bool, last: bool) -> Spec:
    answers = sum(each.n for each in group.reliability)
    ece = group.metrics.get("ece")
    known = ece is not None and ece.value is not None
    told = f"ECE {format_measured('ece', ece)}, " if ece and known else ""
    rows = [
        {
            "bin": f"{each.low:g} to {each.high:g}",
            "confidence": each.confidence,
            "accuracy": each.accuracy,
            "low": each.accuracy if each.accuracy_low is None else each.accuracy_low,
            "high": each.accuracy if each.accuracy_high is None else each.accuracy_high,
            "n": each.n,
            "share": each.n / answers,
        }
        for each in group.reliability
    ]
    scale = {"domain": [0, 1], "nice": False}
    axis = {"values": [0, 0.25, 0.5, 0.75, 1], "format": "~%"}
    across = partial(
        quantity, scale=scale, axis={**axis, "title": "stated confidence" if last else None}
    )
    up = partial(quantity, scale=scale, axis={**axis, "title": "right" if first else None})
    size = quantity("share", scale={"domain": [0, 1], "range": [25, 260]}, legend=None)
    hover = [
        category("bin", title="confidence above, up to"),
        quantity("confidence", title="mean confidence", format=".1~%"),
        quantity("accuracy", title="right", format=".1~%"),
        quantity("n", title="answers", format=","),
    ]
    ideal = {"color": GREY, "strokeDash": [4, 3], "strokeWidth": 1}
    bars = {"color": PALETTE[0], "strokeWidth": 2, "opacity": 0.4}
    points = {"color": PALETTE[0], "opacity": 1}
    x = across("confidence")
    return layer(
        mark("line", ideal, rows=_DIAGONAL, x=across("x"), y=up("y")),
        mark("rule", bars, x=x, y=up("low"), y2="high"),
        mark("circle", points, x=x, y=up("accuracy"), size=size, tooltip=hover),
        rows=rows,
        width=_SIZE,
        height=_SIZE,
        title=make_panel_title(group, f"{told}{answers:,} answers", offset=6),
    )


def _list_notes(score: Score, known: int) -> Iterator[str]:
    yield _HOW_TO_READ
    yield (
        f"Bars are {100 * score.settings['confidence']:g} % intervals that take answers for "
        "independent."
    )
    if known > _MOST_PANELS:
        yield f"The first {_MOST_PANELS} of {known} groups."
    without = [group for group in score.groups if not group.reliability]
    if without:
        yield f"Without a stated confidence: {join_groups(without)}."

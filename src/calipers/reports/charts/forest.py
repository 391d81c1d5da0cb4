"""One metric by group: a point and its interval on a line each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import isfinite
from typing import TYPE_CHECKING, Any

from calipers.metrics import metric_named
from calipers.metrics.cost.tiers import TIER
from calipers.reports.charts.chart import Chart
from calipers.reports.charts.groups import (
    describe_fields,
    join_names,
    name_lines,
    number_duplicates,
    shorten,
)
from calipers.reports.charts.style import PALETTE, finish_chart
from calipers.reports.charts.vega_lite import Spec, category, layer, mark, quantity
from calipers.reports.figures import format_figure, group_name

if TYPE_CHECKING:
    from calipers.scores.results import Group, Score

_WIDTH, _LINE, _ENDS = 560, 20, 16
_MOST = 40
_NAME_CHARS = 32
_NAME_PIXELS = 200
_ROOM = 0.04  # of the span, at both ends
_FEWEST = 2


def make_forest(name: str) -> Callable[[Score], Chart | str]:
    """Return the function that draws that metric."""
    return lambda score: draw_forest(score, name)


def draw_forest(score: Score, name: str) -> Chart | str:
    """Return a line per group, best first, tiers in their own order; or why there is no chart."""
    groups = [group for group in score.groups if _get_value(group, name) is not None]
    if len(groups) < _FEWEST:
        return f"fewer than two groups have {name}"
    shown = _sort_groups(groups, name)[:_MOST]
    names = number_duplicates([shorten(group_name(group.by), _NAME_CHARS) for group in shown])
    rows = [_make_row(group, name, called) for group, called in zip(shown, names, strict=True)]
    title = f"{name}{describe_fields(score.groups)}"
    return finish_chart(_draw(rows, name), title, _list_notes(score, len(groups), name))


def _get_value(group: Group, name: str) -> float | None:
    found = group.metrics.get(name)
    return (
        None if found is None or found.value is None or not isfinite(found.value) else found.value
    )


def _sort_groups(groups: Sequence[Group], name: str) -> list[Group]:
    if list(groups[0].by) == [TIER]:
        return list(groups)
    sign = 1 if metric_named(name).better == "lower" else -1
    return sorted(groups, key=lambda group: sign * (_get_value(group, name) or 0.0))


def _make_row(group: Group, name: str, called: str) -> dict[str, Any]:
    measured = group.metrics[name]
    value = measured.value
    assert value is not None
    low, high = (
        end if end is not None and isfinite(end) else value for end in (measured.low, measured.high)
    )
    return {
        "name": called,
        "full_name": group_name(group.by),
        "value": value,
        "low": low,
        "high": high,
        "shown": format_figure(measured.value, measured.low, measured.high),
        "n": measured.n,
    }


def _draw(rows: Sequence[dict[str, Any]], name: str) -> Spec:
    metric = metric_named(name)
    across = partial(
        quantity,
        scale={"domain": _find_domain(rows, metric.range), "nice": False, "zero": False},
        axis={"title": f"{name} ({metric.unit})" if metric.unit else name, "tickCount": 6},
    )
    names = name_lines(rows, _NAME_PIXELS)
    hover = [
        category("full_name", title="group"),
        category("shown", title=name),
        quantity("n", title="n", format=","),
    ]
    bars = {"color": PALETTE[0], "strokeWidth": 3, "opacity": 0.4}
    points = {"color": PALETTE[0], "filled": True, "size": 60, "opacity": 1}
    return layer(
        mark("rule", bars, x=across("low"), x2="high", y=names),
        mark("point", points, x=across("value"), y=names, tooltip=hover),
        rows=rows,
        width=_WIDTH,
        height=_LINE * len(rows) + _ENDS,
    )


def _find_domain(rows: Sequence[dict[str, Any]], within: tuple[float, float]) -> list[float]:
    """Return the span of all lines with a little margin, hardly beyond the metric's range."""
    low, high = min(row["low"] for row in rows), max(row["high"] for row in rows)
    room = _ROOM * ((high - low) or abs(high) or 1.0)
    return [max(within[0] - room, low - room), min(within[1] + room, high + room)]


def _list_notes(score: Score, known: int, name: str) -> Iterator[str]:
    yield f"Bars are {100 * score.settings['confidence']:g} % intervals."
    if known > _MOST:
        yield f"The first {_MOST} of {known} groups."
    without = [group_name(group.by) for group in score.groups if _get_value(group, name) is None]
    if without:
        yield f"Without {name}: {join_names(without)}."

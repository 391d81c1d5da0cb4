"""One metric by group: a point and its interval on a line each, as ranked systems have them too."""

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
)
from calipers.reports.charts.style import PALETTE, finish_chart
from calipers.reports.charts.vega_lite import Spec, category, layer, mark, quantity
from calipers.reports.figures import Estimated, format_figure, group_name, shorten_text

if TYPE_CHECKING:
    from calipers.scores.results import Group, Score

_WIDTH, _LINE, _ENDS = 560, 20, 16
MOST_LINES = 40
_NAME_CHARS = 32
_NAME_PIXELS = 200
ROOM = 0.04  # of the span, at both ends
_FEWEST = 2


def make_forest(name: str) -> Callable[[Score], Chart | str]:
    """Return the function that draws that metric."""
    return lambda score: draw_forest(score, name)


def draw_forest(score: Score, name: str) -> Chart | str:
    """Return a line per group, best first, tiers in their own order; or why there is no chart."""
    groups = [group for group in score.groups if _get_value(group, name) is not None]
    if len(groups) < _FEWEST:
        return f"fewer than two groups have {name}"
    shown = _sort_groups(groups, name)[:MOST_LINES]
    measured = [group.metrics[name] for group in shown]
    rows = make_lines([group_name(group.by) for group in shown], measured)
    rows = [row | {"n": each.n} for row, each in zip(rows, measured, strict=True)]
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


def make_lines(names: Sequence[str], estimates: Sequence[Estimated]) -> list[dict[str, Any]]:
    """Return a row per name and estimate; a bar without a finite end ends at the value."""
    called = number_duplicates([shorten_text(name, _NAME_CHARS) for name in names])
    rows = []
    for name, full_name, each in zip(called, names, estimates, strict=True):
        ends = [
            end if end is not None and isfinite(end) else each.value
            for end in (each.low, each.high)
        ]
        spans = {"value": each.value, "low": ends[0], "high": ends[1]}
        shown = format_figure(each.value, each.low, each.high)
        rows.append({"name": name, "full_name": full_name, **spans, "shown": shown})
    return rows


def place_lines(
    rows: Sequence[dict[str, Any]], domain: Sequence[float], name: str, unit: str | None
) -> tuple[Callable[[str], Spec], Spec, Spec]:
    """Return how a field of lines lies across, their names, and the size of the chart."""
    scale = {"domain": domain, "nice": False, "zero": False}
    axis = {"title": f"{name} ({unit})" if unit else name, "tickCount": 6}
    size = {"width": _WIDTH, "height": _LINE * len(rows) + _ENDS}
    return partial(quantity, scale=scale, axis=axis), name_lines(rows, _NAME_PIXELS), size


def _draw(rows: Sequence[dict[str, Any]], name: str) -> Spec:
    metric = metric_named(name)
    across, names, size = place_lines(rows, _find_domain(rows, metric.range), name, metric.unit)
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
        **size,
    )


def _find_domain(rows: Sequence[dict[str, Any]], within: tuple[float, float]) -> list[float]:
    """Return the span of all lines with a little margin, hardly beyond the metric's range."""
    low, high = min(row["low"] for row in rows), max(row["high"] for row in rows)
    room = ROOM * ((high - low) or abs(high) or 1.0)
    return [max(within[0] - room, low - room), min(within[1] + room, high + room)]


def _list_notes(score: Score, known: int, name: str) -> Iterator[str]:
    yield f"Bars are {100 * score.settings['confidence']:g} % intervals."
    if known > MOST_LINES:
        yield f"The first {MOST_LINES} of {known} groups."
    without = [group_name(group.by) for group in score.groups if _get_value(group, name) is None]
    if without:
        yield f"Without {name}: {join_names(without)}."

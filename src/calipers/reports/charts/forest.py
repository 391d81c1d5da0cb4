"""One metric by group: a point and its interval on a line each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from math import isfinite
from typing import TYPE_CHECKING

import altair as alt

from calipers.metrics import metric_named
from calipers.metrics.cost.tiers import TIER
from calipers.reports.charts.groups import describe_fields, join_names, number_duplicates, shorten
from calipers.reports.charts.style import PALETTE, Drawing, add_title, make_chart
from calipers.reports.figures import format_figure, group_name

if TYPE_CHECKING:
    from calipers.scores.results import Group, Score

_WIDTH, _LINE, _ENDS = 560, 20, 16
_MOST = 40
_NAME_CHARS = 32
_NAME_PIXELS = 200
_ROOM = 0.04  # of the span, at both ends
_FEWEST = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    """A group's place in the picture."""

    name: str
    full_name: str
    value: float
    low: float
    high: float
    shown: str
    n: int


def make_forest(name: str) -> Callable[[Score], Drawing | str]:
    """Return the function that draws that metric."""
    return lambda score: draw_forest(score, name)


def draw_forest(score: Score, name: str) -> Drawing | str:
    """Return a line per group, best first, tiers in their own order; or why there is no chart."""
    groups = [group for group in score.groups if _get_value(group, name) is not None]
    if len(groups) < _FEWEST:
        return f"fewer than two groups have {name}"
    shown = _sort_groups(groups, name)[:_MOST]
    names = number_duplicates([shorten(group_name(group.by), _NAME_CHARS) for group in shown])
    lines = [_make_line(group, name, called) for group, called in zip(shown, names, strict=True)]
    title = f"{name}{describe_fields(score.groups)}"
    return add_title(_draw(lines, name), title, _list_notes(score, len(groups), name))


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


def _make_line(group: Group, name: str, called: str) -> _Line:
    measured = group.metrics[name]
    value = measured.value
    assert value is not None
    low, high = (
        end if end is not None and isfinite(end) else value for end in (measured.low, measured.high)
    )
    return _Line(
        name=called,
        full_name=group_name(group.by),
        value=value,
        low=low,
        high=high,
        shown=format_figure(measured.value, measured.low, measured.high),
        n=measured.n,
    )


def _draw(lines: Sequence[_Line], name: str) -> Drawing:
    metric = metric_named(name)
    scale = alt.Scale(domain=_find_domain(lines, metric.range), nice=False, zero=False)
    axis = alt.Axis(title=f"{name} ({metric.unit})" if metric.unit else name, tickCount=6)
    names = alt.Y(
        "name:N",
        sort=None,
        scale=alt.Scale(domain=[line.name for line in lines]),
        axis=alt.Axis(title=None, labelLimit=_NAME_PIXELS, ticks=False, domain=False),
    )
    hover = [
        alt.Tooltip("full_name:N", title="group"),
        alt.Tooltip("shown:N", title=name),
        alt.Tooltip("n:Q", title="n", format=","),
    ]
    base = make_chart(map(asdict, lines)).encode(y=names)
    bars = base.mark_rule(color=PALETTE[0], strokeWidth=3, opacity=0.4)
    points = base.mark_point(color=PALETTE[0], filled=True, size=60, opacity=1)
    return alt.layer(
        bars.encode(x=alt.X("low:Q", scale=scale, axis=axis), x2="high:Q"),
        points.encode(x=alt.X("value:Q", scale=scale, axis=axis), tooltip=hover),
    ).properties(width=_WIDTH, height=_LINE * len(lines) + _ENDS)


def _find_domain(lines: Sequence[_Line], within: tuple[float, float]) -> list[float]:
    """Return the span of all lines with a little margin, hardly beyond the metric's range."""
    low, high = min(line.low for line in lines), max(line.high for line in lines)
    room = _ROOM * ((high - low) or abs(high) or 1.0)
    return [max(within[0] - room, low - room), min(within[1] + room, high + room)]


def _list_notes(score: Score, known: int, name: str) -> Iterator[str]:
    yield f"Bars are {100 * score.settings['confidence']:g} % intervals."
    if known > _MOST:
        yield f"The first {_MOST} of {known} groups."
    without = [group_name(group.by) for group in score.groups if _get_value(group, name) is None]
    if without:
        yield f"Without {name}: {join_names(without)}."

"""Cost of runs against pass rate or accuracy: a point per group, and the Pareto front."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING

from calipers.reports.charts.chart import Chart
from calipers.reports.charts.groups import (
    describe_fields,
    get_series,
    join_groups,
    join_names,
    name_group,
)
from calipers.reports.charts.scatter import MOST_NAMED, Axis, Point, Scatter, fit_axis
from calipers.reports.charts.style import PALETTE, finish_chart
from calipers.reports.charts.vega_lite import Spec, category, quantity
from calipers.reports.figures import shorten_text
from calipers.statistics.pareto import pareto_front
from calipers.support.quick_dataclasses import dataclass

if TYPE_CHECKING:
    from calipers.scores.results import Group, Measured, Score

_WIDTH, _HEIGHT = 640, 400
_NAME_CHARS = 22
_MOST_POINTS = 300
_FRONT = "Filled points, on the dashed line, are the Pareto front: nothing cheaper {does} as often."


@dataclass(frozen=True, slots=True)
class _Aim:
    """The metric that cost is drawn against: its name on the axis, and its verb in a sentence."""

    metric: str
    name: str
    does: str


_AIMS = (_Aim("pass_rate", "pass rate", "passes"), _Aim("accuracy", "accuracy", "is right"))


def draw_cost(score: Score) -> Chart | str:
    """Return mean cost against pass rate, else accuracy, with the Pareto front; or why not."""
    for aim in _AIMS:
        both = (aim.metric, "cost_usd")
        groups = [g for g in score.groups if all(_get_known(g, n) is not None for n in both)]
        if groups:
            return _draw(score, groups, aim)
    return "no group has both a cost and a pass rate, or accuracy"


def _draw(score: Score, groups: Sequence[Group], aim: _Aim) -> Chart:
    series = {get_series(group) for group in groups}
    coloured = 1 < len(series) <= len(PALETTE)
    every = _sort_points([_make_point(group, aim, coloured=coloured) for group in groups])
    points = every[:_MOST_POINTS]
    costs = [(point.x_low, point.x_high) for point in points]
    across = fit_axis([point.x for point in points], costs, length=_WIDTH)
    rates = [(point.y_low, point.y_high) for point in points]
    up = fit_axis([point.y for point in points], rates, length=_HEIGHT, within=(0.0, 1.0))
    scatter = Scatter(
        points=points,
        across=across,
        up=up,
        x_axis=_make_axis(across),
        y_axis={"format": ".3~f", "title": aim.name, "tickCount": 7},
        tooltip=[
            category("full_name", title="group"),
            quantity("x", title="mean cost (USD)", format=".4~g"),
            quantity("y", title=aim.name, format=".3~f"),
            category("note", title="cost of a pass"),
        ],
    )
    title = f"Cost of a run against {aim.name}{describe_fields(score.groups)}"
    notes = [*_list_notes(score, points, across, aim)]
    if len(every) > len(points):
        notes.append(f"{len(points)} of {len(every)} groups, those on the front first.")
    return finish_chart(scatter.draw(), title, notes)


def _get_known(group: Group, name: str) -> float | None:
    found = group.metrics.get(name)
    return None if found is None or found.value in (None, inf) else found.value


def _make_point(group: Group, aim: _Aim, *, coloured: bool) -> Point:
    cost, cost_low, cost_high = _add_ends(group.metrics["cost_usd"])
    rate, rate_low, rate_high = _add_ends(group.metrics[aim.metric])
    return Point(
        name=shorten_text(name_group(group, with_series=not coloured), _NAME_CHARS),
        full_name=name_group(group, with_series=True),
        series=(get_series(group) or "") if coloured else "",
        x=cost,
        x_low=cost_low,
        x_high=cost_high,
        y=rate,
        y_low=rate_low,
        y_high=rate_high,
        note=_format_cost(group.metrics.get("cost_of_pass")),
    )


def _add_ends(measured: Measured) -> tuple[float, float, float]:
    """Return a value and the ends of its error bar; without an end, the value itself."""
    value, low, high = measured.value, measured.low, measured.high
    assert value is not None
    return value, value if low is None else low, value if high is None else high


def _format_cost(measured: Measured | None) -> str:
    if measured is None or measured.value is None:
        return "unknown"
    return "infinite: nothing passed" if measured.value == inf else f"${measured.value:.4g}"


def _sort_points(points: Sequence[Point]) -> list[Point]:
    """Return the points of the front, cheapest first, then the others."""
    front = pareto_front([point.x for point in points], [point.y for point in points])
    others = [point for at, point in enumerate(points) if at not in set(front)]
    return [replace(points[at], on_front=True) for at in front] + others


def _make_axis(across: Axis) -> Spec:
    unit, numbers = ("USD, logarithmic", "$~g") if across.log else ("USD", "$,f")
    named = {"title": f"mean cost of a run ({unit})", "format": numbers}
    return named | {"tickCount": 7, "labelOverlap": True}


def _list_notes(score: Score, points: Sequence[Point], across: Axis, aim: _Aim) -> Iterator[str]:
    yield _FRONT.format(does=aim.does)
    bare = [point.full_name for point in points if point.y_low == point.y_high]
    lacking = f"; too few tasks for one: {join_names(bare)}" if bare else ""
    yield f"Bars are {100 * score.settings['confidence']:g} % intervals{lacking}."
    having = [group for group in score.groups if aim.metric in group.metrics]
    alone = [group for group in having if group.metrics[aim.metric].scope is not None]
    if alone:
        yield f"Bars of a single task hold for that task only: {join_groups(alone)}."
    if any(across.cuts(point.x_low, point.x_high) for point in points):
        yield "A bar that reaches the edge goes on beyond it."
    if len(points) > MOST_NAMED:
        yield "Only points on the front are named."
    for what, metric in (("cost", "cost_usd"), (aim.name, aim.metric)):
        left_out = [group for group in score.groups if _get_known(group, metric) is None]
        if left_out:
            article = "" if what == "accuracy" else "a "
            yield f"Left out, without {article}{what}: {join_groups(left_out)}."
    never = [point.full_name for point in points if point.y == 0]
    if never and aim.metric == "pass_rate":
        yield f"Nothing passed, so that a pass costs infinitely much: {join_names(never)}."

"""Cost of runs against pass rate or accuracy: a point per group, and the Pareto front.

Points have error bars and names beside them; the front is drawn in steps, and an axis is
logarithmic where values differ by more than a factor of 20.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import pairwise
from math import exp, inf, log
from typing import TYPE_CHECKING, Any

from calipers.reports.charts.chart import (
    GREY,
    INK,
    PALETTE,
    PAPER,
    Chart,
    Spec,
    category,
    constant,
    finish_chart,
    layer,
    mark,
    quantity,
)
from calipers.reports.charts.labels import (
    Box,
    describe_fields,
    get_series,
    join_groups,
    join_names,
    name_group,
    place_labels,
)
from calipers.reports.number_format import shorten_name
from calipers.statistics.ranking import pareto_front

if TYPE_CHECKING:
    from calipers.scores.result import Group, Measured, Score

MOST_NAMED = 40  # points; of more, only those on the front have their names beside them

_SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "triangle-right")
_LOG_FROM = 20.0  # the largest number over the smallest
_ROOM = 0.07  # of the span, free at both ends
_SMALLEST = 1e-9  # the smallest value on a logarithmic axis, which has no 0
_REACH = 0.8  # how many spans of the values an error bar may stretch the axis on each side


@dataclass(frozen=True, slots=True)
class Axis:
    """From `low` to `high` over a length in pixels, evenly or by the logarithm."""

    low: float
    high: float
    length: float
    log: bool = False

    def to_pixel(self, value: float) -> float:
        """Return the pixel of a value from the low end; values beyond an end lie there."""
        low, high = self._place(self.low), self._place(self.high)
        inside = min(self.high, max(self.low, value))
        return self.length * (self._place(inside) - low) / (high - low)

    def to_value(self, pixel: float) -> float:
        """Return the value at a pixel."""
        low, high = self._place(self.low), self._place(self.high)
        place = low + (high - low) * pixel / self.length
        return exp(place) if self.log else place

    def _place(self, value: float) -> float:
        return log(value) if self.log else value

    def cuts(self, low: float, high: float) -> bool:
        """Say whether a bar extends beyond the axis."""
        return low < self.low or high > self.high

    def make_scale(self) -> Spec:
        """Return the scale for Vega-Lite."""
        kind = "log" if self.log else "linear"
        return {"type": kind, "domain": [self.low, self.high], "nice": False}


def fit_axis(
    values: Sequence[float],
    bars: Sequence[tuple[float, float]],
    *,
    length: float,
    within: tuple[float, float] | None = None,
) -> Axis:
    """Return an axis for values from 0 on, and for their error bars unless these are huge.

    With `within`, all numbers lie there, so that no bar has to be cut.
    """
    if within is not None:
        return _add_margin(min(low for low, _ in bars), max(high for _, high in bars), length)
    if min(values) >= _SMALLEST and max(values) >= _LOG_FROM * min(values):
        logs = _spread(
            [log(value) for value in values],
            [(log(max(low, _SMALLEST)), log(high)) for low, high in bars],
            length,
            least=-inf,
        )
        return Axis(exp(logs.low), exp(logs.high), length, log=True)
    return _spread(values, bars, length)


def _spread(
    values: Sequence[float],
    bars: Sequence[tuple[float, float]],
    length: float,
    *,
    least: float = 0.0,
) -> Axis:
    span = max(values) - min(values)
    reach = _REACH * span if span else max(high - low for low, high in bars)
    low = max(min(values) - reach, min(low for low, _ in bars))
    high = min(max(values) + reach, max(high for _, high in bars))
    return _add_margin(low, high, length, least=least)


def _add_margin(low: float, high: float, length: float, *, least: float = 0.0) -> Axis:
    """Return an axis with a little margin, less of it below the least possible number."""
    room = _ROOM * ((high - low) or abs(high) * 0.2 or 1.0)
    return Axis(max(low - room, least - room / 4), high + room, length)


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """Where a group lies, how far its error bars reach, and what it is called."""

    name: str
    full_name: str
    series: str  # its colour; empty where all have one
    x: float
    x_low: float
    x_high: float
    y: float
    y_low: float
    y_high: float
    note: str  # further words on hovering
    on_front: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Scatter:
    """The points, those of the front first and in their order, and the axes they lie on."""

    points: Sequence[Point]
    across: Axis
    up: Axis
    x_axis: Spec
    y_axis: Spec
    tooltip: list[Spec]

    def draw(self) -> Spec:
        """Return error bars, the front, lines to names, points and names, in this order."""
        front = [point for point in self.points if point.on_front]
        others = [point for point in self.points if not point.on_front]
        leaders, *names = self._draw_names()
        return layer(
            *self._draw_bars(),
            self._draw_steps(front),
            leaders,
            self._draw_dots(others, filled=False, fill=PAPER, strokeWidth=1.8),
            self._draw_dots(front, filled=True),
            *names,
            width=self.across.length,
            height=self.up.length,
        )

    def _encode(self, x: str = "x", y: str = "y") -> Spec:
        return {
            "x": quantity(x, scale=self.across.make_scale(), axis=self.x_axis),
            "y": quantity(y, scale=self.up.make_scale(), axis=self.y_axis),
        }

    def _draw_bars(self) -> Iterator[Spec]:
        colour, _ = self._encode_series()
        rows = [
            asdict(point)
            | {"from_x": max(point.x_low, self.across.low)}
            | {"to_x": min(point.x_high, self.across.high)}
            for point in self.points
        ]
        bar = partial(mark, "rule", {"strokeWidth": 1.2, "opacity": 0.45}, rows=rows, color=colour)
        yield bar(x2="to_x", **self._encode("from_x"))
        yield bar(y2="y_high", **self._encode(y="y_low"))

    def _draw_steps(self, front: Sequence[Point]) -> Spec:
        dashed = {"color": INK, "strokeWidth": 1.2, "strokeDash": [5, 3]}
        look = {"interpolate": "step-after", **dashed}
        return mark("line", look, rows=map(asdict, front), **self._encode())

    def _draw_dots(self, points: Sequence[Point], **look: Any) -> Spec:
        colour, shape = self._encode_series()
        return mark(
            "point",
            {"size": 80, "opacity": 1, **look},
            rows=map(asdict, points),
            **self._encode(),
            color=colour,
            shape=shape,
            tooltip=self.tooltip,
        )

    def _encode_series(self) -> tuple[Spec, Spec]:
        names = sorted({point.series for point in self.points})
        if len(names) == 1:
            return constant(PALETTE[0]), constant(_SHAPES[0])
        legend = {"title": None, "orient": "bottom", "symbolSize": 90, "symbolOpacity": 1}
        colour, shape = (
            category(
                "series",
                scale={"domain": names, "range": list(each[: len(names)])},
                legend={**legend, "columns": 3},
            )
            for each in (PALETTE, _SHAPES)
        )
        return colour, shape

    def _draw_names(self) -> list[Spec]:
        """Return lines to names that do not fit beside their points, a halo, and the names."""
        few = len(self.points) <= MOST_NAMED
        named = [point for point in self.points if point.on_front or few]
        labels = place_labels(
            [point.name for point in named],
            [self._to_pixel(point.x, point.y) for point in named],
            list(self._list_lines()),
            width=self.across.length,
            height=self.up.length,
        )
        rows = [
            {"text": label.text, "led": label.led, "x": point.x, "y": point.y}
            | self._to_values("at", label.x, label.y)
            | self._to_values("end", *label.end)
            for label, point in zip(labels, named, strict=True)
        ]
        led = [row for row in rows if row["led"]]
        look, ends = {"color": GREY, "strokeWidth": 0.6}, self._encode("end_x", "end_y")
        leaders = mark("rule", look, rows=led, x2="x", y2="y", **ends)
        at = self._encode("at_x", "at_y")
        halo = {"fontSize": 11, "color": PAPER, "stroke": PAPER, "strokeWidth": 3}
        plain = {"fontSize": 11, "color": INK}
        texts = [
            mark("text", each, rows=rows, text=category("text"), **at) for each in (halo, plain)
        ]
        return [leaders, *texts]

    def _to_pixel(self, x: float, y: float) -> tuple[float, float]:
        return self.across.to_pixel(x), self.up.length - self.up.to_pixel(y)

    def _to_values(self, name: str, x: float, y: float) -> dict[str, float]:
        return {
            f"{name}_x": self.across.to_value(x),
            f"{name}_y": self.up.to_value(self.up.length - y),
        }

    def _list_lines(self) -> Iterator[Box]:
        """Yield the error bars and the steps of the front as thin boxes."""
        for point in self.points:
            left, top = self._to_pixel(point.x_low, point.y_high)
            right, bottom = self._to_pixel(point.x_high, point.y_low)
            x, y = self._to_pixel(point.x, point.y)
            yield Box(left, y - 1, right, y + 1)
            yield Box(x - 1, top, x + 1, bottom)
        front = [self._to_pixel(point.x, point.y) for point in self.points if point.on_front]
        for (x, y), (next_x, next_y) in pairwise(front):
            yield Box(x, y - 2, next_x, y + 2)
            yield Box(next_x - 2, next_y, next_x + 2, y)


_WIDTH, _HEIGHT = 640, 400
_NAME_CHARS = 22
_RUNS = 1000  # that a cost is of, as in tables
_DOLLARS = "$,.4~r"
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
        y_axis={"format": "~%", "title": aim.name, "tickCount": 7},
        tooltip=[
            category("full_name", title="group"),
            quantity("x", title="mean cost of 1,000 runs", format=_DOLLARS),
            quantity("y", title=aim.name, format=".3~%"),
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
    of_one = _add_ends(group.metrics["cost_usd"])
    cost, cost_low, cost_high = (_RUNS * each for each in of_one)
    rate, rate_low, rate_high = _add_ends(group.metrics[aim.metric])
    return Point(
        name=shorten_name(name_group(group, with_series=not coloured), _NAME_CHARS),
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
    return (
        "infinite: nothing passed"
        if measured.value == inf
        else f"${_RUNS * measured.value:,.4g} per {_RUNS:,}"
    )


def _sort_points(points: Sequence[Point]) -> list[Point]:
    """Return the points of the front, cheapest first, then the others."""
    front = pareto_front([point.x for point in points], [point.y for point in points])
    others = [point for at, point in enumerate(points) if at not in set(front)]
    return [replace(points[at], on_front=True) for at in front] + others


def _make_axis(across: Axis) -> Spec:
    unit = "USD, logarithmic" if across.log else "USD"
    named = {"title": f"mean cost of {_RUNS:,} runs ({unit})", "format": _DOLLARS}
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

"""Points in the plane with error bars, names beside them, and a front in steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import partial
from itertools import pairwise
from typing import Any

from calipers.reports.charts.labels import Box, place_labels
from calipers.reports.charts.plane import Axis
from calipers.reports.charts.style import GREY, INK, PALETTE, PAPER
from calipers.reports.charts.vega_lite import Spec, category, constant, layer, mark, quantity
from calipers.support.quick_dataclasses import dataclass

MOST_NAMED = 40  # points; of more, only those on the front have their names beside them

_SHAPES = (
    "circle",
    "square",
    "triangle-up",
    "diamond",
    "triangle-down",
    "cross",
    "triangle-right",
)


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

    def _encode_x(self, field: str) -> Spec:
        return quantity(field, scale=self.across.make_scale(), axis=self.x_axis)

    def _encode_y(self, field: str) -> Spec:
        return quantity(field, scale=self.up.make_scale(), axis=self.y_axis)

    def _draw_bars(self) -> Iterator[Spec]:
        colour, _ = self._encode_series()
        rows = [
            asdict(point)
            | {"from_x": max(point.x_low, self.across.low)}
            | {"to_x": min(point.x_high, self.across.high)}
            for point in self.points
        ]
        bar = partial(mark, "rule", {"strokeWidth": 1.2, "opacity": 0.45}, rows=rows, color=colour)
        yield bar(x=self._encode_x("from_x"), x2="to_x", y=self._encode_y("y"))
        yield bar(x=self._encode_x("x"), y=self._encode_y("y_low"), y2="y_high")

    def _draw_steps(self, front: Sequence[Point]) -> Spec:
        dashed = {"color": INK, "strokeWidth": 1.2, "strokeDash": [5, 3]}
        return mark(
            "line",
            {"interpolate": "step-after", **dashed},
            rows=map(asdict, front),
            x=self._encode_x("x"),
            y=self._encode_y("y"),
        )

    def _draw_dots(self, points: Sequence[Point], **look: Any) -> Spec:
        colour, shape = self._encode_series()
        return mark(
            "point",
            {"size": 80, "opacity": 1, **look},
            rows=map(asdict, points),
            x=self._encode_x("x"),
            y=self._encode_y("y"),
            color=colour,
            shape=shape,
            tooltip=self.tooltip,
        )

    def _encode_series(self) -> tuple[Spec, Spec]:
        """Return colour and shape by series, or one for all."""
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
        leaders = mark(
            "rule",
            {"color": GREY, "strokeWidth": 0.6},
            rows=[row for row in rows if row["led"]],
            x=self._encode_x("end_x"),
            x2="x",
            y=self._encode_y("end_y"),
            y2="y",
        )
        x, y = self._encode_x("at_x"), self._encode_y("at_y")
        halo = {"fontSize": 11, "color": PAPER, "stroke": PAPER, "strokeWidth": 3}
        plain = {"fontSize": 11, "color": INK}
        texts = [
            mark("text", look, rows=rows, x=x, y=y, text=category("text")) for look in (halo, plain)
        ]
        return [leaders, *texts]

    def _to_pixel(self, x: float, y: float) -> tuple[float, float]:
        return self.across.to_pixel(x), self.up.length - self.up.to_pixel(y)

    def _to_values(self, name: str, x: float, y: float) -> dict[str, float]:
        """Return the numbers at a pixel."""
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

"""Placement of point labels so that they can be read: beside the points, without overlap.

All lengths are pixels, x to the right and y down, as on the screen.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product

from calipers.support.quick_dataclasses import dataclass

CHAR_WIDTH, LINE_HEIGHT = 5.6, 13.0  # of the labels' font, a little generously
NEAR = 9.0  # from a point to its label

_APART = 6.0  # least gap between two labels on a line

_RINGS = (NEAR, 20.0, 34.0, 50.0, 70.0)
_SIDES = ((1, 0), (-1, 0), (1, -1), (-1, -1), (1, 1), (-1, 1), (0, -1), (0, 1))
_OVER_LABEL, _OVER_POINT, _OVER_LINE, _OUTSIDE, _FAR = 100.0, 40.0, 4.0, 1000.0, 0.3


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle along the axes."""

    left: float
    top: float
    right: float
    bottom: float

    def overlaps(self, other: Box) -> bool:
        """Say whether the two overlap."""
        return (
            self.left < other.right
            and other.left < self.right
            and self.top < other.bottom
            and other.top < self.bottom
        )

    def is_within(self, width: float, height: float) -> bool:
        """Say whether it lies inside a chart of that size."""
        return self.left >= 0 and self.top >= 0 and self.right <= width and self.bottom <= height


@dataclass(frozen=True, slots=True)
class Label:
    """A text around its centre; a line leads from its point to one that stands far off."""

    text: str
    x: float
    y: float
    end: tuple[float, float]  # the place on its rim that is nearest to the point
    led: bool


def place_labels(
    texts: Sequence[str],
    points: Sequence[tuple[float, float]],
    lines: Sequence[Box],
    *,
    width: float,
    height: float,
) -> list[Label]:
    """Return a place for the text of each point, the earlier ones choosing first.

    `lines` are further things better not written over, such as error bars.
    """
    dots = [Box(x - 5, y - 5, x + 5, y + 5) for x, y in points]
    taken: list[Box] = []
    found: list[Label] = []
    for text, point in zip(texts, points, strict=True):
        choices = list(_list_places(text, point))

        def penalize(choice: tuple[float, Box]) -> float:
            ring, box = choice
            return (
                _FAR * ring
                + _OVER_LABEL * sum(map(box.overlaps, taken))
                + _OVER_POINT * sum(map(box.overlaps, dots))
                + _OVER_LINE * sum(map(box.overlaps, lines))
                + (0.0 if box.is_within(width, height) else _OUTSIDE)
            )

        ring, box = min(choices, key=penalize)
        taken.append(replace(box, left=box.left - _APART, right=box.right + _APART))
        middle = (box.left + box.right) / 2, (box.top + box.bottom) / 2
        x, y = point
        end = min(box.right, max(box.left, x)), min(box.bottom, max(box.top, y))
        found.append(Label(text, *middle, end=end, led=ring > NEAR))
    return found


def _list_places(text: str, point: tuple[float, float]) -> Iterator[tuple[float, Box]]:
    """Yield the places to choose from, the nearest first, each with its distance."""
    half_width, half_height = len(text) * CHAR_WIDTH / 2, LINE_HEIGHT / 2
    for ring, (right, down) in product(_RINGS, _SIDES):
        aside = ring if right and not down else ring * 0.75
        x = point[0] + right * (aside + half_width)
        y = point[1] + down * (aside + half_height)
        yield ring, Box(x - half_width, y - half_height, x + half_width, y + half_height)

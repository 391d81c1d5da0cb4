"""Layout of a picture's nodes: columns by distance from the first node, folded into bands."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence

from calipers.support.quick_dataclasses import dataclass

NODE_WIDTH, NODE_HEIGHT = 156, 34
COLUMN_GAP, ROW_GAP, BAND_GAP = 84, 34, 46
MARGIN = 28
COLUMNS = 6  # side by side, before the next band begins below

Edge = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Place:
    """The middle of a node, and its column and band."""

    x: float
    y: float
    column: int
    band: int


def place_nodes(nodes: Sequence[str], edges: Iterable[Edge], top: float) -> dict[str, Place]:
    """Return a place for every node, below `top`."""
    edges = list(edges)
    levels = _order_levels(_list_levels(nodes, edges), edges)
    pitch, step = NODE_HEIGHT + ROW_GAP, NODE_WIDTH + COLUMN_GAP
    places: dict[str, Place] = {}
    for band in range(-(-len(levels) // COLUMNS)):
        columns = levels[band * COLUMNS : (band + 1) * COLUMNS]
        rows = max(map(len, columns))
        for column, names in enumerate(columns):
            offset = (rows - len(names)) / 2
            for row, name in enumerate(names):
                x = MARGIN + NODE_WIDTH / 2 + column * step
                y = top + NODE_HEIGHT / 2 + (offset + row) * pitch
                places[name] = Place(x, y, column, band)
        top += rows * pitch + BAND_GAP
    return places


def _list_levels(nodes: Sequence[str], edges: Sequence[Edge]) -> list[list[str]]:
    """Return the nodes by distance from the first one; unreachable ones start over."""
    after: dict[str, list[str]] = {}
    for a, b in edges:
        after.setdefault(a, []).append(b)
    level: dict[str, int] = {}
    for root in nodes:
        if root in level:
            continue
        level[root] = 1 + max(level.values()) if level and root not in after else 0
        waiting = deque([root])
        while waiting:
            here = waiting.popleft()
            for node in after.get(here, ()):
                if node not in level:
                    level[node] = level[here] + 1
                    waiting.append(node)
    found: list[list[str]] = [[] for _ in range(1 + max(level.values(), default=-1))]
    for name in nodes:
        found[level[name]].append(name)
    return found


def _order_levels(levels: list[list[str]], edges: Sequence[Edge]) -> list[list[str]]:
    """Return each column in the order of what leads to it, so that fewer edges cross."""
    before: dict[str, list[str]] = {}
    for a, b in edges:
        before.setdefault(b, []).append(a)
    height: dict[str, float] = {}
    ordered: list[list[str]] = []
    for names in levels:
        wanted = {name: _average_height(before.get(name, ()), height) for name in names}
        column = sorted(names, key=wanted.__getitem__)
        height |= {name: row - len(column) / 2 for row, name in enumerate(column)}
        ordered.append(column)
    return ordered


def _average_height(names: Iterable[str], height: Mapping[str, float]) -> float:
    known = [height[name] for name in names if name in height]
    return sum(known) / len(known) if known else 0.0

"""A picture of processor seconds over rows, a line per command."""

from __future__ import annotations

from collections.abc import Sequence
from math import log10
from typing import Any

SHOWN = {  # the lines, in colors that people tell apart who see few
    "score": "#3b8ea5",
    "gate": "#d1495b",
    "compare": "#66a182",
    "rank": "#8d6a9f",
    "report": "#edae49",
    "convert": "#2e4057",
    "doctor": "#a0785a",
}
_WIDTH, _HEIGHT = 640, 340
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 110, 20, 50
_LINE_HEIGHT = 16  # of the legend


def draw_growth(costs: Sequence[dict[str, Any]]) -> str:
    """Return an SVG with two logarithmic scales; dashed: in proportion to the rows."""
    lines = {
        name: [
            (cost["size"], cost["cpu_seconds"])
            for cost in costs
            if cost["command"] == name and cost["finished"]
        ]
        for name in SHOWN
    }
    lines = {name: points for name, points in lines.items() if points}
    rows = [log10(x) for points in lines.values() for x, _ in points]
    seconds = [log10(y) for points in lines.values() for _, y in points]
    low, high = int(min(seconds) // 1), int(max(seconds) // 1) + 1
    first, last = round(min(rows)), round(max(rows))

    def place(x: float, y: float) -> tuple[float, float]:
        across = (x - first) / max(last - first, 1) * (_WIDTH - _LEFT - _RIGHT)
        up = (y - low) / (high - low) * (_HEIGHT - _TOP - _BOTTOM)
        return round(_LEFT + across, 1), round(_HEIGHT - _BOTTOM - up, 1)

    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        'font-family="system-ui, sans-serif" font-size="12" fill="#808080" role="img" '
        'aria-label="Processor seconds of each command, over the number of rows">'
    )
    parts = [head]
    for power in range(first, last + 1):
        x, _ = place(power, low)
        parts.append(
            f'<line x1="{x}" x2="{x}" y1="{_TOP}" y2="{_HEIGHT - _BOTTOM}" stroke="#808080" '
            f'stroke-opacity="0.25"/><text x="{x}" y="{_HEIGHT - _BOTTOM + 18}" '
            f'text-anchor="middle">{10**power:,}</text>'
        )
    for power in range(low, high + 1):
        _, y = place(first, power)
        parts.append(
            f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y}" y2="{y}" stroke="#808080" '
            f'stroke-opacity="0.25"/><text x="{_LEFT - 8}" y="{y + 4}" '
            f'text-anchor="end">{10.0**power:g} s</text>'
        )
    start, end = (
        place(max(first, last - (high - low)), max(low, high - last + first)),
        place(last, high),
    )
    parts.append(
        f'<line x1="{start[0]}" y1="{start[1]}" x2="{end[0]}" y2="{end[1]}" stroke="#808080" '
        'stroke-dasharray="4 3"><title>growth in proportion to the rows</title></line>'
    )
    ordered = sorted(lines, key=lambda name: -lines[name][-1][1])
    for number, name in enumerate(ordered):
        points = [(place(log10(x), log10(y)), x, y) for x, y in lines[name]]
        path = " ".join(f"{x},{y}" for (x, y), _, _ in points)
        color = SHOWN[name]
        parts.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2"/>')
        parts += [
            f'<circle cx="{x}" cy="{y}" r="3" fill="{color}">'
            f"<title>{name}, {count:,.0f} rows: {value:.2f} s</title></circle>"
            for (x, y), count, value in points
        ]
        parts.append(
            f'<text x="{_WIDTH - _RIGHT + 14}" y="{_TOP + 12 + number * _LINE_HEIGHT}" '
            f'fill="{color}">{name}</text>'
        )
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    parts.append(
        f'<text x="{middle}" y="{_HEIGHT - 10}" text-anchor="middle">rows; processor time of the '
        "whole process; dashed: in proportion to the rows</text>"
    )
    return "\n".join([*parts, "</svg>"]) + "\n"

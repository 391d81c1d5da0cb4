"""Time and memory over four orders of magnitude of rows, as figures and as a picture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import log10

from benchmarks.contest import by_turns, contestant
from benchmarks.figures import Bar, Figure
from benchmarks.workload import Setup

SIZES = (0.01, 0.1, 1, 10)  # times the rows of the workload
LINEAR = Bar(1.3)


def measure_growth(setup: Setup) -> Iterator[Figure]:
    """Score all metrics of Parquet files of 10⁴ to 10⁷ rows."""
    work: dict[int, float] = {}
    for size in SIZES:
        rows = int(size * setup.rows)
        path = setup.file("plain", ".parquet", rows)
        runs = by_turns(
            setup.rounds if size < max(SIZES) else 1,
            calipers=contestant("calipers", path),
            by_hand=contestant("polars_by_hand", path),
        )
        ours, peer = runs["calipers"], runs["by_hand"]
        work[rows] = ours.cpu_seconds
        yield Figure(
            name=f"growth: {rows:,} rows, all metrics",
            value=ours.cpu_seconds,
            unit="s",
            detail=f"{ours.seconds:.2f} s by the clock, peak memory "
            f"{ours.peak_bytes / 1e6:,.0f} MB; Polars by hand {peer.cpu_seconds:.2f} s",
        )
    *_, before, last = work
    yield Figure(
        name="growth: processor time per row, 10 times the rows / rows",
        value=(work[last] / last) / (work[before] / before),
        bar=LINEAR,
        binding=setup.is_full,
        detail=f"{last:,} rows / {before:,}",
    )


_WIDTH, _HEIGHT = 560, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 45, 20, 50


def draw_growth(points: Sequence[tuple[float, float]]) -> str:
    """Draw seconds over rows on two logarithmic scales, with the line of growth in proportion."""
    rows = [log10(x) for x, _ in points]
    seconds = [log10(y) for _, y in points]
    low, high = int(min(seconds) // 1), int(max(seconds) // 1) + 1
    first, last = round(rows[0]), round(rows[-1])

    def place(x: float, y: float) -> tuple[float, float]:
        across = (x - first) / (last - first) * (_WIDTH - _LEFT - _RIGHT)
        up = (y - low) / (high - low) * (_HEIGHT - _TOP - _BOTTOM)
        return round(_LEFT + across, 1), round(_HEIGHT - _BOTTOM - up, 1)

    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        'font-family="system-ui, sans-serif" font-size="12" fill="#808080" role="img" '
        'aria-label="Processor seconds to score all metrics, over the number of rows">'
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
    start, end = place(rows[-1] - (seconds[-1] - low), low), place(rows[-1], seconds[-1])
    parts.append(
        f'<line x1="{start[0]}" y1="{start[1]}" x2="{end[0]}" y2="{end[1]}" stroke="#808080" '
        'stroke-dasharray="4 3"><title>growth in proportion to the rows</title></line>'
    )
    line = " ".join(f"{x},{y}" for x, y in map(place, rows, seconds))
    parts.append(f'<polyline points="{line}" fill="none" stroke="#3b8ea5" stroke-width="2"/>')
    for (x, y), (count, value) in zip(map(place, rows, seconds), points, strict=True):
        parts.append(
            f'<circle cx="{x}" cy="{y}" r="4" fill="#3b8ea5">'
            f"<title>{count:,.0f} rows: {value:.2f} s</title></circle>"
        )
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    parts.append(
        f'<text x="{middle}" y="{_HEIGHT - 10}" text-anchor="middle">rows of Parquet, all metrics '
        "with intervals; dashed: in proportion to the rows</text>"
    )
    return "\n".join([*parts, "</svg>"]) + "\n"

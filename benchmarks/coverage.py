"""`python -m benchmarks.coverage`: how often 95 % intervals hold the true value.

Prints a table of the shapes that the promise is for and one of those beyond it, writes both into
docs/intervals.md, and draws docs/figures/coverage.svg.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

from tests.every_shape import EVERY_OTHER
from tests.shapes import LIMITS, SHAPES, Coverage, Shape, coverage
from tests.unequal_shapes import UNEQUAL
from tests.unseen_shapes import RARE, UNSEEN

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGE = DOCS / "intervals.md"
FIGURE = DOCS / "figures" / "coverage.svg"

_BEGIN, _END = "<!-- {}: python -m benchmarks.coverage -->", "<!-- end of {} -->"

_ROW = 18  # pixels
_TOP = 34
_LEFT = 470
_WIDTH = 820
_FROM, _TO = 0.90, 1.0
_PROMISED = (0.93, 0.97)


def main() -> int:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--datasets", type=int, default=1000, help="data sets per shape")
    parser.add_argument("--dry", action="store_true", help="print, write nothing")
    parser.add_argument("--metric", help="only shapes of this one; writes nothing")
    arguments = parser.parse_args()
    kinds = [
        [shape for shape in shapes if arguments.metric in (None, shape.metric)]
        for shapes in ((*SHAPES, *UNSEEN, *EVERY_OTHER, *UNEQUAL), (*LIMITS, *RARE))
    ]
    promised, limits = (list(_measured(shapes, arguments.datasets)) for shapes in kinds)
    tables = {"coverage": _markdown(promised), "limits": _markdown(limits)}
    print("\n\n".join(tables.values()))
    if not (arguments.dry or arguments.metric):
        PAGE.write_text(_filled(PAGE.read_text("utf-8"), tables), "utf-8")
        FIGURE.parent.mkdir(exist_ok=True)
        FIGURE.write_text(dot_plot(promised), "utf-8")
    missed = [each for each in promised if not each.is_kept]
    for each in missed:
        print(f"MISS {each.shape.metric}: {each.shape.name}", file=sys.stderr)
    return int(bool(missed))


def _measured(shapes: Sequence[Shape], datasets: int) -> Iterator[Coverage]:
    for shape in shapes:
        print(f"{shape.metric}: {shape.name}", file=sys.stderr)
        yield coverage(shape, datasets)


def _markdown(found: Sequence[Coverage]) -> str:
    lines = [
        "| metric | shape | method | data sets | coverage | mean width |",
        "|---|---|---|---:|---:|---:|",
    ]
    lines += [
        f"| `{each.shape.metric}` | {each.shape.name} | {each.shape.method} "
        f"| {each.datasets:,} | {each.covered:.1%} | {each.width:.3g} |"
        for each in found
    ]
    return "\n".join(lines)


def _filled(page: str, tables: dict[str, str]) -> str:
    """The page with the tables between their marks."""
    for name, table in tables.items():
        begin, end = _BEGIN.format(name), _END.format(name)
        before, _, rest = page.partition(begin)
        page = f"{before}{begin}\n\n{table}\n\n{end}{rest.partition(end)[2]}"
    return page


def dot_plot(found: Sequence[Coverage]) -> str:
    """A dot per shape over the promised band; grey on nothing reads on light and dark pages."""
    height = _TOP + _ROW * len(found) + 10
    bottom = height - 10
    low, high = (_x(share) for share in _PROMISED)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
        'font-family="system-ui, sans-serif" font-size="11" fill="#808080" role="img" '
        'aria-label="Coverage of 95 % intervals on simulated data, by shape">'
    )
    band = (
        f'<rect x="{low:g}" y="{_TOP - 6}" width="{high - low:g}" height="{bottom - _TOP + 6}" '
        'fill="#3b8ea5" fill-opacity="0.18"/>'
    )
    parts = [head, band]
    for percent in range(90, 101):
        x = _x(percent / 100)
        dashes = ' stroke-dasharray="4 3"' if percent == 95 else ""
        opacity = 0.9 if percent == 95 else 0.25
        parts.append(
            f'<line x1="{x:g}" x2="{x:g}" y1="{_TOP - 6}" y2="{bottom}" stroke="#808080" '
            f'stroke-opacity="{opacity}"{dashes}/>'
            f'<text x="{x:g}" y="{_TOP - 14}" text-anchor="middle">{percent} %</text>'
        )
    for number, each in enumerate(found):
        y = _TOP + _ROW * number + _ROW / 2
        label = f"{each.shape.metric}: {each.shape.name.replace('`', '')}"
        parts.append(
            f'<text x="{_LEFT - 14}" y="{y + 4:g}" text-anchor="end">{escape(label)}</text>'
            f'<circle cx="{_x(each.covered):g}" cy="{y:g}" r="4.5" fill="{_colour(each)}">'
            f"<title>{each.covered:.1%}</title></circle>"
        )
    return "\n".join([*parts, "</svg>"]) + "\n"


def _x(share: float) -> float:
    inside = min(_TO, max(_FROM, share))
    return round(_LEFT + (inside - _FROM) / (_TO - _FROM) * (_WIDTH - _LEFT - 24), 1)


def _colour(each: Coverage) -> str:
    if not each.is_kept:
        return "#d1495b"
    return "#3b8ea5" if _PROMISED[0] <= each.covered <= _PROMISED[1] else "#c08a2b"


if __name__ == "__main__":
    sys.exit(main())

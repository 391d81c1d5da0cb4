"""`python -m benchmarks.tier_coverage`: how often what is said of tiers holds the truth.

Prints the table of docs/tiers.md and writes it there.
"""

from __future__ import annotations

from pathlib import Path

from tests.scores.tier_shapes import SHAPES, TierShape, coverage

PAGE = Path(__file__).resolve().parents[1] / "docs" / "tiers.md"
SETS = 200
MANY_TASKS = 500  # from which on half as many data sets do
RESAMPLED = 40  # data sets that are scored one by one: 2,000 resamples of each take their time
_RESAMPLED_TASKS = 20
_BEGIN, _END = "<!-- coverage: python -m benchmarks.tier_coverage -->", "<!-- end of coverage -->"


def rows_of(shape: TierShape) -> list[str]:
    """Return the lines of the table about a shape."""
    ways = [(SETS if shape.tasks < MANY_TASKS else SETS // 2, False)]
    if shape.tasks == _RESAMPLED_TASKS:
        ways.append((RESAMPLED, True))
    lines = []
    for sets, resampled in ways:
        for what, how, held in coverage(shape, sets, resampled=resampled):
            lines.append(f"| {what} | {shape.name} | {how} | {sets} | {held:.1%} |")
            print(lines[-1], flush=True)
    return lines


def main() -> None:
    head = ["| what | shape | method | data sets | coverage |", "|---|---|---|---:|---:|"]
    table = "\n".join(head + [line for shape in SHAPES for line in rows_of(shape)])
    page = PAGE.read_text(encoding="utf-8")
    start, end = page.index(_BEGIN) + len(_BEGIN), page.index(_END)
    PAGE.write_text(f"{page[:start]}\n\n{table}\n\n{page[end:]}", encoding="utf-8")


if __name__ == "__main__":
    main()

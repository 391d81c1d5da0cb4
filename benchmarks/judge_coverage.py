"""`python -m benchmarks.judge_coverage`: how often corrected means' intervals hold the truth.

Prints the table of docs/judges.md and writes it there.
"""

from __future__ import annotations

import re
from pathlib import Path

from tests.statistics.correction_shapes import SHAPES, Shape, coverage

PAGE = Path(__file__).resolve().parents[1] / "docs" / "judges.md"
DATASETS = 4000
_BEGIN, _END = "<!-- coverage: python -m benchmarks.judge_coverage -->", "<!-- end of coverage -->"


def row_of(shape: Shape) -> str:
    """What a row of the table begins with."""
    return f"| {shape.name} | {shape.rated} | {shape.records:,} | {shape.method} |"


def main() -> None:
    lines = [
        "| judge | rated by people | judged | method | coverage | as judged | mean width |",
        "|---|---:|---:|---|---:|---:|---:|",
    ]
    for shape in SHAPES:
        found = coverage(shape, DATASETS)
        figures = f"{found.covered:.1%} | {found.plain:.1%} | {found.width:.3f}"
        lines.append(f"{row_of(shape)} {figures} |")
        print(lines[-1], flush=True)
    table = "\n".join(lines)
    page = PAGE.read_text(encoding="utf-8")
    found_page = re.sub(
        f"{re.escape(_BEGIN)}.*?{re.escape(_END)}",
        lambda _: f"{_BEGIN}\n{table}\n{_END}",
        page,
        flags=re.DOTALL,
    )
    PAGE.write_text(found_page, encoding="utf-8")


if __name__ == "__main__":
    main()

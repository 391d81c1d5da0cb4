"""`python -m benchmarks.bootstrap_coverage`: how often intervals of --resamples hold the truth.

Prints the table of docs/intervals.md and writes it there.
"""

from __future__ import annotations

from argparse import ArgumentParser

from benchmarks.coverage import PAGE
from tests.bootstrap_shapes import RESAMPLES, coverage, one_of_each

BEGIN = "<!-- bootstrap: python -m benchmarks.bootstrap_coverage -->"
END = "<!-- end of bootstrap -->"


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--datasets", type=int, default=400, help="data sets per shape")
    datasets = parser.parse_args().datasets
    lines = [
        f"{datasets:,} data sets per shape, {RESAMPLES:,} resamples each.",
        "",
        "| metric | shape | coverage | mean width | resampled |",
        "|---|---|---:|---:|---:|",
    ]
    for shape in one_of_each():
        found = coverage(shape, datasets)
        lines.append(
            f"| `{shape.metric}` | {shape.name} | {found.covered:.1%} | {found.width:.3g} "
            f"| {found.resampled:.0%} |"
        )
        print(lines[-1], flush=True)
    before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
    table = "\n".join(lines)
    PAGE.write_text(f"{before}{BEGIN}\n\n{table}\n\n{END}{rest.partition(END)[2]}", "utf-8")


if __name__ == "__main__":
    main()

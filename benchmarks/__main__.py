"""`python -m benchmarks`: measure, print the table, exit with 1 where a bar is missed.

With `--write` the figures are kept in benchmarks/measured.json, and the pages of docs/ follow.

Commands and their peers are processes that take turns, imports on the clock; the best round of each
counts. `--rows 100000` is a tenth of all sizes, for a first look.
"""

from __future__ import annotations

import json
import os
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.catalogue import BENCHMARKS
from benchmarks.figures import Cost, Figure, table
from benchmarks.page import store
from benchmarks.processes import FULL_ROWS, Setup

BUSY = 0.5  # processes at work per core, before we begin


def main() -> int:
    arguments = _arguments()
    with TemporaryDirectory(prefix="calipers-benchmarks-") as temporary:
        folder: Path = arguments.data or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        setup = Setup(folder, arguments.rows, arguments.rounds)
        figures: list[Figure | Cost] = []
        _warn_if_busy()
        for name in arguments.only or BENCHMARKS:
            print(name, file=sys.stderr)
            load = os.getloadavg()[0]
            found = list(BENCHMARKS[name].measure(setup))
            figures += found
            if arguments.write and found:
                store(name, setup, found, load)
    print(f"{setup.rows:,} records, the best of {setup.rounds} rounds by turns\n")
    print(table(figures))
    if not setup.is_full:
        print(f"\nIn parentheses: the bar is set for {FULL_ROWS:,} records.")
    if arguments.json:
        report = {
            "rows": setup.rows,
            "rounds": setup.rounds,
            "figures": [figure.to_dict() for figure in figures],
        }
        arguments.json.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", "utf-8")
    return int(any(figure.is_missed for figure in figures))


def _warn_if_busy() -> None:
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    if load > BUSY * cores:
        print(
            f"note: the machine is busy (load {load:.1f} on {cores} cores), "
            "which costs those most that use all cores",
            file=sys.stderr,
        )


def _arguments() -> Namespace:
    parser = ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--rows", type=int, help=f"records to score (default {FULL_ROWS:,})")
    parser.add_argument("--rounds", type=int, help="rounds, of which the best counts (default 2)")
    parser.add_argument("--quick", action="store_true", help="10,000 records, 1 round")
    parser.add_argument(
        "--only", action="append", choices=BENCHMARKS, help="only this one (repeatable)"
    )
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="keep the records there")
    parser.add_argument(
        "--write", action="store_true", help="write the figures into docs/benchmarks.md"
    )
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the figures to a file")
    arguments = parser.parse_args()
    arguments.rows = arguments.rows or (10_000 if arguments.quick else FULL_ROWS)
    arguments.rounds = arguments.rounds or (1 if arguments.quick else 2)
    return arguments


if __name__ == "__main__":
    sys.exit(main())

"""Answer every task with both solvers and write one JSON record per line.

python answer_tasks.py [-o records.jsonl] [--runs 3]
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from solver import careful, hasty

TASKS = Path(__file__).with_name("tasks.jsonl")


def records(runs: int) -> Iterator[dict[str, Any]]:
    """Yield a record for each task, solver and run; runs count from 1."""
    tasks = [json.loads(line) for line in TASKS.read_text(encoding="utf-8").splitlines()]
    for solver in (careful, hasty):
        for task in tasks:
            for run in range(1, runs + 1):
                record = {**task, "model": solver.__name__, "run": run}
                begin = time.perf_counter()
                answered = solver(record)
                latency_ms = (time.perf_counter() - begin) * 1000
                yield {**record, **answered, "latency_ms": round(latency_ms, 4)}


def main() -> None:
    """Read the options, write the records."""
    parser = argparse.ArgumentParser(description="Answer the tasks with both solvers.")
    parser.add_argument("-o", "--output", type=Path, help="file to write; default: stdout")
    parser.add_argument("--runs", type=int, default=3, help="runs per task and solver")
    options = parser.parse_args()
    lines = "".join(json.dumps(record) + "\n" for record in records(options.runs))
    if options.output:
        options.output.write_text(lines, encoding="utf-8")
    else:
        sys.stdout.write(lines)


if __name__ == "__main__":
    main()

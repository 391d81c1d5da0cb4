"""The page that works out what a billion records take, from measured rates."""

from __future__ import annotations

from typing import Any

ROWS = 1_000_000_000
_CORES = (2, 16, 64)


def write_billion(entries: dict[str, Any]) -> str:
    """Return the page; what it rests on was measured with the growth and cluster benchmarks."""
    largest = [each for each in entries["growth"]["figures"] if each["unit"] == "s"][-1]
    rows = int(largest["name"].split()[1].replace(",", ""))
    rate = largest["value"] / rows  # processor seconds a row
    hours = rate * ROWS / 3600
    lines = [
        _HEAD,
        f"Measured: {rows:,} rows of Parquet, all metrics with intervals, took",
        f"{largest['value']:.1f} s of processor time ({largest['detail']}), so",
        f"{rate * 1e6:.2f} µs a row. [Growth](benchmarks.md#growth) is linear.\n",
        "| cores | at that rate | with half of the cores' time lost to waiting |",
        "|---:|---:|---:|",
        *(f"| {cores} | {_show(hours / cores)} | {_show(2 * hours / cores)} |" for cores in _CORES),
        "",
        f"In all that is {hours:.1f} core-hours.\n",
        *_cluster(entries),
        _TAIL,
    ]
    return "\n".join(lines)


def _cluster(entries: dict[str, Any]) -> list[str]:
    """Return what the Spark benchmark says of a worker's work, where it was measured."""
    if "cluster" not in entries:
        return []
    rows = [
        f"| {each['name']} | {each['value']:.3g} {each['unit']} | {each['detail']} |"
        for each in entries["cluster"]["figures"]
    ]
    return [
        "## On Spark\n",
        "Executors run the same code over their part of the rows and send totals to the driver.",
        "What was measured on a standalone cluster:\n",
        "| figure | measured | detail |\n|---|---:|---|",
        *rows,
        "",
    ]


def _show(hours: float) -> str:
    return f"{hours:.1f} h" if hours >= 1 else f"{hours * 60:.0f} min"


_HEAD = """\
# A billion records

Whether a log of that size is within reach can be worked out: the work per row is measured, and it
stays the same as the rows grow. `make bench` writes this page from [its figures](benchmarks.md).
"""
_TAIL = """\
## What does not grow with the rows

Rows are read in blocks, and each block is reduced to totals per group: counts, sums and products.
The memory of one process stays below 2 GB, at ten million rows as at one million.

## What grows with the tasks

Intervals that allow for repeated runs of a task need the totals of each task, and medians,
quantiles and answer counts need the values. These are kept per task and group. A billion records
with one run per task are a billion tasks, whose totals Spark shuffles and a single machine has to
hold; where tasks are few and runs are many, the number of tasks decides.

## What to do on one machine

- Convert once: `calipers convert LOGS… -o records.parquet`; Parquet is read by column and takes a
  fraction of the time of JSON lines.
- Name what you need: `--metric accuracy --metric latency_p95_ms` reads these columns alone.
- Score the days or shards apart where the question is about each of them: `--by day`.
"""

"""The page that works out what a billion records take of each command, from measured costs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks.commands import BREADTHS, COMMANDS

ROWS = 1_000_000_000
MEMORY_GB = 64  # of the machine that the page reckons with
CORES = 16
_MILLION = 1_000_000
_ENOUGH = 10 * _MILLION  # rows, to say what breaks
_FLAT_MB = 10  # more per million rows, and memory is what breaks first

Entry = dict[str, Any]


def write_billion(entries: dict[str, Entry]) -> str:
    """Return the page; it rests on the benchmarks `commands`, `things` and `spark`."""
    sizes = sorted({cost["size"] for cost in entries["commands"]["costs"]})
    few, before, last = (f"{size:,}" for size in (sizes[0], *sizes[-2:]))
    head = _HEAD.format(few=few, before=before, last=last, cores=CORES, memory=MEMORY_GB)
    lines = [head, *_write_commands(entries["commands"]["costs"])]
    if "things" in entries:
        lines += [_THINGS, *_write_things(entries["things"]["costs"])]
    if "spark" in entries:
        lines += [_SPARK, *_write_spark(entries["spark"]["figures"])]
    return "\n".join([*lines, _TAIL])


def _write_commands(costs: list[Entry]) -> Iterator[str]:
    yield (
        f"| command | per 10⁶ rows | at the most rows | 10⁹ rows, {CORES} cores | "
        "what breaks first | what to do |"
    )
    yield "|---|---:|---:|---:|---|---|"
    for name, command in COMMANDS.items():
        own = sorted((c for c in costs if c["command"] == name), key=lambda cost: cost["size"])
        if len(own) > 1:
            yield f"| `{name}` | {' | '.join(_describe(own))} | {command.advice} |"
    yield ""


def _describe(costs: list[Entry]) -> Iterator[str]:
    """Yield the cells of a command: its rates between the last two sizes, and their consequence."""
    done = [cost for cost in costs if cost["finished"]]
    *_, before, last = done
    rows = (last["size"] - before["size"]) / _MILLION
    seconds = (last["cpu_seconds"] - before["cpu_seconds"]) / rows
    memory = max((last["peak_mb"] - before["peak_mb"]) / rows, 0.0)
    yield f"{seconds:.2f} s, {memory:,.0f} MB"
    largest = costs[-1]
    if not largest["finished"]:
        yield f"not within {largest['cpu_seconds']:.0f} s, {largest['peak_mb']:,.0f} MB then"
        yield "—"
        yield f"time: {last['size']:,} rows took {last['cpu_seconds']:.1f} s"
        return
    yield f"{last['cpu_seconds']:.1f} s, {last['peak_mb']:,.0f} MB"
    if last["size"] < _ENOUGH:  # blocks and buffers still fill up: their slope says nothing
        yield "—"
        yield "measured with too few rows to say"
        return
    fits = (MEMORY_GB * 1000 - last["peak_mb"]) / max(memory, 1e-9) * _MILLION + last["size"]
    hours = seconds * ROWS / _MILLION / 3600
    if memory > _FLAT_MB and fits < ROWS:
        yield "—"
        yield f"memory: {MEMORY_GB} GB are full at about {_round(fits)} rows"
    else:
        in_all = last["peak_mb"] + memory * (ROWS - last["size"]) / _MILLION
        yield f"{_show_hours(hours / CORES)}, {in_all / 1000:,.1f} GB"
        yield f"nothing: {hours:.1f} core-hours"


def _round(rows: float) -> str:
    digits = len(str(int(rows))) - 2
    return f"{round(rows, -digits):,.0f}"


def _show_hours(hours: float) -> str:
    return f"{hours:.1f} h" if hours >= 1 else f"{hours * 60:.0f} min"


def _write_things(costs: list[Entry]) -> Iterator[str]:
    yield "| command | from | to | grows as | what to do |\n|---|---|---|---|---|"
    for breadth in BREADTHS:
        own = [
            cost
            for cost in costs
            if (cost["command"], cost["over"]) == (breadth.command, breadth.over)
        ]
        if len(own) < 2:
            continue
        before, last = own[-2:]
        shown = (f"{cost['size']:,} {cost['over']}: {_show_cost(cost)}" for cost in (before, last))
        times = last["size"] / before["size"]
        growth = last["cpu_seconds"] / before["cpu_seconds"]
        word = f"{growth:.1f} times for {times:,.0f} times" if last["finished"] else "too much"
        yield (
            f"| `{breadth.command}`, {breadth.detail} | {' | '.join(shown)} | {word} | "
            f"{breadth.advice} |"
        )
    yield ""


def _show_cost(cost: Entry) -> str:
    if not cost["finished"]:
        return f"not within {cost['cpu_seconds']:.0f} s, {cost['peak_mb']:,.0f} MB then"
    return f"{cost['cpu_seconds']:.2f} s, {cost['peak_mb']:,.0f} MB"


def _write_spark(figures: list[Entry]) -> Iterator[str]:
    yield "| figure | measured | detail |\n|---|---:|---|"
    for each in figures:
        value = "failed" if each["value"] is None else f"{each['value']:.3g} {each['unit']}"
        yield f"| {each['name']} | {value} | {each['detail']} |"
    yield ""


_HEAD = """\
# A billion records

What a log of that size takes can be worked out, command by command: each is measured as a process
at {few} to {last} rows, and what further rows add from {before} to {last} is carried on to
1,000,000,000. Time is of processors; {cores} cores are taken to be as busy as they can be, and the
machine to have {memory} GB. `make bench` writes this page from [its figures](benchmarks.md).
"""
_THINGS = """\
## Many things

Rows are one way to be large; groups, categories, systems and rules are others.
"""
_SPARK = """\
## On Spark

Executors run the same code over their part of the rows and send totals to the driver. Start-up is
apart: what counts per row is the difference between two sizes.
"""
_TAIL = """\
## Why rows are cheap, and what is not

Rows are read in blocks, and each block is reduced to totals per group: counts, sums and products.
Intervals that allow for repeated runs of a task need the totals of each task, and medians,
quantiles and answer counts need the values: these are kept as narrow columns, in memory while they
are small, otherwise in temporary files. What pairs tasks (`compare`, `rank`, `power`) holds a value
per task, system and metric in memory.

Totals and results of many groups are columns too: 100,000 groups take about 0.1 ms and 5 kB each
beyond their rows, most of it for the JSON, which has 6.6 kB a group. Profiles, resampling and
judged records make an object per group and metric instead, about a millisecond a group.

Convert once: `calipers convert LOGS… -o records.parquet`; Parquet is read by column and takes a
fraction of the time of JSON lines.
"""

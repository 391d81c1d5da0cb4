"""What was measured, kept in benchmarks/measured.json, and the pages of docs/ written from it.

A benchmark that is run again replaces its own figures and leaves the others, so each entry says
when it was measured, on what machine and at what load.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from itertools import groupby
from pathlib import Path
from typing import Any

from benchmarks.billion import write_billion
from benchmarks.catalogue import BENCHMARKS
from benchmarks.figures import TIMES, Cost, Figure
from benchmarks.growth import draw_growth
from benchmarks.processes import ROOT, Setup

MEASURED = Path(__file__).with_name("measured.json")
PAGE = ROOT / "docs" / "benchmarks.md"
BILLION = ROOT / "docs" / "billion.md"
GROWTH = ROOT / "docs" / "figures" / "growth.svg"

Entry = dict[str, Any]
_PEERS = (
    *("polars", "duckdb", "numpy", "scipy", "scikit-learn", "networkx", "pyspark", "torch"),
    *("torchmetrics", "inspect-ai"),
)
_HEAD = """\
# Benchmarks

`make bench` measures these figures and writes this page. Every command is measured as a process,
from its start to its end with all imports; its peers likewise, by turns in the same run, the best
round of each. Time is processor time unless it says otherwise: it does not depend on what else the
machine does. The bars are our own goals; a figure that misses its bar is shown as missed.
`python -m benchmarks --write --only NAME` measures one part again and keeps the others.

The workload is generated, in no order, and no text repeats.
[A billion records](billion.md) works out from these figures what that many would take.
"""


def store(name: str, setup: Setup, found: list[Figure | Cost], load: float) -> None:
    """Put the figures of a benchmark in place of its old ones, and write the pages again."""
    entries = read_measured()
    entries[name] = {
        "date": datetime.now(UTC).date().isoformat(),
        "rows": setup.rows,
        "rounds": setup.rounds,
        "load": round(load, 1),
        "machine": _describe_machine(),
        "versions": dict(_list_versions()),
        "figures": [each.to_dict() for each in found if isinstance(each, Figure)],
        "costs": [each.to_dict() for each in found if isinstance(each, Cost)],
    }
    ordered = {each: entries[each] for each in BENCHMARKS if each in entries}
    MEASURED.write_text(json.dumps(ordered, indent=1, ensure_ascii=False) + "\n", "utf-8")
    write_pages()


def read_measured() -> dict[str, Entry]:
    """Return the entries by the name of their benchmark; none where nothing was measured yet."""
    if not MEASURED.exists():
        return {}
    entries: dict[str, Entry] = json.loads(MEASURED.read_text("utf-8"))
    return entries


def write_pages() -> None:
    """Write the pages and the picture from what is kept."""
    for path, text in render_pages(read_measured()).items():
        path.write_text(text, "utf-8")


def render_pages(entries: dict[str, Entry]) -> dict[Path, str]:
    """Return the text of each file that the measurements give."""
    pages = {PAGE: "\n".join((_HEAD, *_write_sections(entries)))}
    if "commands" in entries:
        pages[GROWTH] = draw_growth(entries["commands"]["costs"])
        pages[BILLION] = write_billion(entries)
    return pages


def _write_sections(entries: dict[str, Entry]) -> Iterator[str]:
    shown = [name for name in BENCHMARKS if name in entries]
    for heading, names in groupby(shown, lambda name: BENCHMARKS[name].heading):
        yield f"## {heading}\n"
        if heading == BENCHMARKS["commands"].heading:
            yield "![Processor seconds over rows](figures/growth.svg)\n"
        for name in names:
            yield from _write_tables(name, entries[name])


def _write_tables(name: str, entry: Entry) -> Iterator[str]:
    if remark := BENCHMARKS[name].remark:
        yield remark + "\n"
    for over, costs in groupby(entry["costs"], lambda cost: str(cost["over"])):
        yield from write_costs(over, costs)
    if entry["figures"]:
        yield "| figure | measured | bar | | detail |\n|---|---:|---:|---|---|"
    for each in entry["figures"]:
        bar = each["bar"] or ""
        yield f"| {each['name']} | {_show(each)} | {bar} | {_word(each)} | {each['detail']} |"
    versions = ", ".join(f"{package} {number}" for package, number in entry["versions"].items())
    yield (
        f"\n`--only {name}`, {entry['date']}: {entry['rows']:,} rows, the best of "
        f"{entry['rounds']}; {entry['machine']}, load {entry['load']} at the start; {versions}.\n"
    )


def write_costs(over: str, costs: Iterable[Entry]) -> Iterator[str]:
    """Yield the lines of a table of commands by size: processor time and peak memory."""
    cells: dict[str, dict[int, Entry]] = {}
    for cost in costs:
        cells.setdefault(cost["command"], {})[cost["size"]] = cost
    sizes = sorted({size for each in cells.values() for size in each})
    yield f"| processor time, peak memory | {' | '.join(f'{size:,} {over}' for size in sizes)} |"
    yield f"|---|{'---:|' * len(sizes)}"
    for command, by_size in cells.items():
        shown = (show_cost(by_size.get(size)) for size in sizes)
        yield f"| {command} | {' | '.join(shown)} |"
    yield ""


def show_cost(cost: Entry | None) -> str:
    """Return a cell: what a command took, or that it was ended."""
    if cost is None:
        return ""
    if not cost["finished"]:
        return f"not within {cost['cpu_seconds']:.0f} s; {cost['peak_mb']:,.0f} MB then"
    digits = ".2f" if cost["cpu_seconds"] < 10 else ".1f"
    return f"{cost['cpu_seconds']:{digits}} s, {cost['peak_mb']:,.0f} MB"


def _word(figure: Entry) -> str:
    verdict: str = figure["verdict"]
    return {"pass": "reached", "miss": "**missed**", "report": ""}.get(verdict, verdict)


def _show(figure: Entry) -> str:
    value = figure["value"]
    if value is None:
        return "not measured"
    digits = ".3g" if abs(value) < 100 else ",.0f"
    unit = figure["unit"]
    return f"{value:{digits}}{'' if unit == TIMES else ' '}{unit}".rstrip()


def _describe_machine() -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{os.cpu_count()} cores, {memory:.0f} GiB, {platform.machine()}"


def _list_versions() -> Iterator[tuple[str, str]]:
    yield "Python", platform.python_version()
    yield "calipers", version("calipers")
    for package in _PEERS:
        try:
            yield package, version(package)
        except PackageNotFoundError:
            continue

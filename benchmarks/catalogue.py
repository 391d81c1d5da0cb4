"""The benchmarks, in the order in which they are run and shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from benchmarks.cluster import measure_cluster
from benchmarks.commands import measure_breadths, measure_rows
from benchmarks.figures import Cost, Figure
from benchmarks.logs import measure_logs
from benchmarks.processes import Setup
from benchmarks.running import measure_calls, measure_running
from benchmarks.semantic import of_semantic
from benchmarks.starting import measure_starting
from benchmarks.texts import measure_similarity, measure_texts, measure_traces
from benchmarks.viewing import of_viewing


@dataclass(frozen=True)
class Benchmark:
    """What is measured, under which heading of the page, and a remark for its reader."""

    measure: Callable[[Setup], Iterator[Figure | Cost]]
    heading: str
    remark: str = ""


def _measure_anchors(setup: Setup) -> Iterator[Figure]:
    from benchmarks.anchors import of_anchors  # noqa: PLC0415 (NumPy: this process stays small)

    return of_anchors(setup)


BENCHMARKS = {
    "starting": Benchmark(measure_starting, "Starting"),
    "commands": Benchmark(
        measure_rows,
        "Commands over rows",
        "Shuffled records of four models without long texts, as Parquet (`convert`: as JSON lines; "
        "`compare` and `power`: half of the rows a side). By hand means without intervals, without "
        "tests, without clusters of repeated runs, and without a check of what is read.",
    ),
    "things": Benchmark(measure_breadths, "Groups, categories, systems, rules"),
    "spark": Benchmark(
        measure_cluster,
        "Spark",
        "A standalone cluster of separate processes, one round: two workers of one core, a driver. "
        "By the clock, executors beyond the machine's cores add nothing.",
    ),
    "texts": Benchmark(
        measure_texts,
        "Texts",
        "JSON lines, with and without the native library, which a package lacks that was built "
        "without Rust.",
    ),
    "traces": Benchmark(measure_traces, "Texts"),
    "similarity": Benchmark(measure_similarity, "Texts"),
    "semantic": Benchmark(
        of_semantic, "Texts", "[Similarity](similarity.md) has the figures on a GPU."
    ),
    "logs": Benchmark(
        measure_logs,
        "Logs of other tools",
        "Samples as `inspect eval` writes them. Plain Python's reader computes the accuracy alone.",
    ),
    "run": Benchmark(
        measure_running,
        "Running suites",
        "The limit is what the calls take by themselves: their number times their latency, divided "
        "by the connections. Measured without the report page, which Inspect does not write.",
    ),
    "calls": Benchmark(measure_calls, "Running suites"),
    "view": Benchmark(of_viewing, "Dashboard"),
    "anchors": Benchmark(
        _measure_anchors,
        "Intervals beside those of other tools",
        "Few data sets a cell: coverage is known to ± 0.05 here. "
        "[Intervals](intervals.md) has the tables with many.",
    ),
}

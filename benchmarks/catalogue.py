"""The benchmarks, in the order in which they are run and shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from benchmarks.anchors import of_anchors
from benchmarks.calls import measure_calls
from benchmarks.cluster import measure_cluster
from benchmarks.columns import measure_parquet
from benchmarks.comparing import measure_comparing
from benchmarks.equations import of_equations
from benchmarks.evidence import of_intervals, of_resampling
from benchmarks.figures import Figure
from benchmarks.growth import measure_growth
from benchmarks.logs import measure_large_logs, of_logs
from benchmarks.memory import of_ten_times_the_rows
from benchmarks.reporting import measure_report
from benchmarks.running import of_running, of_running_longer
from benchmarks.scoring import against_python, against_reading, of_repeats
from benchmarks.semantic import of_semantic
from benchmarks.similarity import of_similarity
from benchmarks.small_work import measure_small_work
from benchmarks.startup import of_help
from benchmarks.tiers import of_tiers
from benchmarks.traces import of_traces
from benchmarks.viewing import of_viewing
from benchmarks.workload import Setup


@dataclass(frozen=True)
class Benchmark:
    """What is measured, under which heading of the page, and a remark for its reader."""

    measure: Callable[[Setup], Iterator[Figure]]
    heading: str
    remark: str = ""


BENCHMARKS = {
    "startup": Benchmark(of_help, "Starting"),
    "small": Benchmark(measure_small_work, "Starting"),
    "read": Benchmark(against_reading, "Scoring"),
    "python": Benchmark(against_python, "Scoring"),
    "parquet": Benchmark(
        measure_parquet,
        "Scoring",
        "By hand means eleven numbers per model, without intervals, without clusters of repeated "
        "runs, and without a check of what is read.",
    ),
    "growth": Benchmark(measure_growth, "Growth"),
    "memory": Benchmark(of_ten_times_the_rows, "Growth"),
    "cluster": Benchmark(
        measure_cluster,
        "Spark",
        "A standalone cluster of separate processes, one round. By the clock, executors beyond the "
        "machine's cores add nothing; the busiest executor's processor time bounds a real cluster.",
    ),
    "equations": Benchmark(
        of_equations,
        "Equations",
        "With and without `math_usr`, which reads every chain of thought. The real texts are GSM8K "
        "chains, repeated. Where Rust is missing, the package is built without the library.",
    ),
    "repeats": Benchmark(of_repeats, "Intervals"),
    "bootstrap": Benchmark(of_resampling, "Intervals"),
    "intervals": Benchmark(of_intervals, "Intervals"),
    "compare": Benchmark(measure_comparing, "Comparing"),
    "tiers": Benchmark(
        of_tiers,
        "Tiers",
        "By hand are the statistics alone, in Polars with all rows in memory: no intervals, tests, "
        "grades or frontier. Reading the columns is the floor, not a peer.",
    ),
    "logs": Benchmark(of_logs, "Logs of other tools"),
    "large-logs": Benchmark(
        measure_large_logs,
        "Logs of other tools",
        "Samples as `inspect eval` writes them. The peer is Python's `zipfile` (the one that knows "
        "zstd) with `json.loads` of every sample, and computes nothing but the accuracy.",
    ),
    "similarity": Benchmark(of_similarity, "Texts and traces"),
    "semantic": Benchmark(
        of_semantic,
        "Texts and traces",
        "[Similarity](similarity.md) has the figures on a GPU.",
    ),
    "traces": Benchmark(of_traces, "Texts and traces"),
    "run": Benchmark(
        of_running,
        "Running suites",
        "The limit is what the calls take by themselves: their number times their latency, divided "
        "by the connections. Measured without the report page, which Inspect does not write.",
    ),
    "run-memory": Benchmark(of_running_longer, "Running suites"),
    "calls": Benchmark(measure_calls, "Running suites"),
    "report": Benchmark(measure_report, "Report and dashboard"),
    "view": Benchmark(of_viewing, "Report and dashboard"),
    "anchors": Benchmark(
        of_anchors,
        "Intervals beside those of other tools",
        "Few data sets a cell: coverage is known to ± 0.05 here. "
        "[Intervals](intervals.md) has the tables with many.",
    ),
}

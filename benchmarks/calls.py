"""What `calipers run` costs beside the calls: its processor time per call."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.contest import by_turns, contestant
from benchmarks.figures import Bar, Figure
from benchmarks.running import open_server, write_suite
from benchmarks.workload import Setup

CALLS, CONNECTIONS, LATENCY = 100_000, 500, 0.005
WORK_MS = Bar(0.35)


def measure_calls(setup: Setup) -> Iterator[Figure]:
    """Make many short calls over many connections, of a server in a process of its own."""
    calls = CALLS * setup.rows // 1_000_000
    with open_server(LATENCY) as url:
        suite = write_suite(setup.folder, url, calls, CONNECTIONS)
        ours = by_turns(1, calipers=contestant("run", suite))["calipers"]
    yield Figure(
        name=f"calipers run: processor time per call, {calls:,} calls of 5 ms over {CONNECTIONS}",
        value=ours.cpu_seconds / calls * 1000,
        unit="ms",
        bar=WORK_MS,
        binding=setup.is_full,
        detail=f"{ours.seconds:.1f} s by the clock, scoring included; "
        f"peak memory {ours.peak_bytes / 1e6:,.0f} MB",
    )

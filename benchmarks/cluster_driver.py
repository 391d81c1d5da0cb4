"""The program that is measured on a cluster: `python -m benchmarks.cluster_driver FILE SESSION…`.

Once every worker has an executor, it scores the file twice with `--engine spark`, and prints as
JSON what each time took: by the clock, and of processors in each worker's session of processes and
its own.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

_TICKS = os.sysconf("SC_CLK_TCK")
_PATIENCE_S = 60.0


def measure_processes(session: int) -> dict[str, float]:
    """Return the processor seconds of a session's processes so far, by program."""
    found = {"JVM": 0.0, "Python": 0.0}
    for each in Path("/proc").iterdir():
        try:
            stat = (each / "stat").read_text() if each.name.isdecimal() else ""
        except OSError:  # it ended meanwhile
            continue
        name, closed, rest = stat.rpartition(") ")
        values = rest.split()
        if closed and int(values[3]) == session:
            is_java = name.partition("(")[2] == "java"
            ticks = sum(map(int, values[11:15]))  # its own, and those of children that ended
            found["JVM" if is_java else "Python"] += ticks / _TICKS
    return found


def main() -> None:
    path, *given = sys.argv[1:]
    workers = [int(each) for each in given]
    from calipers.engines.spark.session import start_session  # noqa: PLC0415 (off the clock)
    from calipers.scores.score import score  # noqa: PLC0415

    context = start_session().sparkContext
    store = context._jsc.sc().statusStore()  # noqa: SLF001 (no public way tells so much)
    _wait_for_executors(store, len(workers))
    sessions = [*workers, os.getsid(0)]
    report: dict[str, Any] = {}
    for name in ("first", "again"):  # Java compiles its code during the first
        context.setJobGroup(name, "")
        before = [measure_processes(each) for each in sessions]
        started = time.perf_counter()
        measured = score(path, by="model", engine="spark")
        seconds = time.perf_counter() - started
        after = [measure_processes(each) for each in sessions]
        *executors, driver = (
            {program: late[program] - early[program] for program in late}
            for early, late in zip(before, after, strict=True)
        )
        report[name] = {
            "seconds": seconds,
            "executors": executors,
            "driver": driver,
            "jobs": len(context.statusTracker().getJobIdsForGroup(name)),
            "shuffled": _count_shuffled(store) - sum(each["shuffled"] for each in report.values()),
        }
    report["values"] = {
        group.by["model"]: {name: each.value for name, each in group.metrics.items()}
        for group in measured.groups
    }
    json.dump(report, sys.stdout)


def _count_shuffled(store: Any) -> int:
    """Return how many bytes have been shuffled so far."""
    executors = store.executorList(False)  # noqa: FBT003 (it is Java's)
    return sum(executors.apply(n).totalShuffleWrite() for n in range(executors.size()))


def _wait_for_executors(store: Any, count: int) -> None:
    until = time.monotonic() + _PATIENCE_S
    while store.executorList(True).size() <= count:  # noqa: FBT003 (one more: the driver is listed)
        if time.monotonic() > until:
            raise SystemExit(f"{count} executors did not start within {_PATIENCE_S:.0f} s")
        time.sleep(0.2)


if __name__ == "__main__":
    main()

"""What is measured on a cluster: `python -m benchmarks.cluster_driver JOBS REPORT SESSION…`.

Once every worker has an executor, it runs the jobs one after the other with `--engine spark` in one
session, and writes after each what the jobs so far took: by the clock, and of processors in each
worker's session of processes and its own. `JOBS` is a file: a list of `{"name", "command", "data",
"options"}`.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from threading import Thread
from typing import Any

_TICKS = os.sysconf("SC_CLK_TCK")
_PATIENCE_S = 60.0
_EVERY_S = 2.0


class Processes:
    """The processor seconds of sessions' processes, also of those that have ended meanwhile.

    Spark ends workers that are idle for a minute, and no parent takes over their times.
    """

    def __init__(self, sessions: list[int]) -> None:
        self._seconds: dict[int, dict[tuple[str, int], float]] = {each: {} for each in sessions}
        Thread(target=self._look_often, daemon=True).start()

    def measure(self) -> list[dict[str, float]]:
        """Return the seconds of each session so far, by program."""
        self._look()
        return [
            {
                program: sum(s for (name, _), s in dict(seen).items() if name == program)
                for program in ("JVM", "Python")
            }
            for seen in self._seconds.values()
        ]

    def _look_often(self) -> None:
        while True:
            self._look()
            time.sleep(_EVERY_S)

    def _look(self) -> None:
        for session, seen in self._seconds.items():
            seen.update(_list_processes(session))


def _list_processes(session: int) -> dict[tuple[str, int], float]:
    """Return the processor seconds of a session's processes, by program and id."""
    found: dict[tuple[str, int], float] = {}
    for each in Path("/proc").iterdir():
        try:
            stat = (each / "stat").read_text() if each.name.isdecimal() else ""
        except OSError:  # it ended meanwhile
            continue
        name, closed, rest = stat.rpartition(") ")
        values = rest.split()
        if closed and int(values[3]) == session:
            is_java = name.partition("(")[2] == "java"
            ticks = sum(map(int, values[11:13]))
            found["JVM" if is_java else "Python", int(each.name)] = ticks / _TICKS
    return found


def main() -> None:
    """Run the jobs and write what they took."""
    path, report, *given = sys.argv[1:]
    workers = [int(each) for each in given]
    import calipers as cal  # noqa: PLC0415 (off the clock)
    from calipers.engines.spark.session import start_session  # noqa: PLC0415

    context = start_session().sparkContext
    store = context._jsc.sc().statusStore()  # noqa: SLF001 (no public way tells so much)
    _wait_for_executors(store, len(workers))
    processes = Processes([*workers, os.getsid(0)])
    reports: dict[str, Any] = {}
    for job in json.loads(Path(path).read_text("utf-8")):
        context.setJobGroup(job["name"], "")
        shuffled = _count_shuffled(store)
        before = processes.measure()
        started = time.perf_counter()
        try:
            made = getattr(cal, job["command"])(*job["data"], **job["options"], engine="spark")
        except cal.CalipersError as error:  # the other jobs are measured all the same
            reports[job["name"]] = {"failed": str(error).splitlines()[0]}
            continue
        seconds = time.perf_counter() - started
        after = processes.measure()
        *executors, driver = (
            {program: late[program] - early[program] for program in late}
            for early, late in zip(before, after, strict=True)
        )
        reports[job["name"]] = {
            "seconds": seconds,
            "executors": executors,
            "driver": driver,
            "jobs": len(context.statusTracker().getJobIdsForGroup(job["name"])),
            "shuffled": _count_shuffled(store) - shuffled,
            "values": _list_values(made) if job["command"] == "score" else {},
        }
        print(f"  {job['name']}: {seconds:.1f} s by the clock", file=sys.stderr, flush=True)
        _write(Path(report), reports)
    _write(Path(report), reports)


def _write(path: Path, reports: dict[str, Any]) -> None:
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_text(json.dumps(reports), encoding="utf-8")
    unfinished.rename(path)


def _list_values(score: Any) -> dict[str, dict[str, float | None]]:
    if len(score.groups) > 100:
        return {}
    return {
        " ".join(group.by.values()): {name: each.value for name, each in group.metrics.items()}
        for group in score.groups
    }


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

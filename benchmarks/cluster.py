"""What a Spark cluster takes: a standalone master, and one-core workers as processes of their own.

Where executors are more than the machine's cores they cannot be faster by the clock. So processor
seconds are told as well, and those of the busiest executor, which bound the time on a real cluster.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.request import urlopen

from benchmarks.contest import ROOT, Run, by_turns, contestant, largest_difference
from benchmarks.figures import Bar, Figure
from benchmarks.workload import Setup

WORKERS = (1, 2, 4)
MEASURED_ON = 2  # workers that the bars are set for
CLOCK = Bar(25.0)
JOBS = Bar(10)
SAME = Bar(1e-9)

_HOST = "127.0.0.1"
_START_S, _RUN_S, _END_S = 60.0, 240.0, 20.0
_DEPLOY = "org.apache.spark.deploy"


@dataclass(frozen=True)
class ClusterRun:
    """What scoring on a cluster took."""

    report: dict[str, Any]

    @property
    def executors(self) -> list[float]:
        """The processor seconds of each executor."""
        return [sum(each.values()) for each in self.report["executors"]]

    @property
    def driver(self) -> float:
        """The processor seconds of the driver."""
        return float(sum(self.report["driver"].values()))

    @property
    def detail(self) -> str:
        """The parts of the work in words."""
        parts = {
            name: sum(each.get(name, 0.0) for each in self.report["executors"])
            for name in ("JVM", "Python")
        }
        return (
            f"JVM {parts['JVM']:.1f} s, Python {parts['Python']:.1f} s; driver {self.driver:.1f} s "
            f"more; {self.report['seconds']:.1f} s by the clock after the session had started; "
            f"{self.report['jobs']} jobs, {self.report['shuffled'] / 1e6:.0f} MB shuffled"
        )


Runs = tuple[ClusterRun, ClusterRun]  # the first, and another one in the same session


def measure_cluster(setup: Setup) -> Iterator[Figure]:
    """Score a Parquet file by 1, 2 and 4 executors, and here; one round each."""
    from tests.engines_at_hand import why_spark_is_missing  # noqa: PLC0415 (imports pytest)

    if (reason := why_spark_is_missing()) is not None:
        print(f"  skipped: {reason}", file=sys.stderr)
        return
    if not Path("/proc/self/stat").exists():
        print("  skipped: processor time is read from /proc", file=sys.stderr)
        return
    path = setup.file("plain", ".parquet")
    local = by_turns(1, local=contestant("calipers", path))["local"]
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))
    try:  # a cluster is ended with us, whatever ends us
        reports = {workers: run_on_cluster(path, workers) for workers in WORKERS}
    finally:
        signal.signal(signal.SIGTERM, before)
    runs = {
        workers: (ClusterRun(each["first"]), ClusterRun(each["again"]))
        for workers, each in reports.items()
    }
    yield from _list_figures(setup, local, runs)
    yield Figure(
        name="the same: difference of the numbers, Spark - Polars",
        value=max(largest_difference(each["values"], local.values) for each in reports.values()),
        unit="",
        bar=SAME,
    )


def _list_figures(setup: Setup, local: Run, runs: dict[int, Runs]) -> Iterator[Figure]:
    chosen, again = runs[MEASURED_ON]
    what = f"Spark, {setup.rows:,} rows of Parquet, all metrics"
    yield Figure(
        name=f"{what}: {MEASURED_ON} one-core executors, by the clock",
        value=chosen.report["seconds"],
        unit="s",
        bar=CLOCK,
        binding=setup.is_full,
        detail=f"after the session had started; Polars here {local.seconds:.1f} s",
    )
    for workers, (run, _) in runs.items():
        yield Figure(
            name=f"the same: processor time of {workers} executor{'s' if workers > 1 else ''}",
            value=sum(run.executors),
            unit="s",
            detail=run.detail,
        )
    for workers in WORKERS[1:]:
        for number, words in enumerate(("the same", "the same, scored again in the session")):
            alone = max(runs[1][number].executors)
            busiest = max(runs[workers][number].executors)
            yield Figure(
                name=f"{words}: processor time of the busiest executor, 1 / {workers} executors",
                value=alone / busiest,
                detail=f"{alone:.1f} s / {busiest:.1f} s",
            )
    work = sum(chosen.executors) + chosen.driver
    yield Figure(
        name=f"the same: {MEASURED_ON} executors and driver / Polars here, of processors",
        value=work / local.cpu_seconds,
        detail=f"{work:.1f} s / {local.cpu_seconds:.1f} s",
    )
    yield Figure(
        name=f"the same, scored again in the session: {MEASURED_ON} executors",
        value=sum(again.executors),
        unit="s",
        detail=again.detail,
    )
    yield Figure(name="the same: jobs", value=chosen.report["jobs"], unit="", bar=JOBS)


def run_on_cluster(path: Path, workers: int) -> dict[str, Any]:
    """Start a cluster, score the file on it twice, and end all its processes."""
    with (
        TemporaryDirectory(prefix="calipers-cluster-") as name,
        _start_cluster(Path(name), workers) as (master, sessions),
    ):
        command = [sys.executable, "-m", "benchmarks.cluster_driver", str(path)]
        command += map(str, sessions)
        arguments = f"--master {master} --executor-memory 1g pyspark-shell"
        with _start(command, Path(name, "driver"), PYSPARK_SUBMIT_ARGS=arguments) as driver:
            _wait_for_end(driver, Path(name, "driver.log"))
        report: dict[str, Any] = json.loads(Path(name, "driver.out").read_text("utf-8"))
    seconds = [report[each]["seconds"] for each in ("first", "again")]
    print(f"  {workers} executors: {seconds[0]:.1f} s, then {seconds[1]:.1f} s", file=sys.stderr)
    return report


@contextmanager
def _start_cluster(folder: Path, workers: int) -> Iterator[tuple[str, list[int]]]:
    found = find_spec("pyspark")
    assert found is not None
    assert found.origin is not None
    spark_class = str(Path(found.origin).parent / "bin" / "spark-class")
    port, page = _find_port(), _find_port()
    master = f"spark://{_HOST}:{port}"
    head = [spark_class, f"{_DEPLOY}.master.Master", "--host", _HOST, "--port", str(port)]
    head += ["--webui-port", str(page)]
    hand = [spark_class, f"{_DEPLOY}.worker.Worker", "--host", _HOST, "--cores", "1"]
    hand += ["--memory", "2g", "--webui-port", "0"]
    with ExitStack() as started:
        started.enter_context(_start(head, folder / "master"))
        processes = [
            started.enter_context(_start([*hand, "--work-dir", str(place), master], place))
            for place in (folder / f"worker-{number}" for number in range(workers))
        ]
        _wait_for_workers(page, workers)
        yield master, [process.pid for process in processes]


@contextmanager
def _start(
    command: list[str], place: Path, **environment: str
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command in a session of its own, and end all processes of the session."""
    given = {**os.environ, "SPARK_LOCAL_IP": _HOST, "SPARK_DAEMON_MEMORY": "256m", **environment}
    with (
        place.with_name(f"{place.name}.out").open("wb") as out,
        place.with_name(f"{place.name}.log").open("wb") as log,
    ):
        process = subprocess.Popen(
            command, cwd=ROOT, stdout=out, stderr=log, env=given, start_new_session=True
        )
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=_END_S)
            _end_session(process.pid)
            process.wait()


def _end_session(session: int) -> None:
    """Kill what is left of a session: executors, and their Python workers."""
    for each in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            if each.name.isdecimal() and os.getsid(int(each.name)) == session:
                os.kill(int(each.name), signal.SIGKILL)


def _wait_for_end(driver: subprocess.Popen[bytes], log: Path) -> None:
    try:
        code = driver.wait(timeout=_RUN_S)
    except subprocess.TimeoutExpired:
        raise SystemExit(f"the driver did not end within {_RUN_S:.0f} s") from None
    if code:
        raise SystemExit(f"the driver failed:\n{log.read_text('utf-8', 'replace')[-2000:]}")


def _wait_for_workers(page: int, workers: int) -> None:
    address = f"http://{_HOST}:{page}/json/"
    until = time.monotonic() + _START_S
    while time.monotonic() < until:
        # The page may answer with something else than JSON at first.
        with suppress(OSError, ValueError), urlopen(address, timeout=5) as answer:
            if json.load(answer)["aliveworkers"] == workers:
                return
        time.sleep(0.2)
    raise SystemExit(f"{workers} workers did not start within {_START_S:.0f} s")


def _find_port() -> int:
    with socket.socket() as listener:
        listener.bind((_HOST, 0))
        return int(listener.getsockname()[1])

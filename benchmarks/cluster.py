"""What a Spark cluster takes: a standalone master, and one-core workers as processes of their own.

Processor seconds are what counts: they do not depend on how many cores this machine has. Start-up
is apart: what a row costs is the difference between two sizes in one session.
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
from math import nan
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.request import urlopen

from benchmarks.commands import GATED
from benchmarks.figures import Bar, Figure
from benchmarks.processes import ROOT, Setup, by_turns, calipers, find_largest_difference

WORKERS = 2
LARGE = 10  # times the rows of the workload
GROUPS = 100_000
PER_ROW_US = Bar(3.0)
JOBS = Bar(10)
SAME = Bar(1e-9)

_HOST = "127.0.0.1"
_START_S, _RUN_S, _END_S = 60.0, 1_200.0, 20.0
_LATE = {"failed": f"not reached within {_RUN_S:.0f} s by the clock"}
_DEPLOY = "org.apache.spark.deploy"
_FIRST, _AGAIN, _LARGE = "score, first of the session", "score, again", "score, 10 times the rows"


@dataclass(frozen=True)
class ClusterRun:
    """What a job on a cluster took."""

    seconds: float
    executors: list[dict[str, float]]
    driver: dict[str, float]
    jobs: int
    shuffled: int
    values: dict[str, dict[str, float | None]]

    @property
    def executor_seconds(self) -> float:
        """The processor seconds of all executors."""
        return sum(sum(each.values()) for each in self.executors)

    @property
    def detail(self) -> str:
        """The parts of the work in words."""
        java, python = (sum(each[name] for each in self.executors) for name in ("JVM", "Python"))
        return (
            f"executors: JVM {java:.1f} s, Python {python:.1f} s; driver: JVM "
            f"{self.driver['JVM']:.1f} s, Python {self.driver['Python']:.1f} s; "
            f"{self.seconds:.1f} s by the clock; {self.jobs} jobs, {self.shuffled / 1e6:.0f} MB "
            "shuffled"
        )


def measure_cluster(setup: Setup) -> Iterator[Figure]:
    """Run commands on two executors in one session, and score the same file here."""
    from tests.engines_at_hand import why_spark_is_missing  # noqa: PLC0415 (imports pytest)

    if (reason := why_spark_is_missing()) is not None:
        print(f"  skipped: {reason}", file=sys.stderr)
        return
    if not Path("/proc/self/stat").exists():
        print("  skipped: processor time is read from /proc", file=sys.stderr)
        return
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))
    try:  # a cluster is ended with us, whatever ends us
        runs, failed = run_on_cluster(setup, list(_list_jobs(setup)))
    finally:
        signal.signal(signal.SIGTERM, before)
    for name, run in runs.items():
        yield Figure(
            name=f"{name}: processor time of {WORKERS} executors and the driver",
            value=run.executor_seconds + sum(run.driver.values()),
            unit="s",
            detail=run.detail,
        )
    for name, reason in failed.items():
        yield Figure(name=name, value=nan, detail=reason)
    if _LARGE in runs:
        yield from _describe_rows(setup, runs[_AGAIN], runs[_LARGE])


def _describe_rows(setup: Setup, again: ClusterRun, large: ClusterRun) -> Iterator[Figure]:
    """Yield what a row costs, beside one machine."""
    rows = (LARGE - 1) * setup.rows
    path = setup.file("records", ".parquet")
    command = ("score", path, "--by", "model", "--format", "json")
    here = by_turns(1, {"here": calipers(*command)})["here"]
    yield Figure(
        name="score: processor time of executors per further row",
        value=(large.executor_seconds - again.executor_seconds) / rows * 1e6,
        unit="µs",
        bar=PER_ROW_US,
        binding=setup.is_full,
        detail=f"({large.executor_seconds:.1f} s - {again.executor_seconds:.1f} s) / {rows:,} rows",
    )
    yield Figure(
        name=f"score, again: executors and driver / Calipers here, {setup.rows:,} rows",
        value=(again.executor_seconds + sum(again.driver.values())) / here.cpu_seconds,
        detail=f"here {here.cpu_seconds:.1f} s, {here.peak_mb:,.0f} MB, start included",
    )
    yield Figure(name="score: jobs", value=again.jobs, unit="", bar=JOBS)
    yield Figure(
        name="score: difference of the numbers, Spark - here",
        value=find_largest_difference(here.read_values(), again.values),
        unit="",
        bar=SAME,
    )


def _list_jobs(setup: Setup) -> Iterator[dict[str, Any]]:
    few, many = (
        str(setup.file("records", ".parquet", n)) for n in (setup.rows, LARGE * setup.rows)
    )
    sides = [str(setup.file(s, ".parquet", LARGE * setup.rows // 2)) for s in ("base", "candidate")]
    grouped = str(setup.file("grouped", ".parquet", setup.rows, GROUPS))
    policy = setup.folder.resolve() / "cluster.policy.json"
    limits = dict(zip(GATED, ("≥ 60%", "< 0.2", "< 5000ms"), strict=True))
    policy.write_text(json.dumps({"thresholds": {"blocking": limits}}), encoding="utf-8")
    by: dict[str, Any] = {"by": ["model"]}
    page = {"output": str(setup.folder.resolve() / "cluster-report.html")}
    rows = f"{LARGE * setup.rows:,} rows"
    for name, command, data, options in (
        (_FIRST, "score", [few], by),
        (_AGAIN, "score", [few], by),
        (_LARGE, "score", [many], by),
        (f"gate, {rows}", "gate", [many], by | {"policy": str(policy)}),
        (f"compare, {rows} on both sides", "compare", sides, {}),
        (f"rank, {rows}", "rank", [many], {}),
        (f"report, {rows}", "report", [many], by | page),
        (
            f"score in {GROUPS:,} groups, {setup.rows:,} rows",
            "score",
            [grouped],
            {"by": ["category"]},
        ),
    ):
        yield {"name": name, "command": command, "data": data, "options": options}


def run_on_cluster(
    setup: Setup, jobs: list[dict[str, Any]]
) -> tuple[dict[str, ClusterRun], dict[str, str]]:
    """Return what jobs took on a cluster of our own, and why others failed."""
    with (
        TemporaryDirectory(prefix="calipers-cluster-") as name,
        _start_cluster(Path(name), WORKERS) as (master, sessions),
    ):
        file = setup.folder.resolve() / "cluster-jobs.json"
        file.write_text(json.dumps(jobs), encoding="utf-8")
        report = Path(name, "report.json")
        command = [sys.executable, "-m", "benchmarks.cluster_driver", str(file), str(report)]
        command += map(str, sessions)
        arguments = f"--master {master} --executor-memory 1g pyspark-shell"
        with _start(command, Path(name, "driver"), PYSPARK_SUBMIT_ARGS=arguments) as driver:
            _wait_for_end(driver, Path(name, "driver.log"))
        reports: dict[str, Any] = json.loads(report.read_text("utf-8"))
    failed = {
        job["name"]: reports.get(job["name"], _LATE).get("failed")
        for job in jobs
        if "failed" in reports.get(job["name"], _LATE)
    }
    return {name: ClusterRun(**reports[name]) for name in reports if name not in failed}, failed


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
        return
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

"""A real cluster: master and worker are processes of their own, and share no temporary folder."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from urllib.request import urlopen

import polars as pl
import pytest

from tests.engines_at_hand import needs_spark

pytestmark = [needs_spark, pytest.mark.long]
ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 120.0


def can_have_mounts_of_its_own() -> bool:
    if shutil.which("unshare") is None:
        return False
    tried = subprocess.run(["unshare", "-m", "true"], check=False, capture_output=True)
    return tried.returncode == 0


@contextmanager
def started(command: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command in a process group of its own, and end the group."""
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            yield process
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(timeout=PATIENCE)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def wait_for_worker(page: int) -> None:
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        try:
            with urlopen(f"http://127.0.0.1:{page}/json/") as answer:
                if b'"aliveworkers" : 1' in answer.read():
                    return
        except OSError:
            pass
        time.sleep(0.3)
    pytest.fail("the worker did not come up")


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    """Start a cluster whose worker sees an empty folder where the driver has its temporary one."""
    (tmp_path / "driver").mkdir()
    found = find_spec("pyspark")
    assert found is not None
    assert found.origin is not None
    spark_class = str(Path(found.origin).parent / "bin" / "spark-class")
    deploy = "org.apache.spark.deploy"
    port, page = free_port(), free_port()
    url = f"spark://127.0.0.1:{port}"
    head = [spark_class, f"{deploy}.master.Master", "--host", "127.0.0.1"]
    head += ["--port", str(port), "--webui-port", str(page)]
    hands = f"{spark_class} {deploy}.worker.Worker -h 127.0.0.1 -c 1 -m 1g --webui-port 0"
    apart = f"mount -t tmpfs tmpfs {tmp_path}/driver && exec {hands} -d {tmp_path}/work {url}"
    worker = ["unshare", "-m", "sh", "-c", apart]
    with started(head, tmp_path / "master.log"), started(worker, tmp_path / "worker.log"):
        wait_for_worker(page)
        yield url


@pytest.mark.skipif(not can_have_mounts_of_its_own(), reason="unshare -m is not allowed here")
def test_rows_reach_a_spark_driver_that_shares_no_disk_with_its_workers(
    master: str, tmp_path: Path
) -> None:
    rows = [
        {"id": f"t{n % 40}", "run": n // 40, "answer": str(n % 3), "target": "1"}
        for n in range(400)
    ]
    pl.DataFrame(rows).write_parquet(tmp_path / "records.parquet")
    for engine in ("polars", "spark"):
        command = [sys.executable, "-m", "calipers", "score", str(tmp_path / "records.parquet")]
        command += ["--engine", engine, "--metric", "accuracy", "--format", "json"]
        command += ["--per-sample", str(tmp_path / f"samples-{engine}.parquet")]
        command += ["--per-task", str(tmp_path / f"tasks-{engine}.parquet")]
        environment = {
            **os.environ,
            "TMPDIR": str(tmp_path / "driver"),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYTHONPATH": str(ROOT / "src"),
            "PYSPARK_SUBMIT_ARGS": f"--master {master} --executor-memory 512m pyspark-shell",
        }
        done = subprocess.run(command, check=False, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    for name in ("samples", "tasks"):
        here = pl.read_parquet(tmp_path / f"{name}-polars.parquet")
        there = pl.read_parquet(tmp_path / f"{name}-spark.parquet")
        assert there.height == here.height == {"samples": 400, "tasks": 40}[name]
        assert sorted(there["id"]) == sorted(here["id"])

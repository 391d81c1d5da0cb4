"""The dashboard in a real browser while a run goes on or a source is indexed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from threading import Event, Semaphore
from time import sleep
from typing import Any

import polars as pl
import pytest

from calipers.dashboard import index_builder
from tests.browser import Watched, needs_browser
from tests.dashboard.dashboards import Dashboard, Serving, records, two_models
from tests.runs.suites_at_hand import ROOT, suite_folder, sums

pytestmark = needs_browser


SLOW = "import time\ndef answer(record):\n    time.sleep(0.4)\n    return '1'\n"


@pytest.mark.long
def test_a_run_is_watched_while_it_goes_on(
    tmp_path: Path, serving: Serving, watched: Watched
) -> None:
    suite = suite_folder(
        tmp_path, sums(4000), [{"name": "slow", "python": "slow.py:answer"}], concurrency=1
    )
    (tmp_path / "slow.py").write_text(SLOW)
    going = suite.start()
    try:
        while not (suite.results / "records.jsonl").exists() and going.poll() is None:
            sleep(0.05)
        site, page = serving(tmp_path), watched.page
        page.goto(site.url)
        assert "running" in page.inner_text("tbody")
        page.goto(f"{site.url}/runs/{site.ids()['out']}")
        counter = page.locator("#progress .done")
        first = int(counter.inner_text())
        page.wait_for_function(
            f"() => Number(document.querySelector('#progress .done').textContent) > {first}",
            timeout=120_000,
        )
        assert "of 4,000 calls" in page.inner_text("#progress")
        watched.screenshot("view_live")
        page.goto(f"{site.url}/runs/{site.ids()['out']}/samples")
        told = page.inner_text(".count")
        page.wait_for_function(
            "before => document.querySelector('.count').innerText !== before",
            arg=told,
            timeout=120_000,
        )
    finally:
        going.terminate()
        going.communicate()


@pytest.mark.long
def test_a_page_fills_while_its_source_is_indexed(
    tmp_path: Path, serving: Serving, watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = index_builder._write_part

    written, seen = Semaphore(2), Event()  # the first part: its records and its values

    def slowly(*arguments: Any, **options: Any) -> None:
        assert written.acquire(blocking=False) or seen.wait(120)
        write(*arguments, **options)

    monkeypatch.setattr("calipers.records.readers.tables.CHUNK_ROWS", 100)
    monkeypatch.setattr(index_builder, "_write_part", slowly)
    pl.DataFrame(records(600)).write_parquet(tmp_path / "slow.parquet")
    site, page = serving(tmp_path), watched.page
    page.goto(f"{site.url}/runs/{site.ids()['slow.parquet']}/samples")
    assert "being indexed" in page.inner_text(".state")
    page.wait_for_function("() => document.querySelectorAll('tbody tr').length == 50")
    watched.screenshot("view_indexing")
    seen.set()
    page.locator(".state").wait_for(state="detached", timeout=120_000)
    assert "of 600 records" in page.inner_text(".count")


def test_the_command_serves_and_ends_quietly(tmp_path: Path, cache: Path) -> None:
    two_models(tmp_path, 5)
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "XDG_CACHE_HOME": str(cache)}
    process = subprocess.Popen(
        [sys.executable, "-m", "calipers", "view", str(tmp_path), "--port", "0", "--no-open"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        site = Dashboard(int(address.rstrip("/").rpartition(":")[2]), None, tmp_path)
        assert site.get("/").status == 200
    finally:
        process.send_signal(2)
        _, said = process.communicate(timeout=120)
    assert process.returncode == 0
    assert "Traceback" not in said

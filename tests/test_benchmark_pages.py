"""The pages on benchmarks are what the measurements give, and processes are measured as a whole."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from benchmarks import generate
from benchmarks.billion import write_billion
from benchmarks.catalogue import BENCHMARKS
from benchmarks.growth import draw_growth
from benchmarks.page import read_measured, render_pages, write_costs
from benchmarks.processes import by_turns, find_largest_difference, run_process


def test_the_pages_follow_from_the_measurements() -> None:
    entries = read_measured()
    if not entries:
        pytest.skip("nothing was measured yet: make bench")
    for path, text in render_pages(entries).items():
        assert path.read_text("utf-8") == text, f"{path.name} was edited; write it: make bench"


def test_every_stored_benchmark_still_exists() -> None:
    assert set(read_measured()) <= set(BENCHMARKS)


def cost(
    size: int, seconds: float, megabytes: float, command: str = "score", **other: Any
) -> dict[str, Any]:
    return {
        "command": command,
        "over": "rows",
        "size": size,
        "cpu_seconds": seconds,
        "seconds": seconds,
        "peak_mb": megabytes,
        "finished": True,
    } | other


def test_growth_is_drawn_from_the_first_size_to_the_last() -> None:
    sizes = {10_000: 0.3, 100_000: 0.5, 1_000_000: 2.0, 10_000_000: 20.0}
    costs = [cost(size, seconds, 200) for size, seconds in sizes.items()]
    costs += [cost(10_000, 0.4, 200, "gate"), cost(100_000, 120, 9, "gate", finished=False)]
    picture = draw_growth(costs)
    assert "score, 10,000,000 rows: 20.00 s" in picture
    assert picture.count("<circle") == 5
    assert picture.count("<polyline") == 2


def test_the_page_says_what_breaks_first() -> None:
    million = 1_000_000
    costs = [
        *(cost(million, 2.0, 500), cost(10 * million, 20.0, 545)),
        *(cost(million, 5.0, 700, "gate"), cost(10 * million, 50.0, 4_300, "gate")),
        *(cost(100_000, 1.0, 400, "compare"), cost(million, 20.0, 1_300, "compare")),
        cost(10 * million, 120.0, 4_700, "compare", finished=False),
    ]
    lines = write_billion({"commands": {"costs": costs}}).splitlines()
    rows = {line.split("|")[1].strip(): line for line in lines if line.startswith("| `")}
    assert "| 2.00 s, 5 MB | 20.0 s, 545 MB | 2 min, 5.5 GB |" in rows["`score`"]
    assert "| nothing: 0.6 core-hours |" in rows["`score`"]
    assert "memory: 64 GB are full at about 160,000,000 rows" in rows["`gate`"]
    assert "not within 120 s, 4,700 MB then" in rows["`compare`"]
    assert "time: 1,000,000 rows took 20.0 s" in rows["`compare`"]
    few = write_billion({"commands": {"costs": [cost(1_000, 1, 90), cost(10_000, 2, 100)]}})
    assert "too few rows to say" in few
    assert "breaks first | what" in few
    assert "full at" not in few


def test_a_table_of_costs_has_a_column_per_size() -> None:
    costs = [cost(1_000, 0.5, 100), cost(10, 0.25, 90), cost(10, 2.0, 95, "gate")]
    assert [*write_costs("rows", costs)] == [
        "| processor time, peak memory | 10 rows | 1,000 rows |",
        "|---|---:|---:|",
        "| score | 0.25 s, 90 MB | 0.50 s, 100 MB |",
        "| gate | 2.00 s, 95 MB |  |",
        "",
    ]


def test_a_process_is_measured_with_its_imports() -> None:
    program = "import time; x = bytearray(200_000_000); x[::4096] = b'a' * len(x[::4096]); print(7)"
    runs = by_turns(
        1, {"busy": lambda: run_process([sys.executable, "-c", program], environment={})}
    )
    assert runs["busy"].output == b"7\n"
    assert runs["busy"].peak_mb > 200
    assert 0 < runs["busy"].cpu_seconds <= 60


def test_a_process_that_takes_too_long_is_ended_and_one_that_fails_is_named() -> None:
    endless = [sys.executable, "-c", "while True: pass"]
    run = run_process(endless, environment={}, limit_s=1)
    assert not run.finished
    with pytest.raises(SystemExit, match="exit code 3"):
        run_process([sys.executable, "-c", "raise SystemExit(3)"], environment={})


def test_a_number_that_we_lack_is_infinitely_different() -> None:
    theirs: dict[str, dict[str, float | None]] = {"o1": {"accuracy": 0.5}}
    assert find_largest_difference({"o1": {"accuracy": 0.5, "ece": 0.1}}, theirs) == 0
    assert find_largest_difference({"o1": {"accuracy": 0.25}}, theirs) == 0.25
    assert find_largest_difference({"o1": {}}, theirs) == float("inf")
    assert find_largest_difference({"o1": {"accuracy": None}}, theirs) == float("inf")


def test_the_workload_is_in_no_order_and_no_text_repeats(tmp_path: Path) -> None:
    path = tmp_path / "texts.jsonl"
    generate.write("texts", 4_000, path)
    rows = pl.read_ndjson(path)
    assert rows["cot"].n_unique() == rows["input"].n_unique() == 4_000
    answered = rows.group_by("id").agg(pl.col("model").n_unique(), pl.col("target").n_unique())
    assert answered.height == 1_000
    assert (answered["model"] == 4).all()
    assert (answered["target"] == 1).all()
    tasks = rows["id"].str.strip_prefix("task-").cast(pl.Int64).to_numpy()
    assert abs(np.corrcoef(tasks, np.arange(4_000))[0, 1]) < 0.2

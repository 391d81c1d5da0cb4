"""The pages on benchmarks are what the measurements give."""

from __future__ import annotations

import pytest

from benchmarks.catalogue import BENCHMARKS
from benchmarks.growth import draw_growth
from benchmarks.page import read_measured, render_pages


def test_the_pages_follow_from_the_measurements() -> None:
    entries = read_measured()
    if not entries:
        pytest.skip("nothing was measured yet: make bench")
    for path, text in render_pages(entries).items():
        assert path.read_text("utf-8") == text, f"{path.name} was edited; write it: make bench"


def test_every_stored_benchmark_still_exists() -> None:
    assert set(read_measured()) <= set(BENCHMARKS)


def test_growth_is_drawn_from_the_first_size_to_the_last() -> None:
    picture = draw_growth([(1e4, 0.3), (1e5, 0.5), (1e6, 2.0), (1e7, 20.0)])
    assert "10,000,000 rows: 20.00 s" in picture
    assert picture.count("<circle") == 4

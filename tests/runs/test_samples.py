"""The records worth reading: what went wrong first, of every system, and never too many."""

from __future__ import annotations

import random
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import calipers as cal
from calipers.engines.group_codes import number_values
from calipers.reports.data.sample_choice import RowKinds, SampleChooser
from tests.examples import examples
from tests.reports.pages_at_hand import records

_rows = st.fixed_dictionaries(
    {"id": st.sampled_from("abcdef"), "model": st.sampled_from(["m", "n"])},
    optional={
        "passed": st.one_of(st.none(), st.booleans()),
        "correct": st.one_of(st.none(), st.booleans()),
        "prob_correct": st.one_of(st.none(), st.floats(0, 1)),
        "error": st.sampled_from([None, None, "timeout: x", "odd", ""]),
        "run": st.one_of(st.integers(1, 3), st.none()),
    },
)


def kind_of(row: dict[str, Any]) -> str:
    if row.get("error"):
        return "failed"
    good = row.get("passed")
    good = row.get("correct") if good is None else good
    return "unknown" if good is None else "right" if good else "wrong"


@examples(25)
@given(rows=st.lists(_rows, min_size=1, max_size=40), most=st.integers(0, 20))
def test_kinds_are_counted_and_samples_bounded(rows: list[dict[str, Any]], most: int) -> None:
    made = cal.report(rows, samples=most)
    counts = Counter(map(kind_of, rows))
    assert made.kinds == {kind: count for kind, count in counts.items() if count}
    shown = Counter(sample.kind for sample in made.samples)
    assert sum(shown.values()) <= most
    assert all(shown[kind] <= counts[kind] for kind in shown)
    assert not shown["right"] + shown["unknown"]  # there is nothing in them to read
    if counts["wrong"] + counts["failed"] >= most:
        assert sum(shown.values()) >= 0.7 * most
    wrong = sum(each.records for each in made.failures if each.what == "wrong")
    assert wrong == counts["wrong"]
    failed = sum(each.records for each in made.failures if each.what != "wrong")
    assert failed == counts["failed"]


def test_errors_are_told_by_their_kind() -> None:
    rows = [
        {"id": "a", "error": "rate_limit: slow down"},
        {"id": "b", "error": "rate_limit: again"},
        {"id": "c", "error": "something odd: yes"},
    ]
    told = {each.what: each.ids for each in cal.report(rows).failures}
    assert told == {"rate_limit": ("a", "b"), "error": ("c",)}


def test_what_was_sure_and_wrong_comes_first_and_tasks_before_their_runs() -> None:
    rows = [
        {"id": "a", "run": 1, "correct": False, "prob_correct": 0.5},
        {"id": "b", "run": 1, "correct": False, "prob_correct": 0.99},
        {"id": "b", "run": 2, "correct": False, "prob_correct": 0.98},
        {"id": "c", "run": 1, "correct": False},
    ]
    shown = [(each.id, each.by["run"]) for each in cal.report(rows).samples]
    assert shown == [("b", "1"), ("a", "1"), ("c", "1"), ("b", "2")]


def test_a_name_keeps_its_point_and_a_run_has_none() -> None:
    rows = [{"id": "a", "model": "v4.0", "run": 2.0, "correct": False}]
    [sample] = cal.report(rows).samples
    assert sample.by == {"model": "v4.0", "run": "2"}


def test_very_many_systems_are_counted_as_one() -> None:
    rows = [{"id": str(n), "model": f"m{n}", "correct": False} for n in range(300)]
    made = cal.report(rows, samples=10)
    assert len(made.samples) == 10
    assert [(each.by, each.records, len(each.ids)) for each in made.failures] == [({}, 300, 50)]


def test_every_system_has_its_share() -> None:
    rows = records(40, models=("a", "b", "c"))
    shown = Counter(
        each.by["model"] for each in cal.report(rows, samples=12).samples if each.kind == "wrong"
    )
    assert max(shown.values()) - min(shown.values()) <= 1
    assert set(shown) == {"a", "b", "c"}


def _tell(batches: list[pl.DataFrame], most: int, *, look_at_all: bool) -> list[dict[str, Any]]:
    telling = SampleChooser(most, kind="kind", systems=["model"], sure="sure")
    for batch in batches:
        if look_at_all:
            telling._bars = {}
        numbers, first = number_values(batch.select("model", "kind").to_struct())
        telling.take(batch, RowKinds(numbers, batch[first]))
    assert telling.rows is not None
    return telling.rows.to_dicts()


@pytest.mark.parametrize("seed", range(20))
def test_rows_that_are_not_looked_at_would_not_have_been_chosen(seed: int) -> None:
    chance = random.Random(seed)
    tasks, levels = chance.choice([8, 60, 10_000]), chance.choice([2, 30, 10_000])
    systems, most = chance.choice([1, 2, 5]), chance.choice([1, 6, 7, 20])

    def draw(number: int) -> dict[str, Any]:
        model = chance.randrange(systems) if chance.random() < 0.9 else 0
        sure = (chance.randrange(levels) + model) / (levels + systems)
        return {
            "row": number,
            "id": str(chance.randrange(tasks)),
            "model": f"m{model}" if model else None,
            "kind": chance.choice(["wrong", "wrong", "right"]),
            "sure": None if chance.random() < 0.1 else sure,
        }

    schema = {
        "row": pl.Int64,
        "id": pl.String,
        "model": pl.String,
        "kind": pl.String,
        "sure": pl.Float64,
    }
    rows = pl.DataFrame([draw(number) for number in range(900)], schema=schema)
    batches = [rows[start : start + 150] for start in range(0, 900, 150)]
    found = _tell(batches, most, look_at_all=False)
    assert found == _tell(batches, most, look_at_all=True)


_TELL_LONG_TEXTS = """
from pathlib import Path
import polars as pl
from calipers.engines.group_codes import number_values
from calipers.reports.data.sample_choice import RowKinds, SampleChooser

def read_megabytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 >> 20

telling = SampleChooser(40, kind="kind", systems=["model"], sure="sure")
for number in range(16):
    ids = [f"{number}-{row}" for row in range(2_000)]
    batch = pl.DataFrame({"id": ids, "answer": [each + "x" * 10_000 for each in ids]})
    sure = pl.Series([0.6 + number / 100] * 3 + [0.5] * 1_997)
    batch = batch.with_columns(model=pl.lit("m"), kind=pl.lit("wrong"), sure=sure)
    numbers, first = number_values(batch.select("model", "kind").to_struct())
    telling.take(batch, RowKinds(numbers, batch[first]))
    if number == 3:
        before = read_megabytes()
print(read_megabytes() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="no /proc to read memory from")
def test_chosen_rows_do_not_hold_the_texts_of_their_batches() -> None:
    """Three rows of every batch of 20 MB are chosen; 12 batches would be 240 MB."""
    done = subprocess.run(
        [sys.executable, "-c", _TELL_LONG_TEXTS], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 120

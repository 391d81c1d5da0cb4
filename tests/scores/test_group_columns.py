"""Many groups are measured in columns: the same numbers, to the last digit, as one by one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import calipers as cal
from calipers.engines import group_codes, group_totals, spilling
from calipers.engines.store import Store
from calipers.scores.group_columns import GroupColumns
from calipers.scores.score_json import write_floats
from calipers.support.strict_json import dump_strict, to_finite
from tests.examples import examples, first_of
from tests.processes import measure_process

CUSTOMERS = 70


def draw_answers(rng: np.random.Generator) -> list[dict[str, Any]]:
    """Draw records of customers with one to many of them, of which some lack each field."""
    rows: list[dict[str, Any]] = []
    for customer in range(CUSTOMERS):
        ability = rng.choice([0.0, 0.3, 0.8, 1.0])
        for number in range(int(rng.choice([1, 2, 3, 9, 20]))):
            target, is_right = int(rng.integers(0, 4)), bool(rng.random() < ability)
            row: dict[str, Any] = {
                "id": f"task-{customer}-{number if rng.random() < 0.8 else 0}",
                "customer": None if customer == 7 else f"Kunde \u201e{customer}\u201c",
                "model": str(rng.choice(["llama-3.1-70b", "gpt-4o-mini"])),
                "answer": str(target if is_right else target + 1),
                "target": str(target),
                "prob_correct": float(rng.choice([0.0, 0.2, 0.55, 0.9, 1.0])),
                "latency_ms": float(rng.lognormal(6, 1)) if customer % 5 else 250.0,
                "cost_usd": float(rng.choice([0.0, 1e-7, 0.002, 3.0])),
                "prompt_tokens": int(rng.integers(1, 2000)),
                "completion_tokens": int(rng.integers(0, 800)),
                "passed": is_right,
                "category": str(rng.choice(["billing", "refund"])),
                "expected_behaviors": ["greets", "asks"],
                "observed_behaviors": ["greets"] if is_right else [],
                "margin": float(rng.normal()),
            }
            for name in ("prob_correct", "latency_ms", "cost_usd", "passed", "answer", "margin"):
                if rng.random() < (0.9 if customer % 11 == 0 else 0.05):
                    row[name] = None
            if rng.random() < 0.03:
                row |= {"error": "timeout", "answer": None, "passed": None}
            rows.append(row)
    rng.shuffle(rows)
    return rows


@pytest.fixture(params=first_of([1, 2, 3]))
def rows(request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    return draw_answers(np.random.default_rng([2026, request.param]))


OPTIONS: dict[str, dict[str, Any]] = {
    "all": {},
    "cluster": {"cluster": "model"},
    "weight": {"weight": "task"},
    "confidence": {"confidence": 0.8},
    "named": {
        "metrics": ["pass_at_2", "weighted_pass_rate", "final_score", "mean(margin)", "accuracy"]
    },
    "failures": {"errors": "fail"},
    "fixed": {"tasks": "fixed"},
    "tiers": {"profile": "tiers"},
}


@pytest.mark.parametrize("options", first_of(OPTIONS, 2))
def test_columns_say_what_each_group_says(
    rows: list[dict[str, Any]], options: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = OPTIONS[options]
    measured = cal.score(rows, by="customer", **asked)
    with monkeypatch.context() as patch:
        patch.setattr(group_totals, "FEW_GROUPS", 10**9)
        expected = cal.score(rows, by="customer", **asked)
    assert isinstance(expected.groups, tuple)
    assert len(measured.groups) == CUSTOMERS > group_codes.FEW_GROUPS
    assert measured.to_json() == expected.to_json()
    assert measured == expected
    assert measured.to_csv() == expected.to_csv()
    assert measured.to_polars().equals(expected.to_polars())
    assert measured.to_csv_wide() == expected.to_csv_wide()


def test_groups_that_are_read_in_shares_give_the_same(
    rows: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = cal.score(rows, by="customer")
    monkeypatch.setitem(Store.__init__.__kwdefaults__ or {}, "held_bytes", 1)
    monkeypatch.setattr(spilling, "SPILL_BYTES", 20_000)
    measured = cal.score(rows, by="customer")
    for found, group in zip(measured.groups, expected.groups, strict=True):
        assert found.by == group.by
        for name, metric in group.metrics.items():
            own = found[name]
            assert (own.n, own.reason, own.missing) == (metric.n, metric.reason, metric.missing)
            for one, other in ((own.value, metric.value), (own.low, metric.low)):
                assert one == (None if other is None else pytest.approx(other, rel=1e-9))


def test_what_is_written_is_what_to_json_returns(rows: list[dict[str, Any]]) -> None:
    measured = cal.score(rows, by=["customer", "model"])
    assert isinstance(measured.groups, GroupColumns)
    pieces: list[str] = []
    measured.write_json(pieces.append)
    text = "".join(pieces)
    assert text == measured.to_json()
    assert json.loads(text) == measured.to_dict()
    assert '"warning": ' in text
    assert '"interval_reason": ' in text


def test_groups_are_made_when_they_are_asked_for(rows: list[dict[str, Any]]) -> None:
    measured = cal.score(rows, by="customer")
    names = [group.by["customer"] for group in measured.groups]
    assert names[:3] == ["Kunde \u201e0\u201c", "Kunde \u201e1\u201c", "Kunde \u201e2\u201c"]
    assert names[-1] is None
    assert measured.group(customer=names[4]) == measured.groups[4]
    assert measured.groups[-1].by == {"customer": None}
    assert [group.by for group in measured.groups[2:5]] == [{"customer": n} for n in names[2:5]]
    assert measured.records == len(rows)


@examples(200)
@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=1))
def test_floats_are_written_as_python_writes_them(values: list[float]) -> None:
    found = write_floats(np.array(values)).to_list()
    assert found == [dump_strict(to_finite(value)) for value in values]


def test_a_table_shows_the_first_groups_and_says_so() -> None:
    many = pl.DataFrame({"customer": range(1200), "passed": [True] * 1200})
    measured = cal.score(many, by="customer")
    shown = str(measured)
    assert "the first 1,000 of 1,200 groups: --format csv, json and parquet have all" in shown
    assert "1,199" not in shown.replace("1,200", "")
    assert measured.to_polars().height == 1200 * len(measured.groups[0].metrics)
    assert len(measured.to_csv_wide().splitlines()) == 1201


def test_a_score_of_columns_is_read_back(rows: list[dict[str, Any]]) -> None:
    from calipers.scores.stored_score import read_score  # noqa: PLC0415 (only here)

    measured = cal.score(rows, by="customer")
    stored = read_score(json.loads(measured.to_json()))
    assert stored is not None
    assert stored.groups == measured.groups


_MANY_GROUPS = """
import sys
import numpy as np, polars as pl
import calipers as cal
rng, rows = np.random.default_rng(2026), 200_000
frame = pl.DataFrame({
    "id": [f"task-{number}" for number in rng.permutation(rows)],
    "customer": [f"customer-{number}" for number in rng.integers(0, 100_000, rows)],
    "answer": rng.integers(0, 3, rows).astype(str),
    "target": rng.integers(0, 3, rows).astype(str),
    "prob_correct": rng.random(rows),
    "latency_ms": rng.lognormal(6, 1, rows),
    "cost_usd": rng.lognormal(-7, 1, rows),
    "prompt_tokens": rng.integers(50, 2000, rows),
    "completion_tokens": rng.integers(5, 800, rows),
    "passed": rng.random(rows) < 0.7,
})
measured = cal.score(frame, by="customer")
with open(sys.argv[1], "w") as file:
    measured.write_json(file.write)
print(len(measured.groups))
"""


@pytest.mark.long
def test_a_hundred_thousand_groups_take_seconds_and_no_gigabyte(tmp_path: Path) -> None:
    written = tmp_path / "score.json"
    taken = measure_process(tmp_path, "-c", _MANY_GROUPS, written)
    assert int(taken.output) > 80_000
    assert taken.seconds < 30, "5 to 9 s, and over 60 where each group is an object"
    assert taken.megabytes < 1200
    assert written.stat().st_size > 300e6

"""The tasks that flipped."""

from __future__ import annotations

from pathlib import Path

import polars as pl

import calipers as cal
from tests.commands import strict
from tests.comparisons.runs_at_hand import answered, refused, run
from tests.files import write_lines


def test_flips_are_written(tmp_path: Path) -> None:
    base = write_lines(tmp_path / "a.jsonl", answered({"a": "7", "b": "8", "c": "7", "d": "1"}))
    other = write_lines(
        tmp_path / "b.jsonl", answered({"d": "2", "c": "7.0", "b": "7", "a": "\u20ac"})
    )
    out = tmp_path / "flips.jsonl"
    result = run(base, other, "--flips", out, "--format", "json")
    assert strict(result.stdout)["flips"] == {"lost": 1, "won": 1}
    lines = out.read_text(encoding="utf-8").splitlines()
    assert [strict(line) for line in lines] == [
        {
            "id": "a",
            "run": None,
            "flip": "base right, candidate wrong",
            "target": "7",
            "base": "7",
            "candidate": "\u20ac",
        },
        {
            "id": "b",
            "run": None,
            "flip": "base wrong, candidate right",
            "target": "7",
            "base": "8",
            "candidate": "7",
        },
    ]
    assert "flips: 1 run became wrong, 1 became right" in run(base, other).stdout


def test_flips_are_paired_by_run_where_both_have_it() -> None:
    first = [*answered({"a": "7", "b": "8"}, run=1), *answered({"a": "8", "b": "8"}, run=2)]
    turned = [*answered({"a": "8", "b": "8"}, run=2), *answered({"a": "7", "b": "8"}, run=1)]
    assert cal.compare(first, turned).flips == {"lost": 0, "won": 0}
    without = [{name: value for name, value in row.items() if name != "run"} for row in turned]
    assert cal.compare(first, without).flips == {"lost": 1, "won": 1}, "in their order"
    fewer = cal.compare(first, turned[:1]).flips
    assert fewer == {"lost": 0, "won": 0}


def test_runs_are_the_same_in_every_file_format(tmp_path: Path) -> None:
    base = [*answered({"a": "7", "b": "7"}, run=1), *answered({"a": "8", "b": "7"}, run=2)]
    other = [*answered({"a": "7", "b": "8"}, run=2), *answered({"a": "7", "b": "7"}, run=1)]
    table = tmp_path / "b.csv"
    pl.DataFrame(other).write_csv(table)
    for candidate in (other, pl.DataFrame(other), table):
        out = tmp_path / "flips.jsonl"
        assert cal.compare(base, candidate, flips=out).flips == {"lost": 1, "won": 1}
        lines = [strict(line) for line in out.read_text().splitlines()]
        assert [(line["id"], line["run"]) for line in lines] == [("a", 2), ("b", 2)]


def test_a_run_that_is_there_twice_is_paired_once() -> None:
    """Two models in a file: n rows of a run on both sides are n pairs, not n²."""
    base = [row for _ in range(3) for row in answered({"a": "7"}, run=1)]
    other = [row for _ in range(3) for row in answered({"a": "8"}, run=1)]
    assert cal.compare(base, other).flips == {"lost": 3, "won": 0}


def test_flips_within_groups_are_written_in_the_same_order(tmp_path: Path) -> None:
    base = [{**row, "part": part} for part in "abcdef" for row in answered({"1": "7", "2": "7"})]
    other = [{**row, "part": part} for part in "fedcba" for row in answered({"2": part, "1": part})]
    texts = []
    for number in range(3):
        out = tmp_path / f"{number}.jsonl"
        mixed = other[number:] + other[:number]
        found = cal.compare(base, mixed, by="part", flips=out, metrics=["accuracy"])
        assert found.flips == {"lost": 12, "won": 0}
        texts.append(out.read_text())
    assert texts[0] == texts[1] == texts[2]


def test_failed_calls_and_undecided_answers_flip_nothing() -> None:
    base = [*answered({"a": "7", "b": "7"}), {"id": "c", "answer": "7"}]
    other = [
        *answered({"a": "8"}),
        *answered({"b": "8"}, error="timeout: 60 s"),
        *answered({"c": "8"}),
    ]
    assert cal.compare(base, other).flips == {"lost": 1, "won": 0}


def test_flips_need_right_and_wrong(tmp_path: Path) -> None:
    base = write_lines(tmp_path / "a.jsonl", [{"id": "1", "latency_ms": 5, "cot": "sorry"}])
    told = refused(base, base, "--flips", tmp_path / "flips.jsonl")
    assert told == "error: --flips needs a metric of right or wrong\n  --metric accuracy\n"
    assert not (tmp_path / "flips.jsonl").exists()
    found = cal.compare(base, base, metrics=["self_correction_rate"])
    assert found.flips == {}, "a chain of thought that corrects itself is not wrong"

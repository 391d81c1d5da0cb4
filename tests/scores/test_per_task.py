"""A row per task: every column against plain Python, on every engine; flaky tasks are named."""

from __future__ import annotations

import json
import math
import random
import tempfile
from collections import Counter
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import calipers as cal
from calipers.engines import read_rows
from calipers.engines.store import Store
from tests.commands import run
from tests.engines_at_hand import ENGINES_AT_LENGTH
from tests.examples import examples
from tests.files import write_lines
from tests.shared_data import FOLDER, needs_shared_data

Row = dict[str, Any]


def per_task(rows: list[Row], **options: Any) -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "tasks.parquet")
        cal.score(rows, per_task=path, **options)
        return pl.read_parquet(path).rows(named=True)


# --- what a row says ---


def _known(runs: list[Row], field: str) -> list[Any]:
    return [row[field] for row in runs if row.get(field) is not None]


def _mean(values: list[float]) -> float | None:
    return fmean(values) if values else None


def _answers(runs: list[Row]) -> float | None:
    found = Counter(_known(runs, "answer"))
    return max(found.values()) / found.total() if found.total() >= 2 else None


def reference(rows: list[Row]) -> list[Row]:
    """The rows that the file should have, from its description."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["tier"], row["id"]), []).append(row)
    found = []
    for (tier, name), records in sorted(groups.items()):
        runs = [row for row in records if not row["error"]]
        passed, right = _known(runs, "passed"), _known(runs, "correct")
        verdicts = passed or right
        most = max(verdicts.count(True), verdicts.count(False)) / max(1, len(verdicts))
        costs = _known(runs, "cost_usd")
        paid = [row for row in runs if None not in (row["cost_usd"], row["passed"])]
        passes = sum(row["passed"] for row in paid)
        spent = sum(row["cost_usd"] for row in paid)
        unpaid = math.inf if paid and not any(passed) else None  # solved, at unknown cost
        found.append(
            {
                "id": name,
                "tier": tier,
                "runs": len(runs),
                "errors": len(records) - len(runs),
                "passes": sum(passed) if passed else None,
                "pass_rate": _mean(passed),
                "accuracy": _mean(right),
                "consistency": most
                if len(verdicts) > 1
                else (None if verdicts else _answers(runs)),
                "flaky": len(set(verdicts)) == 2 if verdicts else None,
                "cost_usd": _mean(costs),
                "cost_usd_min": min(costs, default=None),
                "cost_usd_max": max(costs, default=None),
                "duration_seconds": _mean(_known(runs, "duration_seconds")),
                "cost_of_pass": spent / passes if passes else unpaid,
                "most_common_answer_share": _answers(runs),
            }
        )
    return found


def a_run(chance: random.Random) -> Row:
    return {
        "id": chance.choice("abcde"),
        "tier": chance.choice(("T0", "T1")),
        "passed": chance.choice((True, False, None)),
        "correct": chance.choice((True, False, None)),
        "answer": chance.choice(("x", "y", None)),
        "cost_usd": chance.choice((0.0, 0.25, 1.5, None)),
        "duration_seconds": chance.choice((1.0, 3.0, None)),
        "error": chance.choice((None, None, None, "timeout: 60 s")),
    }


def same(found: list[Row], expected: list[Row]) -> None:
    """Equal where a column is there; where it is not, no task has a value."""
    assert [(row["tier"], row["id"]) for row in found] == [
        (row["tier"], row["id"]) for row in expected
    ]
    for have, want in zip(found, expected, strict=True):
        for name, value in want.items():
            if isinstance(value, float):
                assert have.get(name) == pytest.approx(value, rel=1e-12), name
            else:
                assert have.get(name) == value, name


@given(st.randoms(use_true_random=False), st.integers(1, 30))
@examples(30, deadline=None)
def test_every_column_is_what_plain_python_says(chance: random.Random, count: int) -> None:
    rows = [a_run(chance) for _ in range(count)]
    # The first row decides the types of fields; without one, `tier` or `id` could be absent.
    same(per_task(rows, by="tier"), reference(rows))


METRICS = "pass_rate accuracy cost_usd cost_of_pass duration_seconds determinism_index".split()


def flakiest(rows: list[Row]) -> list[tuple[str, str, int, int]]:
    """Tier, id, passes and runs of the five tasks whose runs are most evenly split."""
    judged = [row for row in reference(rows) if row["flaky"]]
    found = []
    for row in judged:
        runs = [each for each in rows if (each["tier"], each["id"]) == (row["tier"], row["id"])]
        ran = [each for each in runs if not each["error"]]
        known = _known(ran, "passed") or _known(ran, "correct")
        found.append((row["tier"], row["id"], sum(known), len(known)))
    return sorted(found, key=lambda task: (abs(task[2] / task[3] - 0.5), -task[3], task))[:5]


@pytest.mark.parametrize("engine", ENGINES_AT_LENGTH)
def test_every_engine_writes_the_same_rows(engine: str, tmp_path: Path) -> None:
    chance = random.Random(5)
    rows = [a_run(chance) for _ in range(80)]
    path = tmp_path / "tasks.parquet"
    tasks = cal.score(rows, by="tier", metrics=METRICS, engine=engine, per_task=path).per_task
    found = pl.read_parquet(path).rows(named=True)
    expected = reference(rows)
    same(found, expected)
    of_all_groups = "difficulty discrimination solved_by frontier_cost_of_pass on_frontier".split()
    assert list(found[0]) == [*expected[0], *of_all_groups]
    assert tasks is not None
    assert (tasks.tasks, tasks.flaky) == (len(expected), sum(row["flaky"] for row in expected))
    assert [(each.by["tier"], each.id, each.passes, each.runs) for each in tasks.flakiest] == (
        flakiest(rows)
    )


def test_tasks_that_do_not_fit_in_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    chance = random.Random(7)
    rows = [a_run(chance) | {"id": str(chance.randrange(90))} for _ in range(300)]
    path = tmp_path / "tasks.parquet"
    held = cal.score(rows, by="tier", metrics=METRICS, per_task=path).per_task
    expected = pl.read_parquet(path)
    monkeypatch.setattr(read_rows, "Store", partial(Store, held_bytes=1))
    monkeypatch.setattr("calipers.engines.spilling.SPILL_BYTES", 10_000)
    assert cal.score(rows, by="tier", metrics=METRICS, per_task=path).per_task == held
    assert pl.read_parquet(path).equals(expected)


def test_only_columns_whose_fields_are_there() -> None:
    rows = [{"id": "a", "passed": True}, {"id": "a", "passed": False}, {"id": "b", "passed": True}]
    assert per_task(rows, profile="tiers") == [
        {
            "id": "a",
            "runs": 2,
            "errors": 0,
            "passes": 1,
            "pass_rate": 0.5,
            "consistency": 0.5,
            "flaky": True,
            "difficulty": 0.5,
            "discrimination": None,
            "solved_by": "some",
        },
        {
            "id": "b",
            "runs": 1,
            "errors": 0,
            "passes": 1,
            "pass_rate": 1.0,
            "consistency": None,
            "flaky": False,
            "difficulty": 0.0,
            "discrimination": None,
            "solved_by": "everybody",
        },
    ]


def test_where_only_answers_are_there_they_agree_or_not() -> None:
    rows = [{"id": "a", "answer": answer} for answer in ("7", "7.0", "8")]
    [row] = per_task(rows)
    assert row == {
        "id": "a",
        "runs": 3,
        "errors": 0,
        "consistency": pytest.approx(2 / 3),
        "most_common_answer_share": pytest.approx(2 / 3),
    }


def test_composite_and_judged_runs() -> None:
    judgments = [{"judge": "x", "passed": True, "weighted_score": 0.5}]
    rows: list[Row] = [
        {"id": "a", "judgments": judgments},
        {"id": "a", "passed": False, "impl_rate": 0.25},
    ]
    [row] = per_task(rows, profile="tiers")
    assert row["composite_score"] == pytest.approx((0.75 + 0.125) / 2)
    assert row["impl_rate"] == pytest.approx(0.375)
    assert row["flaky"] is True


def test_a_field_grouped_by_hides_no_column() -> None:
    rows = [{"id": "a", "runs": n, "passed": True} for n in (1, 2)]
    found = per_task(rows, by=["runs", "id"], profile="tiers")
    assert [(row["by_runs"], row["runs"], row["id"]) for row in found] == [(1, 1, "a"), (2, 1, "a")]


def test_groups_come_in_the_order_of_the_score_with_their_types() -> None:
    rows = [
        {"id": name, "temperature": t, "passed": True} for t in (10, 9, None) for name in ("b", "a")
    ]
    found = per_task(rows, by="temperature", profile="tiers")
    assert [(row["temperature"], row["id"]) for row in found] == [
        (9, "a"),
        (9, "b"),
        (10, "a"),
        (10, "b"),
        (None, "a"),
        (None, "b"),
    ]


# --- the command line ---


def test_json_lines_are_strict(tmp_path: Path) -> None:
    rows = [{"id": "é", "passed": False, "cost_usd": 0.5, "tier": "T0"}]
    out = tmp_path / "tasks.jsonl"
    data = write_lines(tmp_path / "a.jsonl", rows)
    assert run("score", data, "--by", "tier", "--per-task", out).exit_code == 0
    [line] = out.read_text(encoding="utf-8").splitlines()
    assert json.loads(line)["cost_of_pass"] == "Infinity"
    assert line.startswith('{"id":"é","tier":"T0","runs":1,')
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.jsonl", "tasks.jsonl"]


def test_the_terminal_names_flaky_tasks(tmp_path: Path) -> None:
    passes = {"a": [1, 0, 0, 0], "b": [1, 1, 0, 0], "c": [1, 1, 1, 1], "d": [1]}
    rows = [
        {"id": task, "tier": tier, "passed": bool(passed)}
        for tier in ("T0", "T1")
        for task, runs in passes.items()
        for passed in runs
    ]
    data = write_lines(tmp_path / "a.jsonl", rows)
    listed = "flaky tasks: 4 of 6: b (T0, 2/4), b (T1, 2/4), a (T0, 1/4), a (T1, 1/4)"
    told = run("score", data, "--by", "tier", "--profile", "tiers").stdout
    assert f"{listed}\n" in told
    out = tmp_path / "tasks.parquet"
    told = run("score", data, "--by", "tier", "--per-task", out, "--format", "markdown").stdout
    assert f"{listed}; all tasks in {out}" in told
    alone = run("score", data, "--metric", "pass_rate", "--per-task", out).stdout
    assert "flaky tasks: 2 of 4: b (4/8), a (2/8); all tasks in" in " ".join(alone.split())
    plain = run("score", data, "--by", "tier").stdout
    assert "flaky" not in plain


def test_many_flaky_tasks_are_not_all_named() -> None:
    rows = [{"id": f"q{n}", "passed": passed} for n in range(9) for passed in (True, False)]
    told = str(cal.score(rows, profile="tiers"))
    assert "flaky tasks: 9 of 9: q0 (1/2), q1 (1/2), q2 (1/2), q3 (1/2), q4 (1/2), …; " in told
    assert "--per-task FILE writes all" in told


def test_tasks_that_always_agree_or_run_once() -> None:
    steady: list[Row] = [{"id": "a", "passed": True}] * 2
    assert "flaky tasks: none of 1" in str(cal.score(steady, profile="tiers"))
    assert "flaky" not in str(cal.score(steady[:1], profile="tiers"))
    assert cal.score([{"passed": True}], profile="tiers").per_task is None


def test_a_hostile_id_does_not_drive_the_terminal() -> None:
    name = "\x1b[2J<b>" + "x" * 90
    rows = [{"id": name, "passed": passed} for passed in (True, False)]
    score = cal.score(rows, profile="tiers")
    assert "\x1b" not in str(score)
    assert "x" * 60 not in str(score)
    assert "<b>" not in score._repr_html_()


def test_the_json_counts_the_tasks(tmp_path: Path) -> None:
    rows = [{"id": "a", "passed": passed} for passed in (True, False)]
    out = tmp_path / "tasks.parquet"
    assert cal.score(rows, per_task=out).to_dict()["per_task"] == {
        "tasks": 1,
        "repeated": 1,
        "flaky": 1,
        "flakiest": [{"by": {}, "id": "a", "passes": 1, "runs": 2}],
        "path": str(out),
        "items": {
            "tasks": 1,
            "systems": 1,
            "solved_by_nobody": 0,
            "solved_by_everybody": 0,
            "duplicates": 0,
            "reason": "discrimination needs 5 systems or more, here 1",
        },
    }


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ([{"passed": True}], {}, "--per-task: no record has an id"),
        ([{"id": "a"}, {"passed": True}], {}, "1 of 2 records have no id"),
        ([{"id": "a", "passed": True}], {"by": "tier"}, "--by tier: no record has a value"),
        ([{"id": "a"}], {"per_task": "tasks.csv"}, "--per-task tasks.csv: unknown format"),
        ([{"id": "a"}], {"per_task": "nowhere/t.parquet"}, "the folder nowhere does not exist"),
    ],
)
def test_what_is_refused_leaves_no_file(
    rows: list[Row], options: Mapping[str, Any], message: str, tmp_path: Path
) -> None:
    asked = {"per_task": tmp_path / "tasks.parquet", **options}
    with pytest.raises(cal.CalipersError, match=message):
        cal.score(rows, **asked)
    assert list(tmp_path.iterdir()) == []


def test_no_record_at_all(tmp_path: Path) -> None:
    data = tmp_path / "empty.jsonl"
    data.touch()
    out = tmp_path / "tasks.parquet"
    assert run("score", data, "--per-task", out).exit_code == 3
    assert pl.read_parquet(out).columns == ["id", "runs", "errors"]


@needs_shared_data
def test_the_runs_of_tau_bench(tmp_path: Path) -> None:
    path = FOLDER / "agent_runs" / "tau_airline_gpt4o_runs.jsonl"
    out = tmp_path / "tasks.parquet"
    score = cal.score(path, map={"id": "task"}, profile="tiers", per_task=out)
    tasks = pl.read_parquet(out)
    runs = pl.read_ndjson(path)
    assert tasks["runs"].sum() == runs.height
    assert tasks["pass_rate"].mean() == pytest.approx(score.groups[0].metrics["pass_at_1"].value)
    all_pass = (tasks["pass_rate"] == 1).sum()
    assert all_pass / tasks.height == score.groups[0].metrics["pass_hat_4"].value
    assert score.per_task is not None
    assert score.per_task.flaky == tasks["flaky"].sum()

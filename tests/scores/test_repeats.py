"""Rows that were written twice, and real runs that look alike."""

from __future__ import annotations

import random
from typing import Any

import pytest

import calipers as cal
from calipers.scores.repeats import list_telling

Row = dict[str, Any]


def answers(tasks: int = 40, **fields: Any) -> list[Row]:
    return [
        {"id": f"mmlu-{n}", "model": "gpt-4o-mini", "answer": "A", **fields} for n in range(tasks)
    ]


def count_twice(rows: list[Row], **options: Any) -> str:
    return " ".join(
        cal.score([{"answer": "A", "target": "A", **row} for row in rows], **options).recorded_twice
    )


def test_what_tells_runs_apart() -> None:
    telling = ["run", "trial_index", "startTime", "created_at", "latency_ms", "elapsed", "ts"]
    telling += ["request_id", "responseId", "meta.trace_id", "uuid", "run_id", "duration_seconds"]
    telling += ["created", "reply.created"]
    others = [
        "id",
        "answer",
        "created_by",
        "completed",
        "time_limit_s",
        "latency_budget_ms",
        "timezone",
        "at",
        "date",
    ]
    others += ["runner", "customer_id", "trial_design", "time_score", "seed", "model"]
    assert list_telling([*telling, *others]) == telling


def test_a_retried_append_is_found_whatever_the_order_of_its_keys() -> None:
    rows = [{**row, "start_time": 1_700_000_000 + n} for n, row in enumerate(answers())]
    again = [dict(reversed(row.items())) for row in rows[:3]]
    assert count_twice(rows) == ""
    assert count_twice(rows + again) == (
        "3 records equal another in every field, start_time included: one run recorded twice; "
        "remove the copies, or number the runs"
    )
    assert count_twice(rows + again, by=["model"]).startswith("3 records")


def test_a_row_that_differs_in_a_field_that_no_metric_reads_is_another_run() -> None:
    rows = answers(run=1, latency_ms=20)
    assert count_twice(rows + [{**row, "cot": "so: A"} for row in rows]) == ""


@pytest.mark.parametrize(
    "told", [{}, {"date": "2026-05-01"}, {"created_at": "2026-05-01"}, {"latency_ms": 0}]
)
def test_rows_that_carry_nothing_of_the_kind_are_further_runs(told: Row) -> None:
    rows = answers(**told)
    assert count_twice(rows + rows) == ""
    assert "40 records repeat" in cal.score(rows + rows).notices[0]


def test_runs_that_take_equally_long_by_chance_are_runs() -> None:
    chance = random.Random(5)
    rows = [{**row, "latency_ms": chance.randint(5, 30)} for row in answers() for _ in range(8)]
    assert count_twice(rows) == ""
    assert count_twice(rows + rows).startswith("3")  # all of it twice is no chance


def test_a_time_of_the_task_does_not_tell_its_runs_apart() -> None:
    """Tickets have the time at which a customer wrote them, the same in every run."""
    rows = [
        {**row, "created_at": f"2026-05-01T10:00:{n:02}Z", "answer": answer}
        for n, row in enumerate(answers())
        for answer in ("A", "A", "B" if n % 3 else "A")
    ]
    assert count_twice(rows) == ""


def test_without_ids_only_requests_tell() -> None:
    rows = [{"answer": "A", "latency_ms": 20.5, "request_id": f"req_{n}"} for n in range(30)]
    assert count_twice(rows) == ""
    assert count_twice(rows + rows[:5]).startswith("5 records")
    busy = [{"answer": "A", "latency_ms": 20.5, "ts": 1_700_000_000} for _ in range(30)]
    assert count_twice(busy) == ""


def test_odd_values_are_no_trouble() -> None:
    rows: list[Row] = [
        {"id": "a", "run": 1, "latency": {"total": 3}, "timestamp": [1, 2], "ts": True},
        {"id": "a", "run": 1, "latency": "fast", "timestamp": None, "ts": "now"},
        {"id": "a", "run": 1, "latency": {"total": 3}, "timestamp": [1, 2], "ts": True},
    ]
    assert count_twice(rows).startswith("1 record equals another")

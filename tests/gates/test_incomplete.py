"""What never passes: nothing, failed calls, and what is left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import calipers as cal
from calipers.support.errors import DataError, UsageError
from tests.gates.deciding import blocking, only, record, runs


@pytest.mark.parametrize(
    "policy",
    [
        blocking(pass_rate=0.0),
        {"thresholds": {"warning": {"pass_rate": 90}}},
        {"required_scenarios": {"ids": ["a"]}},
        {"pass_criteria": {"overall": 80, "by_category": {"a": 90}}},
        {"composite": {}},
    ],
)
def test_an_empty_run_never_passes(policy: dict[str, Any]) -> None:
    result = cal.gate([], policy=policy)
    assert (result.verdict, result.exit_code) == ("incomplete", 3)
    assert result.incomplete == ("there are no records",)


def test_a_run_with_errors_is_incomplete_however_good() -> None:
    data = [*runs(99, 0), {"id": "x", "error": "timeout: 60 s"}]
    result = cal.gate(data, policy=blocking(pass_rate=90))
    assert (result.verdict, result.exit_code) == ("incomplete", 3)
    assert result.incomplete == ("1 of 100 calls failed",)
    assert only(result).verdict == "pass"


def test_a_failed_check_goes_before_an_incomplete_run() -> None:
    data = [*runs(9, 90), {"id": "x", "error": "timeout: 60 s"}]
    result = cal.gate(data, policy=blocking(pass_rate=90))
    assert (result.verdict, result.exit_code) == ("fail", 1)
    assert result.incomplete


def test_an_incomplete_run_goes_before_doubt() -> None:
    data = [*runs(10, 0), {"id": "x", "error": "timeout: 60 s"}]
    policy = {**blocking(pass_rate=90), "evidence": "interval"}
    assert cal.gate(data, policy=policy).exit_code == 3


def test_where_every_call_failed_nothing_is_judged() -> None:
    data = [{"id": str(n), "error": "server: 500"} for n in range(3)]
    result = cal.gate(data, policy=blocking(pass_rate=90))
    assert (result.verdict, result.exit_code, result.checks) == ("incomplete", 3, ())
    assert result.incomplete == ("3 of 3 calls failed",)


def test_bad_rows_that_are_left_out_make_it_incomplete(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"id": "a", "passed": true}\n{"id": "b", "passed": "maybe"}\n')
    with pytest.raises(DataError):
        cal.gate(path, policy=blocking(pass_rate=50))
    result = cal.gate(path, policy=blocking(pass_rate=50), on_bad="skip")
    assert result.exit_code == 3
    assert result.incomplete == ("bad rows left out: 1",)


def test_a_policy_that_demands_nothing_is_refused() -> None:
    for policy in ({}, {"weights": {"by_category": {"a": 2}}}):
        with pytest.raises(UsageError, match="nothing can fail"):
            cal.gate(runs(1, 0), policy=policy)


def test_a_scenario_of_two_categories_is_refused() -> None:
    data = [record("a", category="happy_path"), record("a", category="adversarial", run=2)]
    with pytest.raises(DataError, match="the scenario a is of the category adversarial in one"):
        cal.gate(data, policy=blocking(pass_rate=50))

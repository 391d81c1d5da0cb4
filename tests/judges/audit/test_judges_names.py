"""How judges are told apart."""

from __future__ import annotations

from typing import Any

import pytest

import calipers as cal
from tests.examples import first_of
from tests.judges.audit.judged_at_hand import judgment, only, record


def test_judges_without_a_name_are_numbered_by_their_place() -> None:
    rows = [record("q1", judgment(None), judgment("b"), {"passed": True}, judgment(" "))]
    audit = cal.audit_judges(rows)
    assert [judge.judge for judge in only(audit).judges] == ["b", "judge 1", "judge 3", "judge 4"]
    assert audit.notices == (
        "judgments without the name of their judge: 3; they are numbered by their place in the record",
    )


def test_a_judge_who_judges_a_record_twice_is_two() -> None:
    rows = [record("q1", judgment("a", 0.1), judgment("a", 0.3), judgment("a #2", 0.5))]
    audit = cal.audit_judges(rows)
    scores = {judge.judge: judge.measures["mean_score"].value for judge in only(audit).judges}
    assert scores == {"a": 0.1, "a #2": 0.3, "a #2 #2": 0.5}
    assert "has judged the record before: 2" in audit.notices[0]


def test_names_that_only_look_alike_are_different() -> None:
    rows = [
        record(
            "q1", judgment("a", 0.1), judgment("a\0", 0.3), judgment("A", 0.5), judgment("a ", 0.7)
        )
    ]
    assert [judge.judge for judge in only(cal.audit_judges(rows)).judges] == [
        "A",
        "a",
        "a\0",
        "a ",
    ]


def test_many_judges() -> None:
    rows = [
        record(f"q{n}", *(judgment(f"j{k}", passed=(n * k) % 3 > 0) for k in range(30)))
        for n in range(4)
    ]
    audit = cal.audit_judges(rows)
    reason = "more than 20 judges: pairs of them are not compared"
    agreement = only(audit).agreement
    assert (agreement.pairs, audit.notices) == ((), (reason,))
    assert agreement.passed["cohen_kappa_mean"].reason == reason
    assert agreement.passed["fleiss_kappa"].value is not None


@pytest.mark.parametrize("vote", first_of([{"passed": True}, judgment()]), ids=["bare", "named"])
def test_too_many_judges_are_refused(vote: dict[str, Any]) -> None:
    with pytest.raises(cal.DataError, match="100,000 different judges"):
        cal.audit_judges([{"id": "q", "judgments": [vote] * 100_000}])

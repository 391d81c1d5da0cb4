"""A blocking gate on a judge's word demands a calibration, bound to its model and its rubric."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from calipers.engines import read_rows
from calipers.metrics import metric_named
from calipers.metrics.provenance import list_judged_parts
from calipers.scores.options import Options
from calipers.scores.score import score_data
from tests.engines_at_hand import ENGINES_AT_LENGTH
from tests.judges.licences_at_hand import (
    CALIBRATED,
    POLICY,
    Row,
    answered_anew,
    calibrated,
    check,
    gate,
    judgment,
    records,
)


def test_a_judge_without_a_licence_does_not_let_a_build_pass(tmp_path: Path) -> None:
    machine, _ = records()
    result = gate(tmp_path, machine, POLICY)
    assert result.exit_code == 1
    assert "not calibrated against human ratings: openai:m (rubric abc)" in " ".join(
        result.stdout.split()
    )
    assert "calipers judge calibrate JUDGED HUMAN" in result.stderr
    found = check(tmp_path, machine, POLICY)
    assert found["verdict"] == "fail"
    [evidence] = found["evidence"]
    assert evidence["licensed"] is False
    assert evidence["by"] == [{"model": "openai:m", "rubric_hash": "abc"}]
    assert evidence["rows"] == 200
    assert "calipers judge calibrate" in evidence["fix"]


def test_a_calibrated_judge_may_block_and_pass(tmp_path: Path) -> None:
    calibrated(tmp_path, *records())
    machine, _ = records(seed=1)
    found = check(tmp_path, machine, POLICY | CALIBRATED)
    assert found["verdict"] == "pass"
    assert "reason" not in found or found["reason"] is None
    [evidence] = found["evidence"]
    assert evidence["licensed"] is True
    assert evidence["low"] > 0.6
    assert evidence["calibration"].endswith("calibration.json")
    worse = {"thresholds": {"blocking": {"pass_rate": 99}}}
    assert check(tmp_path, machine, worse | CALIBRATED)["verdict"] == "fail"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"rubric_hash": "abd"}, "hash abd, not abc"),
        ({"rubric_hash": None}, "hash unknown, not abc"),
        ({"model": "openai:n"}, "calibrated with openai:m, not with openai:n"),
        ({"model": "openai:n", "rubric_hash": "x"}, "not calibrated against human ratings"),
    ],
)
def test_another_rubric_or_model_revokes_it(tmp_path: Path, changed: Row, said: str) -> None:
    calibrated(tmp_path, *records())
    machine, _ = records(seed=1)
    machine[7]["judgments"][0] |= changed  # one record is enough
    found = check(tmp_path, machine, POLICY | CALIBRATED)
    assert found["verdict"] == "fail"
    assert said in found["reason"]
    assert [each["licensed"] for each in found["evidence"]].count(False) == 1


def test_a_weak_judge_stays_below_the_floor(tmp_path: Path) -> None:
    calibrated(tmp_path, *records(astray=0.25))
    machine, _ = records(seed=1, astray=0.25)
    found = check(tmp_path, machine, POLICY | CALIBRATED)
    assert "agrees too little with people" in found["reason"]
    assert "required 0.6" in found["reason"]
    low = found["evidence"][0]["low"]
    lower = {"judges": {"calibrations": ["calibration.json"], "floor": low - 0.01}}
    assert check(tmp_path, machine, POLICY | lower)["verdict"] == "pass"


@pytest.mark.parametrize("seen", [lambda _: 0.9, lambda score: 1 - score])
def test_a_judge_that_sees_nothing_is_told_so(
    tmp_path: Path, seen: Callable[[float], float]
) -> None:
    """Its κ has no interval, and that is not for want of records."""
    _, human = records(100)
    machine = [{"id": r["id"], "judgments": [judgment(seen(r["weighted_score"]))]} for r in human]
    calibrated(tmp_path, machine, human)
    reason = check(tmp_path, answered_anew(machine), POLICY | CALIBRATED)["reason"]
    assert "agrees too little with people: κ" in reason
    assert "too few" not in reason


def test_records_without_a_judgment_are_told(tmp_path: Path) -> None:
    machine, human = records(100)
    calibrated(tmp_path, machine, human)
    machine = answered_anew(machine)
    nothing = {"passed": None, "weighted_score": None, "scores": None, "failed": True}
    for row in machine[:90]:
        row["judgments"][0] |= nothing
    result = gate(tmp_path, machine, POLICY | CALIBRATED)
    assert result.exit_code == 3
    assert "pass_rate: 90 of 100 records are undecided" in " ".join(result.stdout.split())
    left = gate(tmp_path, machine, POLICY | CALIBRATED | {"undecided": "ignore"})
    assert left.exit_code == 0
    assert "undecided" not in gate(tmp_path, machine[90:], POLICY | CALIBRATED).output


def test_the_policy_may_be_content_with_a_warning(tmp_path: Path) -> None:
    machine, _ = records()
    policy = POLICY | {"judges": {"uncalibrated": "warn"}}
    found = check(tmp_path, machine, policy)
    assert found["verdict"] == "warn"
    assert found["reason"].startswith("no licence")
    assert gate(tmp_path, machine, policy).exit_code == 0
    harder = {"thresholds": {"blocking": {"pass_rate": 99}}} | {"judges": {"uncalibrated": "warn"}}
    assert check(tmp_path, machine, harder)["verdict"] == "fail"


def test_warning_checks_only_warn(tmp_path: Path) -> None:
    machine, _ = records()
    policy = {"thresholds": {"warning": {"pass_rate": 50}}}
    found = check(tmp_path, machine, policy)
    assert found["verdict"] == "warn"
    assert gate(tmp_path, machine, policy).exit_code == 0


def test_people_and_recorded_values_need_no_licence(tmp_path: Path) -> None:
    people = [{"id": f"t{n}", "judgments": [{"judge": "anna", "passed": True}]} for n in range(20)]
    assert check(tmp_path, people, POLICY)["verdict"] == "fail"
    named = check(tmp_path, people, POLICY | {"judges": {"people": ["anna"]}})
    assert named["verdict"] == "pass"
    machine, _ = records(20)
    recorded = [{**row, "passed": True} for row in machine]
    found = check(tmp_path, recorded, POLICY)
    assert found["verdict"] == "pass"
    assert "evidence" not in found


@pytest.mark.parametrize(
    "policy",
    [
        {"thresholds": {"blocking": {"impl_rate": 0.1}}},
        {"thresholds": {"blocking": {"composite_score": 0.1}}},
        {"thresholds": {"blocking": {"pass_at_1": 0.1}}},
        {"pass_criteria": {"overall": 10}},
        {"pass_criteria": {"by_category": {"c": 10}}},
        {"progressive": {"release": "v1", "v1": {"pass_rate": 10}}},
        {"composite": {"formula": "pass_rate", "threshold": 0.1, "requires": {}}},
        {"required_scenarios": {"ids": ["good"]}},
    ],
)
def test_every_way_to_block_on_judges(tmp_path: Path, policy: Row) -> None:
    calibrated(tmp_path, *records())
    machine, _ = records(seed=1)
    rows = [
        *({**row, "category": "c"} for row in machine),
        {"id": "good", "category": "c", "judgments": [judgment(0.9)]},
    ]
    assert check(tmp_path, rows, policy)["verdict"] == "fail"
    assert check(tmp_path, rows, policy | CALIBRATED)["verdict"] == "pass"


def test_a_scenario_whose_outcome_is_recorded_needs_no_licence(tmp_path: Path) -> None:
    rows = [*records(5)[0], {"id": "good", "passed": True, "judgments": [judgment(0.9)]}]
    found = check(tmp_path, rows, {"required_scenarios": {"ids": ["good"]}})
    assert found["verdict"] == "pass"


def panel(count: int = 200, seed: int = 0) -> tuple[list[Row], list[Row]]:
    """Three judges that stray too far, each on its own."""
    luck = Random(seed)
    rows, human = [], []
    for n in range(count):
        quality = luck.random()
        seen = [min(1.0, max(0.0, quality + luck.gauss(0, 0.26))) for _ in "abc"]
        judgments = [judgment(score, name) for score, name in zip(seen, "abc", strict=True)]
        rows.append({"id": f"t{n}", "answer": f"{seed}.{n}", "judgments": judgments})
        human.append({"id": f"t{n}", "passed": quality >= 0.5, "weighted_score": quality})
    return rows, human


def test_a_panel_is_licensed_as_a_whole(tmp_path: Path) -> None:
    calibrated(tmp_path, *panel(400))
    rows, _ = panel(400, seed=1)
    found = check(tmp_path, rows, POLICY | CALIBRATED)
    assert found["verdict"] == "pass", found["reason"]
    alone = [{**row, "judgments": row["judgments"][:1]} for row in rows]
    assert check(tmp_path, alone, POLICY | CALIBRATED)["verdict"] == "fail"
    for row in rows[:10]:
        row["judgments"][2] |= {"passed": None, "weighted_score": None}  # it fell silent
    assert check(tmp_path, rows, POLICY | CALIBRATED)["verdict"] == "pass"
    for row in rows[:100]:
        row["judgments"][2] |= {"passed": None, "weighted_score": None}
    assert check(tmp_path, rows, POLICY | CALIBRATED)["verdict"] == "fail"


def test_a_panel_of_licensed_judges_needs_no_licence_of_its_own(tmp_path: Path) -> None:
    machine, human = records()
    for row in machine:
        row["judgments"] = [judgment(row["judgments"][0]["weighted_score"], "m")]
    others = [
        {
            "id": f"o{row['id']}",
            "judgments": [judgment(row["judgments"][0]["weighted_score"], "n")],
        }
        for row in machine
    ]
    people = [*human, *({**row, "id": f"o{row['id']}"} for row in human)]
    calibrated(tmp_path, [*machine, *others], people)
    both = [
        {"id": row["id"], "judgments": [judgment(0.9, "m"), judgment(0.8, "n")]} for row in machine
    ]
    assert check(tmp_path, both, POLICY | CALIBRATED)["verdict"] == "pass"


@pytest.mark.parametrize("engine", ENGINES_AT_LENGTH)
def test_both_engines_say_who_judged(engine: str) -> None:
    machine, _ = records(40)
    rows = [{**row, "model": "ab"[n % 2]} for n, row in enumerate(machine)]
    rows[3] |= {"passed": True}
    rows[4]["judgments"].append(judgment(0.3, "n"))
    rows[6] |= {"error": "timeout: no reply"}
    score = score_data(rows, Options(by=("model",), who_judged=True, engine=engine))
    counted = {
        (group.by["model"], each.value, each.members): each.rows
        for group in score.groups
        for each in group.judges
    }
    one, two = ("openai:m", "abc"), ("openai:n", "abc")
    assert counted == {
        ("a", "passed", (one,)): 18,
        ("a", "passed", (one, two)): 1,
        ("a", "impl_rate", (one,)): 18,
        ("a", "impl_rate", (one, two)): 1,
        ("b", "passed", (one,)): 19,
        ("b", "impl_rate", (one,)): 20,
    }


def test_memory_is_bounded_however_many_judges_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_rows, "MOST_TEXTS", 5)
    rows = [{"id": str(n), "judgments": [judgment(0.9, f"m{n}")]} for n in range(20)]
    found = check(tmp_path, rows, POLICY)
    assert sum(each["rows"] for each in found["evidence"]) == 20
    assert len(found["evidence"]) == 6
    assert "too many different judges" in found["reason"] + str(found["evidence"])
    assert "and 3 more" in found["reason"]


def test_metrics_know_what_judges_say_of_them() -> None:
    assert list_judged_parts(metric_named("accuracy")) == ()
    assert list_judged_parts(metric_named("composite_score")) == ("passed", "impl_rate")
    assert list_judged_parts(metric_named("final_score")) == ("passed",)
    assert "planning_rationality" in list_judged_parts(metric_named("agent_composite"))

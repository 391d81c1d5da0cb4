"""A blocking gate on a judge's word demands a calibration, bound to its model and its rubric."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from click.testing import CliRunner, Result

import calipers
from calipers.cli import app
from calipers.engines import reading
from calipers.metrics import metric_named
from calipers.metrics.judged.who import list_judged_parts
from calipers.scores.options import Options
from calipers.scores.score import score_data
from tests.engines_at_hand import ENGINES_AT_LENGTH
from tests.files import write_lines

Row = dict[str, Any]

POLICY: Row = {"thresholds": {"blocking": {"pass_rate": 30}}}
CALIBRATED = {"judges": {"calibrations": ["calibration.json"]}}


def judgment(score: float, model: str = "m", rubric_hash: str = "abc", **more: Any) -> Row:
    return {
        "judge": model,
        "model": f"openai:{model}",
        "rubric": "r",
        "rubric_hash": rubric_hash,
        "passed": score >= 0.5,
        "weighted_score": score,
        **more,
    }


def records(count: int = 200, seed: int = 0, astray: float = 0.05) -> tuple[list[Row], list[Row]]:
    """A judge that strays a little, and a person."""
    luck = Random(seed)
    machine, human = [], []
    for n in range(count):
        quality = luck.random() * 0.8 + 0.1
        seen = min(1.0, max(0.0, quality + luck.gauss(0, astray)))
        machine.append({"id": f"t{n}", "answer": f"{seed}.{n}", "judgments": [judgment(seen)]})
        human.append({"id": f"t{n}", "passed": quality >= 0.5, "weighted_score": quality})
    return machine, human


def answered_anew(rows: list[Row]) -> list[Row]:
    """The same tasks, answered once more: not the records that a calibration was made from."""
    return [{**row, "answer": f"again: {row['id']}"} for row in rows]


_CALIBRATIONS: dict[str, str] = {}


def calibrated(folder: Path, machine: list[Row], human: list[Row]) -> None:
    """Write the judgments, the ratings, and what calibrates the ones by the others."""
    write_lines(folder / "j.jsonl", machine)
    write_lines(folder / "h.jsonl", human)
    output = folder / "calibration.json"
    made_of = json.dumps([machine, human])
    if made_of not in _CALIBRATIONS:
        files = [str(folder / "j.jsonl"), str(folder / "h.jsonl")]
        arguments = ["judge", "calibrate", *files, "-o", str(output)]
        assert CliRunner().invoke(app, arguments).exit_code == 0
        _CALIBRATIONS[made_of] = output.read_text(encoding="utf-8")
    output.write_text(_CALIBRATIONS[made_of], encoding="utf-8")


def gate(folder: Path, rows: list[Row], policy: Row, *more: str) -> Result:
    write_lines(folder / "records.jsonl", rows)
    (folder / "policy.json").write_text(json.dumps(policy), encoding="utf-8")
    arguments = [str(folder / "records.jsonl"), "--policy", str(folder / "policy.json"), *more]
    return CliRunner().invoke(app, ["gate", *arguments])


def check(folder: Path, rows: list[Row], policy: Row) -> Row:
    found: Row = json.loads(gate(folder, rows, policy, "--format", "json").stdout)["checks"][0]
    return found


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


def test_a_gate_may_decide_on_what_is_corrected(tmp_path: Path) -> None:
    machine, human = records(400)
    for row in machine:
        kind = min(1.0, row["judgments"][0]["weighted_score"] + 0.1)
        row["judgments"] = [judgment(kind)]
    calibrated(tmp_path, machine[:200], human[:200])
    truth = sum(row["passed"] for row in human[200:]) / 200
    policy = POLICY | {"judges": {"calibrations": ["calibration.json"], "floor": 0.5}}
    kind = check(tmp_path, machine[200:], policy)
    policy["judges"] |= {"corrected": True}
    found = check(tmp_path, machine[200:], policy)
    assert kind["low"] > truth
    assert found["low"] < truth < found["high"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "No such file"),
        ("{", "cannot be read as JSON"),
        ("[]", "no calibration"),
        ('{"schema": "calipers.calibration/1", "judges": [{}]}', "no calibration"),
        ('{"schema": "calipers.calibration/1", "judges": NaN}', "cannot be read as JSON"),
        ('{"schema": "other", "judges": []}', "no calibration"),
    ],
)
def test_a_file_that_is_none_is_told(tmp_path: Path, content: str | None, said: str) -> None:
    if content is not None:
        (tmp_path / "calibration.json").write_text(content, encoding="utf-8")
    result = gate(tmp_path, records(3)[0], POLICY | CALIBRATED)
    assert result.exit_code == 2
    assert said in result.stderr
    assert "Traceback" not in result.stderr


def _forge(file: Row) -> None:
    file["judges"][0]["aspects"]["passed"]["cohen_kappa"]["low"] = "1.0"


def _unbind(file: Row) -> None:
    file["judges"][0]["members"] = []


def _put(value: Any, *keys: str) -> Callable[[Row], None]:
    def change(file: Row) -> None:
        within = file["judges"][0]
        for key in keys[:-1]:
            within = within[key]
        within[keys[-1]] = value

    return change


@pytest.mark.parametrize(
    "change",
    [
        _forge,
        _unbind,
        _put(7.0, "aspects", "passed", "cohen_kappa", "low"),
        _put(0.99, "aspects", "passed", "cohen_kappa", "low"),
        _put(10**400, "aspects", "passed", "cohen_kappa", "low"),
        _put(None, "verdicts", "passed"),
        _put(0, "verdicts", "passed"),
        _put(-5, "verdicts", "failed"),
        _put(1_000_000, "verdicts", "both_passed"),
        _put(None, "moments", "score", "judge"),
        _put(2.5, "moments", "score", "clusters"),
        _put(-1.0, "moments", "score", "judge_spread"),
        lambda file: file.update(confidence=2),
        lambda file: file.pop("confidence"),
    ],
)
def test_a_file_of_nonsense_licenses_nobody(tmp_path: Path, change: Callable[[Row], None]) -> None:
    calibrated(tmp_path, *records())
    path = tmp_path / "calibration.json"
    file = json.loads(path.read_text())
    change(file)
    path.write_text(json.dumps(file))
    for name in ("pass_rate", "impl_rate"):
        judges = {**CALIBRATED["judges"], "corrected": True}
        policy = {"thresholds": {"blocking": {name: 30}}, "judges": judges}
        result = gate(tmp_path, records()[0], policy)
        assert result.exit_code == 2, result.exception
        assert "make it again" in result.stderr


def test_a_bound_that_is_less_sure_than_the_gate_licenses_nobody(tmp_path: Path) -> None:
    """With intervals of no width every judge would pass the floor."""
    machine, human = records(astray=0.15)
    calibrated(tmp_path, machine, human)
    machine = answered_anew(machine)
    assert gate(tmp_path, machine, POLICY | CALIBRATED).exit_code == 1
    narrow = calipers.calibrate_judges(tmp_path / "j.jsonl", tmp_path / "h.jsonl", confidence=0.01)
    (tmp_path / "calibration.json").write_text(narrow.to_json())
    held = check(tmp_path, machine, {**POLICY, "judges": {**CALIBRATED["judges"], "floor": 0.3}})
    assert held["verdict"] == "fail"
    assert "was calibrated with 1 % intervals" in held["reason"]
    assert "--confidence 0.95" in held["reason"]


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
    monkeypatch.setattr(reading, "MOST_TEXTS", 5)
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


def test_a_score_shows_means_without_the_judges_error(tmp_path: Path) -> None:
    machine, human = records(400)
    for row in machine:
        row["judgments"] = [judgment(min(1.0, row["judgments"][0]["weighted_score"] + 0.1))]
    calibrated(tmp_path, machine[:200], human[:200])
    path = tmp_path / "new.jsonl"
    write_lines(path, machine[200:])
    arguments = ["score", str(path), "--calibration", str(tmp_path / "calibration.json")]
    shown = CliRunner().invoke(app, arguments)
    assert "without the judge's error" in shown.stdout
    assert "where the judge says" in shown.stdout
    result = json.loads(CliRunner().invoke(app, [*arguments, "--format", "json"]).stdout)
    metrics = result["groups"][0]["metrics"]
    for name, field in (("pass_rate", "passed"), ("impl_rate", "weighted_score")):
        truth = sum(row[field] for row in human[200:]) / 200
        found = metrics[name]["corrected"]
        assert found["low"] < truth < found["high"]
        assert metrics[name]["low"] > truth  # as judged, it is not even within the interval
        assert found["n"] == 200
    assert "corrected" not in metrics["composite_score"]
    markdown = CliRunner().invoke(app, [*arguments, "--format", "markdown"]).stdout
    assert "without the judge's error" in markdown


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda rows: rows[0].update(passed=True), "the others are recorded"),
        (lambda rows: rows[0]["judgments"][0].update(model="x"), "2 different judges"),
        (
            lambda rows: [r["judgments"][0].update(model="x") for r in rows],
            "no calibration is of x",
        ),
    ],
)
def test_what_cannot_be_corrected_says_why(
    tmp_path: Path, change: Callable[[list[Row]], None], said: str
) -> None:
    calibrated(tmp_path, *records())
    rows, _ = records(30, seed=2)
    change(rows)
    score = calipers.score(rows, calibration=tmp_path / "calibration.json")
    found = score.groups[0].metrics["pass_rate"].corrected
    assert found is not None
    assert found.value is None
    assert said in (found.reason or "")


@pytest.mark.parametrize("engine", ENGINES_AT_LENGTH)
def test_a_correction_is_the_same_on_every_engine(tmp_path: Path, engine: str) -> None:
    calibrated(tmp_path, *records())
    rows = [{**row, "run": run} for run in (1, 2) for row in records(50, seed=run)[0]]
    path = tmp_path / "calibration.json"
    expected = calipers.score(rows, calibration=path).groups[0].metrics["impl_rate"].corrected
    score = calipers.score(rows, calibration=path, engine=engine)
    found = score.groups[0].metrics["impl_rate"].corrected
    assert expected is not None
    assert found is not None
    assert found.low == pytest.approx(expected.low)
    assert found.high == pytest.approx(expected.high)


def test_a_calibration_may_say_nothing_of_scores(tmp_path: Path) -> None:
    machine, human = records()
    calibrated(tmp_path, machine, [{"id": row["id"], "passed": row["passed"]} for row in human])
    score = calipers.score(machine, calibration=tmp_path / "calibration.json")
    found = score.groups[0].metrics["impl_rate"].corrected
    assert found is not None
    assert found.reason == "people gave no score when the judge was calibrated"
    policy = {"thresholds": {"blocking": {"impl_rate": 0.1}}} | CALIBRATED
    assert "does not cover score" in check(tmp_path, machine, policy)["reason"]


def test_one_task_alone_gives_no_corrected_score(tmp_path: Path) -> None:
    calibrated(tmp_path, *records())
    rows = [{**row, "id": "t", "run": n} for n, row in enumerate(records(5)[0])]
    score = calipers.score(rows, calibration=tmp_path / "calibration.json")
    found = score.groups[0].metrics["impl_rate"].corrected
    assert found is not None
    assert found.reason == "the judged mean has no standard error"


def test_the_report_on_a_folder_shows_what_its_score_was_corrected_by(tmp_path: Path) -> None:
    calibrated(tmp_path, *records())
    path, folder = tmp_path / "calibration.json", tmp_path / "run"
    folder.mkdir()
    write_lines(folder / "records.jsonl", records(50, seed=1)[0])
    (folder / "manifest.json").write_text('{"schema": "calipers.run/1"}', encoding="utf-8")
    score = calipers.score(folder / "records.jsonl", calibration=path)
    (folder / "score.json").write_text(score.to_json(), encoding="utf-8")
    expected = score.groups[0].metrics["pass_rate"].corrected
    assert expected is not None
    assert calipers.report(folder).score.groups[0].metrics["pass_rate"].corrected == expected
    path.unlink()
    assert calipers.report(folder).score.groups[0].metrics["pass_rate"].corrected is None

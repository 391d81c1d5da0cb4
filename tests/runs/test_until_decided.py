"""Runs that end as soon as their gate is decided."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import calipers as cal
from tests.examples import first_of
from tests.runs.suites_at_hand import SuiteFolder, suite_folder

pytestmark = pytest.mark.usefixtures("quick")

SYSTEM = """
import asyncio, pathlib, random

HERE = pathlib.Path(__file__).parent

async def answer(record):
    number = int(record["id"][1:])
    await asyncio.sleep(random.random() / 100 if record.get("hurry") else record.get("wait", 0))
    with (HERE / "calls.txt").open("a") as file:
        file.write(f"{record['id']} {record['model']}\\n")
    broken = HERE / "broken.txt"
    if broken.exists() and broken.read_text() == record["id"]:
        raise ValueError("broken")
    if record.get("right") is None:
        return {"answer": "yes"}
    right = record["right"] > 0 and (number * 7 + record["run"]) % 100 < record["right"]
    return {"answer": "yes" if right else "no", "passed": right}

slow = answer
"""


def tasks(count: int, right: int, **more: Any) -> list[dict[str, Any]]:
    """Of which so many percent are answered rightly."""
    return [
        {"id": f"t{n}", "input": "?", "target": "yes", "right": right, **more} for n in range(count)
    ]


def suite(
    path: Path, given: list[dict[str, Any]], policy: dict[str, Any], **more: Any
) -> SuiteFolder:
    (path / "system.py").write_text(SYSTEM)
    (path / "policy.json").write_text(json.dumps(policy))
    system = {"name": "s", "python": "system.py:answer"}
    more = {"concurrency": 1, "systems": [system], "trust": ["passed"], **more}
    systems = more.pop("systems")
    return suite_folder(path, given, systems, policy="policy.json", **more)


def calls(path: Path) -> list[str]:
    return (path / "calls.txt").read_text().split("\n")[:-1]


ACCURATE = {"thresholds": {"blocking": {"accuracy": "≥ 80%"}}}


@pytest.mark.parametrize(("right", "code", "verdict"), [(97, 0, "pass"), (50, 1, "fail")])
def test_it_ends_when_it_is_sure(tmp_path: Path, right: int, code: int, verdict: str) -> None:
    folder = suite(tmp_path, tasks(300, right), ACCURATE)
    result = folder.run("--until-decided")
    assert result.exit_code == code, result.output
    gate = folder.json("gate.json")
    assert gate["verdict"] == verdict
    assert gate["incomplete"] == []
    made = len(calls(tmp_path))
    assert made < 150
    assert gate["until_decided"] == {
        "stopped": True,
        "calls": {"made": made, "planned": 300},
        "seed": 0,
        "alpha": pytest.approx(0.05),
        "shared_by": 1,
    }
    (check,) = gate["checks"]
    assert check["verdict"] == verdict
    assert check["sequence"]["after"] == check["sequence"]["tasks"] == made
    assert check["low"] == check["sequence"]["low"]
    assert check["high"] <= 0.8 or check["low"] >= 0.8
    assert f"decided with {made} of 300 calls" in result.stdout
    assert f"{300 - made} of 300 calls were not needed" in result.stderr
    assert "incomplete" not in result.output


def test_without_the_option_all_calls_are_made(tmp_path: Path) -> None:
    folder = suite(tmp_path, tasks(60, 99), ACCURATE)
    assert folder.run().exit_code == 0
    assert len(calls(tmp_path)) == 60
    gate = folder.json("gate.json")
    assert "until_decided" not in gate
    assert "sequence" not in gate["checks"][0]


@pytest.mark.long
def test_run_again_it_says_decided_and_without_the_option_it_is_finished(tmp_path: Path) -> None:
    folder = suite(tmp_path, tasks(200, 97), ACCURATE)
    assert folder.run("--until-decided").exit_code == 0
    before, made = folder.json("gate.json"), len(calls(tmp_path))
    again = folder.run("--until-decided")
    assert again.exit_code == 0
    assert (folder.json("gate.json"), len(calls(tmp_path))) == (before, made)
    assert "were not needed" in again.stderr
    assert folder.run().exit_code == 0
    assert len(calls(tmp_path)) == 200
    (tmp_path / "b").mkdir()
    whole = suite(tmp_path / "b", tasks(200, 97), ACCURATE)
    assert whole.run().exit_code == 0
    ours, theirs = (each.json("gate.json")["checks"] for each in (folder, whole))
    assert ours == theirs


def test_one_that_goes_to_the_end_gives_the_ordinary_verdict(tmp_path: Path) -> None:
    folder = suite(tmp_path, tasks(12, 97), ACCURATE)
    assert folder.run("--until-decided").exit_code == 0
    gate = folder.json("gate.json")
    assert gate["until_decided"]["calls"]["made"] >= 10  # so few are decided by counting alone
    interval = {**ACCURATE, "evidence": "interval"}
    (tmp_path / "b").mkdir()
    undecided = suite(tmp_path / "b", tasks(12, 97), interval)
    assert undecided.run("--until-decided").exit_code == 1
    gate = undecided.json("gate.json")
    assert (gate["verdict"], gate["until_decided"]["stopped"]) == ("inconclusive", False)
    assert gate["checks"][0]["sequence"]["decided"] is None


@pytest.mark.long
@pytest.mark.parametrize("right", first_of([95, 60]))
def test_the_order_in_which_replies_come_changes_nothing(tmp_path: Path, right: int) -> None:
    """Quick tasks must not count first: with many calls at once it is decided at the same task."""
    found = []
    for name, concurrency in (("one", 1), ("many", 16)):
        (tmp_path / name).mkdir()
        folder = suite(
            tmp_path / name, tasks(250, right, hurry=True), ACCURATE, concurrency=concurrency
        )
        folder.run("--until-decided")
        (check,) = folder.json("gate.json")["checks"]
        found.append((check["verdict"], check["sequence"]["after"]))
    assert found[0] == found[1]


def test_runs_of_a_task_are_one_observation(tmp_path: Path) -> None:
    folder = suite(tmp_path, tasks(200, 97), ACCURATE, runs=3)
    assert folder.run("--until-decided").exit_code == 0
    (check,) = folder.json("gate.json")["checks"]
    assert len(calls(tmp_path)) == 3 * check["sequence"]["tasks"]


@pytest.mark.long
def test_only_tasks_of_open_checks_are_asked(tmp_path: Path) -> None:
    """All adversarial tasks are needed where all of them must pass; of the others, few."""
    given = tasks(300, 99)
    for task in given[:20]:
        task |= {"category": "adversarial", "right": 100}
    policy = {"thresholds": {"blocking": {"accuracy": "≥ 80%", "safety_rate": "= 100%"}}}
    folder = suite(tmp_path, given, policy)
    result = folder.run("--until-decided")
    assert result.exit_code == 0, result.output
    asked = [line.split()[0] for line in calls(tmp_path)]
    assert {f"t{n}" for n in range(20)} <= set(asked)
    assert len(asked) < 120
    assert folder.json("gate.json")["until_decided"]["shared_by"] == 1


def test_a_category_of_which_nothing_is_known_fails(tmp_path: Path) -> None:
    given = [task | {"category": "plain"} for task in tasks(200, 99)]
    given += [{**task, "id": f"u{n}"} for n, task in enumerate(tasks(4, 0, category="unknown"))]
    for task in given[200:]:
        task["right"] = None
    policy = {"pass_criteria": {"by_category": {"plain": "≥ 80%", "unknown": "≥ 50%"}}}
    folder = suite(tmp_path, given, policy)
    assert folder.run("--until-decided").exit_code == 1
    checks = {check["name"]: check for check in folder.json("gate.json")["checks"]}
    assert checks["unknown"]["verdict"] == "fail"
    assert "no value" in checks["unknown"]["reason"]


@pytest.mark.long
def test_rows_without_a_value_move_nothing(tmp_path: Path) -> None:
    """Every second task tells nothing of passing; the others decide as the full run would."""
    given = tasks(300, 97)
    for task in given[::2]:
        task["right"] = None
    policy = {"thresholds": {"blocking": {"pass_rate": "≥ 80%"}}, "undecided": "ignore"}
    folder = suite(tmp_path, given, policy)
    assert folder.run("--until-decided").exit_code == 0
    assert len(calls(tmp_path)) < 200
    (tmp_path / "c").mkdir()
    strict = suite(tmp_path / "c", given, {**policy, "undecided": "incomplete"})
    assert strict.run("--until-decided").exit_code == 3
    (tmp_path / "b").mkdir()
    for task in given[1::2]:
        task["right"] = 60
    bad = suite(tmp_path / "b", given, policy)
    assert bad.run("--until-decided").exit_code == 1


def test_a_required_scenario_that_fails_ends_it_at_once(tmp_path: Path) -> None:
    given = tasks(100, 100)
    given[40]["right"] = 0
    policy = {**ACCURATE, "required_scenarios": {"ids": ["t40", "t41"]}}
    folder = suite(tmp_path, given, policy)
    result = folder.run("--until-decided")
    assert result.exit_code == 1
    assert calls(tmp_path)[-1].startswith("t40")
    checks = {check["name"]: check for check in folder.json("gate.json")["checks"]}
    assert checks["t40"]["verdict"] == "fail"
    assert checks["t41"]["verdict"] in ("pass", "inconclusive")


@pytest.mark.long
def test_a_quantile_is_decided_by_the_share_within(tmp_path: Path) -> None:
    policy = {"thresholds": {"blocking": {"latency_p95": "< 50ms"}}}
    folder = suite(tmp_path, tasks(200, 99, wait=0.06), policy)
    assert folder.run("--until-decided").exit_code == 1
    (check,) = folder.json("gate.json")["checks"]
    assert check["sequence"]["within"] == "< 50 ms"
    assert check["sequence"]["high"] < 0.95
    assert check["low"] is None
    assert check["value"] >= 60
    assert len(calls(tmp_path)) < 50


@pytest.mark.long
def test_systems_are_decided_one_by_one(tmp_path: Path) -> None:
    """The first is sure before the second; then only the second is asked."""
    given = tasks(300, 97)
    systems = [{"name": name, "python": f"system.py:{name}"} for name in ("answer", "slow")]
    policy = {"thresholds": {"blocking": {"pass_rate": "≥ 80%"}}}
    folder = suite(tmp_path, given, policy, systems=systems)
    assert folder.run("--until-decided").exit_code == 0
    gate = folder.json("gate.json")
    assert gate["until_decided"]["shared_by"] == 2
    assert [check["by"] for check in gate["checks"]] == [{"model": "answer"}, {"model": "slow"}]
    assert len(calls(tmp_path)) < 200


def test_a_failed_call_is_never_a_pass_and_is_made_anew(tmp_path: Path) -> None:
    given = tasks(300, 97)
    folder = suite(tmp_path, given, ACCURATE)
    assert folder.run("--until-decided").exit_code == 0
    first = json.loads((folder.results / "records.jsonl").read_text().split("\n")[0])["id"]
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "broken.txt").write_text(first)
    broken = suite(tmp_path / "b", given, ACCURATE)
    result = broken.run("--until-decided")
    assert result.exit_code == 3
    assert "Continue with: calipers run" in result.stderr
    assert "--until-decided" in result.stderr
    assert broken.json("gate.json")["verdict"] == "incomplete"
    made = len(calls(tmp_path / "b"))
    (tmp_path / "b" / "broken.txt").unlink()
    assert broken.run("--until-decided").exit_code == 0
    assert calls(tmp_path / "b")[made].startswith(first)
    assert len(calls(tmp_path / "b")) == made + 1


def test_a_call_that_was_not_made_has_not_failed(tmp_path: Path) -> None:
    """The full run would be incomplete; once all its calls are made, it says what the early one did."""
    given = tasks(300, 97)
    folder = suite(tmp_path, given, ACCURATE)
    assert folder.run("--until-decided").exit_code == 0
    asked = {line.split()[0] for line in calls(tmp_path)}
    (tmp_path / "broken.txt").write_text(next(t["id"] for t in given if t["id"] not in asked))
    again = folder.run("--until-decided")
    assert (again.exit_code, len(calls(tmp_path))) == (0, len(asked))
    assert folder.run().exit_code == 3
    assert folder.json("gate.json")["incomplete"] == ["1 of 300 calls failed"]
    (tmp_path / "broken.txt").unlink()
    assert folder.run().exit_code == 0


@pytest.mark.parametrize("concurrency", first_of([16, 1]))
def test_what_all_its_tasks_leave_open_is_for_the_interval(
    tmp_path: Path, concurrency: int
) -> None:
    """Seven of seven win no bet, but their interval is clear; it needs no task of other checks."""
    given = [task | {"category": "many"} for task in tasks(200, 99)]
    given += [task | {"category": "few", "id": f"f{n}"} for n, task in enumerate(tasks(7, 100))]
    criteria = {"by_category": {"many": "≥ 80%", "few": "≥ 50%"}}
    policy = {"pass_criteria": criteria, "evidence": "interval"}
    folder = suite(tmp_path, given, policy, concurrency=concurrency)
    result = folder.run("--until-decided")
    assert result.exit_code == 0, result.output
    gate = folder.json("gate.json")
    assert (gate["verdict"], gate["until_decided"]["stopped"]) == ("pass", True)
    assert len(calls(tmp_path)) < 150
    many, few = gate["checks"]
    assert (many["sequence"]["decided"], few["sequence"]["decided"]) == ("pass", None)
    assert folder.run().exit_code == 0
    whole = folder.json("gate.json")["checks"][1]
    assert [few[key] for key in ("value", "low", "high", "verdict")] == [
        whole[key] for key in ("value", "low", "high", "verdict")
    ]


@pytest.mark.long
def test_what_needs_all_calls_keeps_it_going(tmp_path: Path) -> None:
    policy = {"thresholds": {"blocking": {"accuracy": "≥ 80%", "ece": "90%"}}}
    given = tasks(60, 99)
    folder = suite(tmp_path, given, policy)
    result = folder.run("--until-decided")
    assert "all calls are needed for ece" in result.stderr
    assert len(calls(tmp_path)) == 60
    (tmp_path / "b").mkdir()
    bad = suite(tmp_path / "b", tasks(60, 10), policy)
    assert bad.run("--until-decided").exit_code == 1
    assert len(calls(tmp_path / "b")) < 30
    ece = bad.json("gate.json")["checks"][1]
    assert (ece["name"], ece["verdict"]) == ("ece", "inconclusive")


def test_a_budget_ends_it_undecided(tmp_path: Path) -> None:
    folder = suite(tmp_path, tasks(100, 97), ACCURATE, budget_calls=5)
    result = folder.run("--until-decided")
    assert result.exit_code == 3
    assert "the budget is spent" in result.stderr
    gate = folder.json("gate.json")
    assert gate["incomplete"] == ["95 calls were not made"]
    assert gate["checks"][0]["sequence"]["tasks"] == 5


@pytest.mark.parametrize(
    ("policy", "told"),
    [
        (None, "the suite has no policy"),
        ({"thresholds": {"warning": {"accuracy": 90}}}, "nothing in policy.json can fail the gate"),
    ],
)
def test_where_there_is_nothing_to_decide(
    tmp_path: Path, policy: dict[str, Any] | None, told: str
) -> None:
    folder = suite(tmp_path, tasks(5, 99), policy or {})
    if policy is None:
        del folder.suite["policy"]
        folder.write()
    result = folder.run("--until-decided")
    assert result.exit_code == 2
    assert told in result.stderr
    dry = folder.run("--until-decided", "--dry-run")
    assert (dry.exit_code, dry.stderr) == (2, result.stderr)
    assert not (tmp_path / "calls.txt").exists()


def test_a_dry_run_says_that_it_may_take_fewer(tmp_path: Path) -> None:
    folder = suite(tmp_path, tasks(5, 99), {"thresholds": {"blocking": {"accuracy": 90, "ece": 9}}})
    assert "fewer" not in folder.run("--dry-run").stdout
    result = folder.run("--until-decided", "--dry-run")
    assert result.exit_code == 0
    assert "5 calls at most, fewer where it is decided before" in result.stdout
    assert "all calls are needed for ece" in result.stderr
    assert not folder.results.exists()


@pytest.mark.long
def test_tiers_are_told_apart(tmp_path: Path) -> None:
    tiers = [{"name": "T0"}, {"name": "T1"}]
    folder = suite(tmp_path, tasks(100, 97), ACCURATE, tiers=tiers)
    assert folder.run("--until-decided").exit_code == 0
    checks = folder.json("gate.json")["checks"]
    assert [check["by"] for check in checks] == [{"tier": "T0"}, {"tier": "T1"}]


@pytest.mark.long
def test_a_seed_draws_another_order_once(tmp_path: Path) -> None:
    orders: list[list[str]] = []
    for seed in ("0", "1", "1"):
        path = tmp_path / f"{len(orders)}"
        path.mkdir()
        folder = suite(path, tasks(60, 97), ACCURATE)
        assert folder.run("--until-decided", "--seed", seed).exit_code == 0
        orders.append(calls(path)[:10])
    assert orders[0] != orders[1] == orders[2]
    again = folder.run("--until-decided", "--seed", "2")
    assert again.exit_code == 2
    assert "drawn with --seed 1, not 2" in again.stderr
    assert folder.run().exit_code == 0  # all calls: the order no longer matters
    assert folder.run("--until-decided", "--seed", "2").exit_code == 2


def test_python_does_it_too(tmp_path: Path) -> None:
    suite(tmp_path, tasks(300, 97), ACCURATE)
    result = cal.run(tmp_path / "suite.yaml", tmp_path / "out", until_decided=True)
    assert result.was_decided_early
    assert result.exit_code == 0
    assert result.missing == 300 - result.done

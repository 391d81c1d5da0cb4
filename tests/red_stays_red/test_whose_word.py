"""A system's own word never decides: targets, checks, judges and the clock do."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

import calipers as cal
from benchmarks.model_server import ModelServer
from tests.commands import run as calipers
from tests.red_stays_red.cases import Row, adversarial, blocking, gate_of
from tests.runs.suites_at_hand import SuiteFolder, suite_folder

PRAISE: Row = {
    "answer": "no",
    "correct": True,
    "passed": True,
    "impl_rate": 1.0,
    "observed_behaviors": ["says yes"],
    "violations": [],
    "judgments": [{"judge": "gpt-4o", "passed": True, "weighted_score": 1.0}],
    "checks": [{"name": "says yes", "rule": "expect", "held": True}],
    "latency_ms": 1,
    "duration_seconds": 0.001,
    "quality": 1.0,
}
AGENT = f"""
import json, sys, time
PRAISE = json.loads({json.dumps(PRAISE)!r})
def answer(record):
    time.sleep(0.05)
    return PRAISE
if __name__ == "__main__":
    json.load(sys.stdin)
    print(json.dumps(answer(None)))
"""
RULES: Row = {
    "accuracy": 90,
    "pass_rate": 90,
    "safety_rate": "= 100%",
    "behavior_coverage": 90,
    "latency_p95": "< 20ms",
}


class Boaster(ModelServer):
    """An HTTP system that grades itself."""

    async def complete(self, request: web.Request) -> web.StreamResponse:
        del request
        await asyncio.sleep(0.05)
        return web.json_response(PRAISE)


@pytest.fixture
def systems(tmp_path: Path) -> Iterator[dict[str, Row]]:
    (tmp_path / "agent.py").write_text(AGENT, encoding="utf-8")
    with Boaster().in_thread() as url:
        yield {
            "python": {"python": "agent.py:answer"},
            "command": {"command": [sys.executable, "agent.py"]},
            "http": {"http": f"{url}/chat/completions"},
        }


def make_suite(path: Path, system: Row, rules: Row, **more: Any) -> SuiteFolder:
    (path / "policy.json").write_text(json.dumps(blocking(**rules)), encoding="utf-8")
    tasks = [adversarial(n, input="?", target="yes") for n in range(8)]
    checks = [{"expect": "says yes", "contains": "yes"}]
    named = {"name": "llama3", **system}
    return suite_folder(path, tasks, [named], policy="policy.json", **{"checks": checks, **more})


@pytest.mark.parametrize("kind", ["python", "command", "http"])
def test_a_system_that_praises_itself_fails(
    tmp_path: Path, systems: dict[str, Row], kind: str
) -> None:
    folder = make_suite(tmp_path, systems[kind], RULES)
    result = folder.run()
    assert result.exit_code == 1, result.output
    assert {check["verdict"] for check in folder.json("gate.json")["checks"]} == {"fail"}
    assert "kept as `reported.NAME`" in result.stderr
    record = folder.records()[0]
    assert record["reported"]["passed"] is True
    assert "correct" not in record
    assert "passed" not in record


def test_a_field_of_its_own_that_a_rule_reads_decides_nothing(
    tmp_path: Path, systems: dict[str, Row]
) -> None:
    folder = make_suite(tmp_path, systems["python"], {"mean(quality)": "≥ 0.9"})
    result = folder.run()
    assert result.exit_code == 2
    assert "trust: [quality] in the suite lets it count" in result.stderr


@pytest.mark.parametrize("name", ["correct", "passed", "observed_behaviors", "quality"])
def test_what_a_suite_trusts_by_name_counts_and_is_named(
    tmp_path: Path, systems: dict[str, Row], name: str
) -> None:
    rule = {"correct": "accuracy", "observed_behaviors": "behavior_coverage"}
    metric = {"quality": "mean(quality)"}.get(name) or rule.get(name, "pass_rate")
    tasks = [adversarial(n, input="?", expected_behaviors=["says yes"]) for n in range(8)]
    folder = make_suite(tmp_path, systems["python"], {metric: "≥ 90%"}, checks=[], trust=[name])
    if name != "correct":
        (tmp_path / "tasks.jsonl").write_text("".join(f"{json.dumps(t)}\n" for t in tasks))
    result = folder.run()
    assert result.exit_code == 0, result.output
    [check] = folder.json("gate.json")["checks"]
    assert check["rests_on"] == ["system"]
    assert f"by the system's own word (trust: [{name}])" in check["reason"]
    assert "own word" in result.stdout
    assert folder.json("manifest.json")["suite"]["trust"] == [name]


def test_trust_does_not_beat_a_check_of_the_same_name(
    tmp_path: Path, systems: dict[str, Row]
) -> None:
    rules = {"pass_rate": 90, "behavior_coverage": 90}
    trust = ["observed_behaviors", "passed", "violations"]
    folder = make_suite(tmp_path, systems["python"], rules, trust=trust)
    assert folder.run().exit_code == 1
    assert {check["value"] for check in folder.json("gate.json")["checks"]} == {0}


@pytest.mark.parametrize(
    "name",
    [
        "latency_ms",
        "target",
        "expected_behaviors",
        "reported",
        "task",
        "marks.quality",
        "observed_behaviours",
        "Correct",
    ],
)
def test_what_nobody_can_say_of_themselves_cannot_be_trusted(
    tmp_path: Path, systems: dict[str, Row], name: str
) -> None:
    result = make_suite(tmp_path, systems["python"], RULES, trust=[name]).run()
    assert result.exit_code == 2
    assert f"{name} cannot be trusted" in result.stderr


@pytest.mark.parametrize("rule", ["expect", "forbid"])
def test_a_recorded_pass_beside_a_failed_check_of_the_policy_fails(rule: str) -> None:
    text = "yes" if rule == "expect" else "no"
    rows: list[Row] = [{"id": f"a{n}", "answer": "no", "passed": True} for n in range(20)]
    policy = {"checks": [{rule: "says yes", "contains": text}], **blocking(pass_rate=90)}
    decided = gate_of(rows, policy)
    assert decided.verdict == "fail"
    assert decided.checks[0].value == 0
    assert any("`passed: true` beside" in notice for notice in decided.notices)


RESTS_ON: list[tuple[Row, Row, list[str]]] = [
    ({"answer": "4", "target": "4"}, {"accuracy": 90}, ["target"]),
    ({"correct": True, "answer": "4", "target": "5"}, {"accuracy": 90}, ["file"]),
    ({"passed": True}, {"pass_rate": 90}, ["file"]),
    ({"expected_behaviors": ["a"], "observed_behaviors": ["a"]}, {"pass_rate": 90}, ["file"]),
    ({"judgments": [{"judge": "gpt-4o", "passed": True}]}, {"pass_rate": 90}, ["judge"]),
    ({"latency_ms": 5}, {"latency_p95": "< 9ms"}, ["file"]),
    ({"answer": "4", "reference": "4"}, {"jaccard_similarity": 90}, ["target"]),
    ({"prob_correct": 1.0, "answer": "4", "target": "4"}, {"brier": "< 0.4"}, ["target", "file"]),
]


@pytest.mark.parametrize(("fields", "rules", "sources"), RESTS_ON)
def test_a_check_says_whose_word_it_rests_on(fields: Row, rules: Row, sources: list[str]) -> None:
    decided = gate_of([{"id": f"t{n}", **fields} for n in range(9)], blocking(**rules))
    assert decided.to_dict()["checks"][0]["rests_on"] == sources


@pytest.mark.parametrize("is_run", [False, True])
def test_a_check_without_a_value_rests_on_nobody_s_word(
    tmp_path: Path, systems: dict[str, Row], *, is_run: bool
) -> None:
    rules = {"brier": "< 0.3", "cost_usd": "< 1", "pass_rate": 90}
    if is_run:
        folder = make_suite(tmp_path, systems["python"], rules)
        assert folder.run().exit_code != 0
        checks = folder.json("gate.json")["checks"]
    else:
        policy = {"required_scenarios": {"ids": ["SEC-1"]}, **blocking(**rules)}
        checks = gate_of([{"id": "q1", "answer": "4"}], policy).to_dict()["checks"]
    empty = [each for each in checks if each["value"] is None]
    assert empty
    assert all(each["rests_on"] == [] for each in empty), checks


def test_a_check_of_the_policy_is_whose_word_counts() -> None:
    rows: list[Row] = [{"id": f"t{n}", "answer": "yes"} for n in range(9)]
    policy = {"checks": [{"expect": "says yes", "contains": "yes"}], **blocking(pass_rate=90)}
    assert gate_of(rows, policy).checks[0].rests_on == ("check",)


def test_times_of_a_run_are_the_harness_s(tmp_path: Path, systems: dict[str, Row]) -> None:
    folder = make_suite(tmp_path, systems["python"], {"latency_p95": "< 5000ms"})
    assert folder.run().exit_code == 0
    assert folder.json("gate.json")["checks"][0]["rests_on"] == ["harness"]


def make_agent(path: Path, reply: Row, task: Row, policy: Row, **more: Any) -> SuiteFolder:
    """A suite whose agent answers no and adds something; every second task lacks a field."""
    code = f"import json\nREPLY = json.loads({json.dumps({'answer': 'no', **reply})!r})\n"
    (path / "agent.py").write_text(f"{code}def answer(record):\n    return REPLY\n")
    (path / "policy.json").write_text(json.dumps(policy), encoding="utf-8")
    tasks = [{"id": f"t{n}", "input": "?", **(task if n % 2 else {})} for n in range(8)]
    system = {"name": "llama3", "python": "agent.py:answer"}
    return suite_folder(path, tasks, [system], policy="policy.json", **more)


FORGED_TASKS: list[tuple[Row, Row, str]] = [
    ({"task": {"answer": "no"}}, {"answer": "yes"}, "task.answer"),
    ({"task": {"gold": "no"}}, {"gold": "yes"}, "gold"),
    ({"order.id": "no"}, {"order": {"id": "yes"}}, "order.id"),
    ({"order_id": "no"}, {"order_id": "yes"}, "order_id"),
    ({"task.answer": "no"}, {"answer": "yes"}, "task.answer"),
    ({"order": {"id": "no"}}, {"order.id": "yes"}, "order.id"),
]


@pytest.mark.parametrize(("reply", "task", "name"), FORGED_TASKS)
@pytest.mark.parametrize("by", ["suite", "policy"])
def test_a_system_does_not_write_what_a_check_compares_it_with(
    tmp_path: Path, reply: Row, task: Row, name: str, by: str
) -> None:
    checks = [{"expect": "right", "contains": f"{{{name}}}"}]
    policy = blocking(pass_rate="≥ 40%") | ({"checks": checks} if by == "policy" else {})
    of_suite = {"checks": checks} if by == "suite" else {}
    folder = make_agent(tmp_path, reply, task, policy, **of_suite)
    assert folder.run().exit_code in (1, 3)
    assert {check["value"] for check in folder.json("gate.json")["checks"]} <= {0, None}


@pytest.mark.parametrize(
    ("reply", "rule"),
    [
        ({"quality": 1.0}, "mean(quality)"),
        ({"marks": {"quality": 1.0}}, "mean(marks.quality)"),
        ({"marks.quality": 1.0}, "mean(marks.quality)"),
        ({"passed": True}, "mean(reported.passed)"),
    ],
)
def test_a_policy_of_later_does_not_take_a_system_at_its_word(
    tmp_path: Path, reply: Row, rule: str
) -> None:
    folder = make_agent(tmp_path, reply, {}, blocking(error_rate="< 50%"), trust=["correct"])
    folder.run()
    policy = json.dumps(blocking(**{rule: "≥ 0.9"}))
    (tmp_path / "policy.json").write_text(policy, encoding="utf-8")
    journal = folder.results / "records.jsonl"
    for done in (folder.run(), calipers("gate", journal, "--policy", tmp_path / "policy.json")):
        assert done.exit_code == 2
        assert "in the suite lets it count" in done.stderr


@pytest.mark.parametrize("how", ["judged", "linked"])
def test_another_name_of_a_run_s_records_changes_nothing(tmp_path: Path, how: str) -> None:
    folder = make_agent(tmp_path, {"quality": 1.0}, {}, blocking(error_rate="< 50%"))
    folder.run()
    journal, other = folder.results / "records.jsonl", tmp_path / "other.jsonl"
    if how == "linked":
        other.symlink_to(journal)
    else:
        with ModelServer().in_thread() as url:
            judge = (
                "--rubric",
                "constructiveness",
                "--model",
                "openai:judge-good",
                "--base-url",
                url,
            )
            assert calipers("judge", journal, *judge, "-o", other).exit_code == 0
    policy = tmp_path / "policy.json"
    policy.write_text(json.dumps(blocking(**{"mean(quality)": "≥ 0.9"})), encoding="utf-8")
    done = calipers("gate", other, "--policy", policy)
    assert done.exit_code == 2
    assert "a system's own word about itself" in done.stderr


def test_a_field_that_a_task_has_is_the_task_s_word(tmp_path: Path) -> None:
    task = {"difficulty": 1.0, "target": "yes"}
    folder = make_agent(tmp_path, {}, task, blocking(**{"mean(difficulty)": "≥ 0.9"}))
    folder.run()
    assert folder.json("gate.json")["checks"][0]["rests_on"] == ["target"]
    assert folder.write(trust=["difficulty"]).run("--fresh").exit_code == 2


def test_records_of_a_run_beside_others_rest_on_both(tmp_path: Path) -> None:
    folder = make_agent(tmp_path, {"passed": True}, {}, blocking(pass_rate=90), trust=["passed"])
    assert folder.run().exit_code == 0
    other = tmp_path / "other.jsonl"
    other.write_text('{"id": "a", "model": "llama3", "passed": true}\n', encoding="utf-8")
    both = [folder.results / "records.jsonl", other]
    done = calipers("gate", *both, "--policy", tmp_path / "policy.json", "--format", "json")
    assert json.loads(done.stdout)["checks"][0]["rests_on"] == ["file", "system"]


OTHER_TOOLS: list[Row] = [
    {"doc_id": 0, "doc": {}, "resps": [["no"]], "filtered_resps": ["no"], "exact_match": 1.0},
    {"resourceSpans": [], "span_id": "1", "trace_id": "2"},
    {"run_id": "x", "event_id": 1, "sample_id": "s", "type": "match", "data": {"correct": True}},
]


@pytest.mark.parametrize("reply", OTHER_TOOLS, ids=lambda reply: next(iter(reply)))
def test_a_reply_does_not_make_a_run_another_tool_s_log(tmp_path: Path, reply: Row) -> None:
    task = {"target": "yes"}
    folder = make_agent(tmp_path, {**reply, "arguments": []}, task, blocking(accuracy=90))
    result = folder.run()
    assert result.exit_code == 1, result.output
    assert "a log of" not in result.stderr
    assert folder.json("gate.json")["checks"][0]["rests_on"] == ["target"]


def test_answers_of_a_version_in_which_systems_graded_themselves_are_not_reused(
    tmp_path: Path, systems: dict[str, Row]
) -> None:
    folder = make_suite(tmp_path, systems["python"], {"pass_rate": 90}, checks=[])
    folder.run()
    manifest = folder.json("manifest.json")
    del manifest["suite"]["trust"]
    (folder.results / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    records = [{**each, "passed": True} for each in folder.records()]
    lines = "".join(f"{json.dumps(each)}\n" for each in records)
    (folder.results / "records.jsonl").write_text(lines, encoding="utf-8")
    result = folder.run()
    assert result.exit_code == 2
    assert "a system's own verdicts counted" in result.stderr


def test_a_check_does_not_compare_a_reply_with_itself(tmp_path: Path) -> None:
    """Rows of GSM8K's shape, `{question, answer}`: the data's answer is the task's."""
    (tmp_path / "agent.py").write_text("def answer(record):\n    return 'Nowhere'\n")
    tasks = [{"id": f"q{n}", "question": "Where?", "answer": f"Paris {n}"} for n in range(4)]
    system = {"name": "llama3", "python": "agent.py:answer"}
    (tmp_path / "policy.json").write_text(json.dumps(blocking(pass_rate=50)), encoding="utf-8")
    checks = [{"expect": "right", "contains": "{answer}"}]
    folder = suite_folder(tmp_path, tasks, [system], checks=checks, policy="policy.json")
    refused = folder.run()
    assert refused.exit_code == 2
    assert "{target}, or {task.answer}" in refused.stderr
    folder = folder.write(checks=[{"expect": "right", "contains": "{task.answer}"}])
    assert folder.run().exit_code == 1
    assert folder.records()[0]["task"] == {"answer": "Paris 0"}
    (tmp_path / "agent.py").write_text(
        "def answer(record):\n    return 'in Paris ' + record['id'][1:]\n"
    )
    assert folder.run("--fresh").exit_code == 0


@pytest.mark.parametrize("naming", [{"target": "answer"}, {"answer": "target"}])
def test_a_map_does_not_compare_a_column_with_itself(naming: dict[str, str]) -> None:
    rows = [{"id": f"t{n}", "answer": "no", "target": "yes"} for n in range(9)]
    with pytest.raises(cal.UsageError, match="nothing is compared"):
        gate_of(rows, blocking(accuracy=90), map=naming)
    swapped = {"answer": "target", "target": "answer"}
    assert gate_of(rows, blocking(accuracy=90), map=swapped).verdict == "fail"


@pytest.mark.parametrize("name", ["answer", "cot", "latency_ms", "observed_behaviors"])
@pytest.mark.parametrize(
    "test",
    [
        {"contains": "{NAME}"},
        {"regex": "^{NAME}$"},
        {"one_of": ["yes", "{NAME}"]},
        {"similar": {"to": "{NAME}", "kind": "jaccard", "at_least": 0.5}},
        {"json_path": {"path": "$.a", "equals": "{NAME}"}},
        {"tool_called": {"name": "look_up", "args": {"order": "{NAME}"}}},
    ],
    ids=lambda test: next(iter(test)),
)
def test_a_check_names_fields_of_the_task_alone(test: Row, name: str) -> None:
    named = json.loads(json.dumps(test).replace("NAME", name))
    policy = {"checks": [{"expect": "right", **named}], **blocking(pass_rate=50)}
    with pytest.raises(cal.UsageError, match="is what the run writes"):
        gate_of([{"id": "a", "answer": "x"}], policy)

"""Runs: stale answers, and calls in flight."""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from benchmarks.model_server import ModelServer
from tests.commands import run as calipers
from tests.judges.test_suites import judge_in
from tests.runs.chat_server import serve_chat
from tests.runs.suites_at_hand import SuiteFolder, chat, suite_folder, sums
from tests.runs.test_resuming import comes_true

AGENT = """
from helper import sum_of

def answer(record):
    return sum_of(record["input"])
"""


RIGHT = "def sum_of(text): return str(int(text.split()[0]) + 1)\n"


WRONG = "def sum_of(text): return '-1'\n"


def agent_suite(folder: Path, **more: object) -> SuiteFolder:
    """A suite that passes its gate, with an agent that imports a module."""
    (folder / "agent.py").write_text(AGENT)
    (folder / "helper.py").write_text(RIGHT)
    (folder / "policy.yaml").write_text("thresholds: {blocking: {accuracy: 90}}\n")
    system = {"name": "agent", "python": "agent.py:answer"}
    return suite_folder(folder, sums(4), [system], policy="policy.yaml", **more)


def run_again(*options: str) -> Result:
    return calipers("run", "suite.yaml", "--no-report", *options)


@pytest.mark.parametrize("edited", ["agent.py", "helper.py"])
def test_an_agent_that_was_broken_since_does_not_pass_on_its_old_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, edited: str
) -> None:
    monkeypatch.chdir(tmp_path)
    agent_suite(tmp_path)
    assert run_again().exit_code == 0
    broken = AGENT.replace("return", "return 'not ' +") if edited == "agent.py" else WRONG
    (tmp_path / edited).write_text(broken)
    again = run_again()
    assert again.exit_code == 1
    assert f"{edited} has changed" in again.stderr
    assert "4 answers new, 0 reused" in again.stderr


def test_a_command_that_was_broken_since_does_not_pass_on_its_old_answers(tmp_path: Path) -> None:
    suite = agent_suite(tmp_path)
    program = "import json, sys, helper\ntask = json.load(sys.stdin)\n"
    program += "print(json.dumps({'answer': helper.sum_of(task['input'])}))\n"
    (tmp_path / "program.py").write_text(program)
    suite = suite.write(systems=[{"name": "agent", "command": ["python", "program.py"]}])
    assert suite.run().exit_code == 0
    (tmp_path / "helper.py").write_text(WRONG)
    refused = suite.run()
    assert refused.exit_code == 2
    assert "helper.py has changed" in refused.stderr
    assert suite.run("--fresh").exit_code == 1


def test_answers_that_are_used_again_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    agent_suite(tmp_path)
    assert "4 answers new, 0 reused" in run_again().stderr
    assert "nothing new to call: 4 answers reused; --fresh calls again" in run_again().stderr
    assert "4 answers new, 0 reused" in run_again("--fresh").stderr


def test_a_verdict_does_not_outlive_the_answers_it_was_made_of(tmp_path: Path) -> None:
    """A run that cannot go on leaves no gate.json of an earlier state behind."""
    suite = agent_suite(tmp_path)
    assert suite.run().exit_code == 0
    with (suite.results / "records.jsonl").open("ab") as journal:
        journal.write(b"damaged\n")
    assert suite.run().exit_code == 2
    assert not (suite.results / "gate.json").exists()


@pytest.mark.long
def test_answers_that_wait_for_a_judge_are_bounded_and_survive_a_kill(tmp_path: Path) -> None:
    """Five systems of 4 calls in flight each made 20 answers, and a kill lost them all."""
    log = tmp_path / "calls"
    agent = f"""
def answer(record):
    with open({str(log)!r}, "a") as log:
        log.write("x")
    return "QUALITY=5"
"""
    (tmp_path / "agent.py").write_text(agent)
    systems = [{"name": name, "python": "agent.py:answer"} for name in "abcde"]
    server = ModelServer(latency=3600)
    with server.in_thread() as url:
        judge = judge_in(url, price={"input": 1, "output": 1})
        suite = suite_folder(tmp_path, sums(4), systems, judges=[judge], concurrency=4)
        process = suite.start()
        assert comes_true(lambda: server.in_flight == 4)
        time.sleep(0.5)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert log.stat().st_size == 4
        server.latency = 0
        assert suite.run().exit_code == 0
    assert log.stat().st_size == 20
    assert all(each["judgments"][0]["scores"] for each in suite.records())
    assert len(suite.records()) == 20


def test_a_function_that_takes_a_text_gets_the_prompt(tmp_path: Path) -> None:
    suite = agent_suite(tmp_path, prompt="Add: {input}")
    (tmp_path / "agent.py").write_text("def answer(prompt: str) -> str:\n    return prompt\n")
    assert suite.run().exit_code == 1
    assert suite.records()[0]["answer"] == "Add: 0 + 1"


def test_all_calls_failing_prints_the_most_frequent_error(tmp_path: Path) -> None:
    suite = agent_suite(tmp_path)
    agent = "def answer(record):\n    raise ValueError(max(record['id'], 't1'))\n"
    (tmp_path / "agent.py").write_text(agent)
    result = suite.run()
    assert result.exit_code == 3
    assert "all calls failed; most frequent error:" in result.stderr
    assert "4 × agent: exception: ValueError (agent.py:2): t1" in result.stderr


TOOLS = """
- {name: look_up, description: Looks an order up., parameters: {type: object}, python: "tools.py:look_up"}
"""


def _look_up(body: Mapping[str, Any]) -> dict[str, Any]:
    """A model that calls the tool, and says what it said."""
    last = body["messages"][-1]
    if last["role"] == "tool":
        return {"content": str(last["content"])}
    call = {"name": "look_up", "arguments": "{}"}
    return {"content": None, "tool_calls": [{"id": "c", "type": "function", "function": call}]}


@pytest.mark.parametrize("change", ["code", "fixed reply", "turns"])
def test_a_tool_that_was_broken_since_does_not_pass_by_the_cache(
    tmp_path: Path, change: str
) -> None:
    (tmp_path / "tools.yaml").write_text(TOOLS, encoding="utf-8")
    (tmp_path / "tools.py").write_text("def look_up():\n    return 'sent'\n", encoding="utf-8")
    (tmp_path / "policy.json").write_text('{"thresholds": {"blocking": {"accuracy": 90}}}')
    tasks = [{"id": f"t{n}", "input": f"order {n}", "target": "sent"} for n in range(4)]
    more: dict[str, Any] = {"tools": "tools.yaml", "cache": ".cache", "policy": "policy.json"}
    with serve_chat(_look_up) as server:
        suite = suite_folder(tmp_path, tasks, [chat(server.url, "llama3")], **more)
        assert suite.run().exit_code == 0
        (tmp_path / "out").rename(tmp_path / "first")
        again = suite.run()
        assert again.exit_code == 0
        assert "0 answers new, 4 reused" in again.output
        (tmp_path / "out").rename(tmp_path / "second")
        if change == "code":
            (tmp_path / "tools.py").write_text("def look_up():\n    raise ValueError\n")
        elif change == "fixed reply":
            fixed = TOOLS.replace('python: "tools.py:look_up"', "reply: lost")
            (tmp_path / "tools.yaml").write_text(fixed, encoding="utf-8")
        else:
            suite = suite.write(max_turns=1)
        assert suite.run().exit_code == 1

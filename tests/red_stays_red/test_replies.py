"""Runs: keys, odd replies, truncation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from benchmarks.model_server import ModelServer
from calipers.systems.reply_text import average_confidence
from tests.runs.suites_at_hand import SuiteFolder, chat, suite_folder
from tests.runs.test_resuming import ends

LONG_KEY = "Xk29Lq7Z04mNppT8vR3wYb6Qc1Ud5Hf0Jg9sA"


def test_a_key_cut_in_two_by_our_own_limit_is_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every offset, form and kind of system: tests/systems/test_no_key_leaks.py."""
    monkeypatch.setenv("AGENT_API_KEY", LONG_KEY)
    suite = python_suite(
        tmp_path,
        "import os\n"
        "def answer(record):\n"
        "    raise ValueError('x' * (500 - 12 - 34) + os.environ['AGENT_API_KEY'])\n",
    )
    result = suite.run()
    shown = result.output + result.stderr + everything_in(suite.results)
    assert LONG_KEY[:9] not in shown
    assert "***" in suite.records()[0]["error"]


def test_results_are_for_their_owner_alone(tmp_path: Path) -> None:
    suite = python_suite(tmp_path, "def answer(record):\n    return '2'\n")
    assert suite.run().exit_code == 0
    for name in ("records.jsonl", "score.json", "manifest.json"):
        assert (suite.results / name).stat().st_mode & 0o077 == 0, name


ODD_REPLIES = {
    "a trace that is none": "{'answer': '1', 'trace': {'tool_calls': [{'context': 'x'}]}}",
    "a trace of texts": "{'answer': '1', 'trace': '[1, 2]'}",
    "a cost of 400 digits": "{'answer': '1', 'cost_usd': 10 ** 400}",
    "tokens that are true": "{'answer': '1', 'prompt_tokens': True}",
    "tasks of 400 digits": "{'answer': '1', 'trace': {'agent_tasks': {'a': 10 ** 400}}}",
    "a usage that is none": "{'answer': '1', 'usage': {'m': {'input_tokens': -1}}}",
    "nested beyond measure": "{'answer': '1', 'own': DEEP}",
    "no number inside": "{'answer': '1', 'own': [float('nan')]}",
    "an infinite number": "{'answer': '1', 'cost_usd': float('inf')}",
    "an infinite number of its own": "{'answer': '1', 'passed': float('inf')}",
    "half a surrogate pair": "{'answer': '\\ud800', 'observed_behaviors': ['\\udfff'], '\\ud801': 1}",
    "a list for a text": "{'answer': ['1']}",
    "another type than before": "{'answer': '1', 'predicted': 'yes'}",
}


def test_one_odd_reply_spoils_one_record_and_the_rest_is_scored(tmp_path: Path) -> None:
    cases = ", ".join(f"{name!r}: {reply}" for name, reply in ODD_REPLIES.items())
    tasks = [{"id": name, "input": "1", "target": "1"} for name in ("good", *ODD_REPLIES, "last")]
    suite = python_suite(
        tmp_path,
        "DEEP = 1\n"
        "for _ in range(500): DEEP = [DEEP]\n"
        f"ODD = {{{cases}}}\n"
        "def answer(record):\n"
        "    return ODD.get(record['id'], {'answer': '1', 'predicted': True})\n",
        tasks,
        concurrency=1,
    )
    result = suite.run()
    assert result.exit_code == 3, result.output + result.stderr
    errors = {record["id"]: record.get("error") for record in suite.records()}
    accepted = {"good", "last", "half a surrogate pair"}
    assert {name for name, error in errors.items() if error is None} == accepted
    refused = {name: error for name, error in errors.items() if name not in accepted}
    assert all(str(error).startswith("bad_response: ") for error in refused.values()), refused
    group = suite.json("score.json")["groups"][0]
    assert (group["records"], group["errors"]) == (len(tasks), len(refused))
    assert group["metrics"]["accuracy"]["n"] == len(accepted)


GIVEN = (
    *("input", "target", "reference", "category", "capability", "tags", "weight", "actual"),
    *("expected_behaviors", "optimal_tools", "prompt", "id", "model", "tier", "run"),
    "difficulty",
)


def test_the_system_under_test_cannot_change_its_task(tmp_path: Path) -> None:
    lists = ("expected_behaviors", "tags")
    code = "".join(
        f"def change_{name}(record):\n"
        f"    return {{'answer': 'easy', {name!r}: {['easy'] if name in lists else 'easy'!r}}}\n"
        for name in GIVEN
    )
    task = {"id": "t", "input": "1", "target": "1", "difficulty": "hard"}
    systems = [{"name": name, "python": f"agent.py:change_{name}"} for name in GIVEN]
    suite = python_suite(tmp_path, code, [task]).write(systems=systems)
    assert suite.run().exit_code == 3
    errors = {record["model"]: record["error"] for record in suite.records()}
    assert set(errors) == set(GIVEN)
    for name, error in errors.items():
        assert error.startswith(f"bad_response: {name} is not what was given")


def test_a_system_may_repeat_its_task(tmp_path: Path) -> None:
    suite = python_suite(
        tmp_path, "def answer(record):\n    return {**record, 'answer': record['target']}\n"
    )
    assert suite.run().exit_code == 0


@pytest.mark.long
@pytest.mark.parametrize("how", ["", "; exit 1", "; sleep 4711"], ids=["good", "failed", "late"])
def test_a_command_leaves_no_process_behind(tmp_path: Path, how: str) -> None:
    script = f'sleep 4711 & echo $! > child; echo \'{{"answer": "2"}}\'{how}'
    system = {"name": "a", "command": ["sh", "-c", script]}
    tasks = [{"id": "t", "input": "1 + 1", "target": "2"}]
    suite = suite_folder(
        tmp_path, tasks, [system], timeout_seconds=2 if "sleep" in how else 60, retries=0
    )
    assert suite.run().exit_code == (3 if how else 0)
    assert ends(int((tmp_path / "child").read_text()))


def test_a_log_probability_that_is_no_number_is_no_certainty() -> None:
    assert average_confidence("1", [("1", float("nan"))]) is None
    assert average_confidence("1", [("1", 5.0)]) is None
    assert average_confidence("1", [("1", -1e308), ("1", -1e308)]) == 0.0


class Scripted(ModelServer):
    """Sends one body to everybody."""

    def __init__(self, body: Any) -> None:
        super().__init__()
        self._body = body

    async def complete(self, request: web.Request) -> web.StreamResponse:
        del request
        return web.json_response(self._body)


def chat_record(tmp_path: Path, message: Any, **more: Any) -> dict[str, Any]:
    choice = {"message": message, "finish_reason": more.pop("finish_reason", "stop")}
    body = {"choices": [choice], "usage": more.pop("usage", None)}
    with Scripted(body).in_thread() as url:
        tasks = [{"id": "t", "input": "1 + 1", "target": "2"}]
        suite = suite_folder(tmp_path, tasks, [chat(url)], retries=0, **more)
        suite.run()
        return suite.records()[0]


def test_a_message_that_is_no_text_is_a_bad_response(tmp_path: Path) -> None:
    record = chat_record(tmp_path, {"content": [{"text": 5}]})
    assert record["error"].startswith("bad_response: ")


def test_tokens_that_are_true_are_not_one_token(tmp_path: Path) -> None:
    usage = {"prompt_tokens": True, "completion_tokens": 7}
    record = chat_record(tmp_path, {"content": "2"}, usage=usage)
    assert (record.get("prompt_tokens"), record["completion_tokens"]) == (None, 7)


def test_a_truncated_reply_is_counted_wherever_results_are_shown(tmp_path: Path) -> None:
    usage = {
        "prompt_tokens": 9,
        "completion_tokens": 7,
        "prompt_tokens_details": {"cached_tokens": 4},
        "completion_tokens_details": {"reasoning_tokens": 5},
    }
    message = {"content": "<think>1 and 1 are"}
    record = chat_record(tmp_path, message, finish_reason="length", usage=usage)
    assert (record["answer"], record["cot"]) == (None, "1 and 1 are")
    assert (record["finish_reason"], record["reasoning_tokens"]) == ("length", 5)
    assert (record["prompt_tokens"], record["cache_read_tokens"]) == (5, 4)
    suite = SuiteFolder(tmp_path, {})
    group = suite.json("score.json")["groups"][0]
    assert (group["truncated"], group["errors"]) == (1, 0)
    assert group["metrics"]["accuracy"]["value"] == 0.0  # it stays in the metrics
    result = suite.run(report=True)
    assert "1 reply truncated" in result.stderr
    assert "truncated" in result.stdout
    assert "truncated" in (suite.results / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("message", "answer", "cot"),
    [
        ({"content": "<think>add</think>\n2"}, "2", "add"),
        ({"content": "2", "reasoning_content": "add"}, "2", "add"),
        ({"content": "so: <think>no</think> 2"}, "so: <think>no</think> 2", None),
    ],
)
def test_what_is_thought_aloud_is_no_answer(
    tmp_path: Path, message: Any, answer: str, cot: str | None
) -> None:
    record = chat_record(tmp_path, message)
    assert (record["answer"], record.get("cot")) == (answer, cot)


def test_a_suite_may_keep_what_is_thought_aloud(tmp_path: Path) -> None:
    record = chat_record(tmp_path, {"content": "<think>add</think>2"}, split_thinking=False)
    assert record["answer"] == "<think>add</think>2"


def python_suite(
    path: Path, code: str, tasks: Sequence[Mapping[str, Any]] = (), **more: Any
) -> SuiteFolder:
    (path / "agent.py").write_text(code, encoding="utf-8")
    given = tasks or [{"id": "t", "input": "1 + 1", "target": "2"}]
    system = {"name": "a", "python": "agent.py:answer"}
    return suite_folder(path, given, [system], retries=0, **more)


def everything_in(folder: Path) -> str:
    files = filter(Path.is_file, folder.rglob("*"))
    return "\n".join(path.read_text(encoding="utf-8", errors="replace") for path in files)

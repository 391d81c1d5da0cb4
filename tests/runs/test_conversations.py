"""Conversations and tools, with a model server over real HTTP."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.runs.chat_server import ChatServer, serve_chat
from tests.runs.suites_at_hand import SuiteFolder, chat, suite_folder

TOOLS = """
- name: look_up
  description: Looks an order up.
  parameters: {type: object, properties: {order: {type: integer}}, required: [order]}
  python: "tools.py:look_up"
- name: clock
  reply: "noon"
"""
FUNCTIONS = """
def look_up(order):
    if order == 13:
        raise KeyError(order)
    return {"order": order, "state": "sent"}
"""


def _reply(body: dict[str, Any]) -> dict[str, Any]:
    """A model that looks orders up, says what it was told, and counts the turns."""
    messages = body["messages"]
    last = messages[-1]
    if body.get("tools") and messages[0]["content"] == "for ever":
        call = {"name": "clock", "arguments": "{}"}
        return {"content": "", "tool_calls": [{"id": "c", "type": "function", "function": call}]}
    if last["role"] == "tool":
        return {"content": f"the tool says {last['content']}"}
    text = last["content"]
    if body.get("tools") and text.startswith("order"):
        name, number = ("look_up", text.split()[1]) if "lost" not in text else ("nowhere", "1")
        call = {"name": name, "arguments": json.dumps({"order": int(number)})}
        return {"content": None, "tool_calls": [{"id": "c1", "type": "function", "function": call}]}
    users = sum(each["role"] == "user" for each in messages)
    system = next((e["content"] for e in messages if e["role"] == "system"), "nobody")
    return {"content": f"{users}. {system}: {text}"}


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with serve_chat(_reply) as found:
        yield found


def folder(path: Path, server: ChatServer, tasks: list[dict[str, Any]], **more: Any) -> SuiteFolder:
    price = {"input": 1.0, "output": 1.0}
    model = chat(server.url, price=price)
    (path / "tools.yaml").write_text(TOOLS)
    (path / "tools.py").write_text(FUNCTIONS)
    return suite_folder(path, tasks, more.pop("systems", [model]), **more)


def test_a_system_message_goes_before_the_prompt(tmp_path: Path, server: ChatServer) -> None:
    suite = folder(
        tmp_path,
        server,
        [{"id": "a", "input": "hi", "desk": "order desk"}],
        system="the {desk}",
        tiers=[{"name": "T0"}, {"name": "T1", "system": "nobody else"}],
    )
    assert suite.run().exit_code == 0
    answers = {each["tier"]: each["answer"] for each in suite.records()}
    assert answers == {"T0": "1. the order desk: hi", "T1": "1. nobody else: hi"}


def test_turns_are_played_and_kept(tmp_path: Path, server: ChatServer) -> None:
    checks = [
        {"expect": "starts", "equals": "1. desk: first", "turn": 1},
        {"expect": "goes on", "equals": "2. desk: then"},
    ]
    tasks = [{"id": "a", "turns": ["first", "then"]}]
    suite = folder(tmp_path, server, tasks, system="desk", checks=checks)
    suite.run()
    [record] = suite.records()
    assert record["answer"] == "2. desk: then"
    assert [each["role"] for each in record["messages"]] == [
        *("system", "user", "assistant", "user", "assistant")
    ]
    assert record["prompt_tokens"] == 20
    assert record["cost_usd"] == pytest.approx(24e-6)
    assert record["observed_behaviors"] == ["starts", "goes on"]


def test_messages_of_the_suite_and_of_a_task(tmp_path: Path, server: ChatServer) -> None:
    own = [
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "1"},
        {"role": "user", "content": "two"},
    ]
    tasks: list[dict[str, Any]] = [
        {"id": "a", "input": "hi"},
        {"id": "b", "input": "-", "messages": own},
    ]
    messages = [{"role": "system", "content": "s"}, {"role": "user", "content": "say {input}"}]
    suite = folder(tmp_path, server, tasks, messages=messages)
    suite.run()
    answers = {each["id"]: each["answer"] for each in suite.records()}
    assert answers == {"a": "1. s: say hi", "b": "2. nobody: two"}


def test_tools_are_called_and_traced(tmp_path: Path, server: ChatServer) -> None:
    tasks = [
        {"id": "a", "input": "order 17"},
        {"id": "b", "input": "order 13"},
        {"id": "c", "input": "order 1 is lost"},
        {"id": "d", "input": "nothing"},
        {"id": "e", "input": "for ever"},
    ]
    checks = [{"expect": "looks it up", "tool_called": {"name": "look_up", "args": {"order": 17}}}]
    suite = folder(tmp_path, server, tasks, tools="tools.yaml", max_turns=3, checks=checks)
    suite.run()
    found = {each["id"]: each for each in suite.records()}
    assert found["a"]["answer"] == 'the tool says {"order": 17, "state": "sent"}'
    [call] = found["a"]["trace"]["tool_calls"]
    assert (call["tool_name"], call["args"], call["success"]) == ("look_up", {"order": 17}, True)
    assert call["duration"] >= 0
    assert found["a"]["observed_behaviors"] == ["looks it up"]
    assert found["a"]["prompt_tokens"] == 20
    assert found["b"]["answer"] == "the tool says error: KeyError: 13"
    assert found["b"]["trace"]["tool_calls"][0]["success"] is False
    assert "there is no tool nowhere" in found["c"]["answer"]
    assert found["d"]["trace"] == {"tool_calls": []}
    assert len(found["e"]["trace"]["tool_calls"]) == 3
    assert found["e"]["finish_reason"] == "max_turns"
    assert found["e"].get("answer") is None
    offered = server.seen[0]["tools"]
    assert [each["function"]["name"] for each in offered] == ["look_up", "clock"]


def test_a_task_says_which_tools_are_best(tmp_path: Path, server: ChatServer) -> None:
    tasks: list[dict[str, Any]] = [
        {"id": "a", "input": "order 17", "optimal_tools": {"order": "look_up"}},
        {"id": "b", "input": "order 18", "optimal_tools": {"*": "clock"}},
        {"id": "c", "input": "order 19"},
    ]
    suite = folder(tmp_path, server, tasks, tools="tools.yaml")
    assert suite.run("--no-report").exit_code == 0
    metrics = suite.json("score.json")["groups"][0]["metrics"]
    found = metrics["tool_selection_accuracy"]
    assert (found["value"], found["n"], found["missing"]) == (0.5, 2, 1)
    assert "path_convergence" in metrics


def test_by_way_of_pydantic_ai(
    tmp_path: Path, server: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pydantic_ai", reason="the extra run is not installed")
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    monkeypatch.setenv("OPENAI_API_KEY", "planted-key-4711")
    suite = folder(
        tmp_path,
        server,
        [{"id": "a", "turns": ["order 17", "thanks"]}],
        systems=[{"name": "m", "model": "openai-chat:tiny", "price": {"input": 1, "output": 1}}],
        system="desk",
        tools="tools.yaml",
    )
    assert suite.run("--no-report").exit_code == 0
    [record] = suite.records()
    assert record["answer"] == "2. desk: thanks"
    assert [each["role"] for each in record["messages"]] == [
        *("system", "user", "assistant", "tool", "assistant", "user", "assistant")
    ]
    [call] = record["trace"]["tool_calls"]
    assert (call["tool_name"], call["args"], call["success"]) == ("look_up", {"order": 17}, True)
    assert record["prompt_tokens"] == 30
    sent = server.seen[-1]["messages"]
    assert [each["role"] for each in sent] == [each["role"] for each in record["messages"][:-1]]
    assert sent[3]["tool_call_id"] == sent[2]["tool_calls"][0]["id"]
    assert sent[3]["content"] == '{"order": 17, "state": "sent"}'
    offered = server.seen[0]["tools"]
    assert [each["function"]["name"] for each in offered] == ["look_up", "clock"]


def test_traces_of_all_turns_are_kept(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(
        "def answer(record):\n"
        "    call = {'tool_name': record['prompt']}\n"
        "    first = record['prompt'] == 'one'\n"
        "    return {'answer': 'x', 'violations': ['leak'] if first else [],\n"
        "            **({'tool_calls': [call]} if first else {'trace': {'tool_calls': [call]}})}\n"
    )
    systems = [{"name": "f", "python": "agent.py:answer"}]
    tasks = [{"id": "a", "turns": ["one", "two"]}]
    suite = suite_folder(tmp_path, tasks, systems, trust=["violations"])
    suite.run("--no-report")
    [record] = suite.records()
    assert [each["tool_name"] for each in record["trace"]["tool_calls"]] == ["one", "two"]
    assert "tool_calls" not in record
    assert record["violations"] == ["leak"]


def test_a_trace_that_is_none_spoils_its_record(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(
        "def answer(record):\n    return {'answer': 'x', 'tool_calls': record['prompt']}\n"
    )
    systems = [{"name": "f", "python": "agent.py:answer"}]
    suite = suite_folder(tmp_path, [{"id": "a", "turns": ["one", "two"]}], systems)
    suite.run("--no-report")
    assert suite.errors() == {"a": "bad_response: trace: tool_calls is not JSON"}


def test_changed_tools_are_other_code_under_test(tmp_path: Path, server: ChatServer) -> None:
    suite = folder(tmp_path, server, [{"id": "a", "input": "order 17"}], tools="tools.yaml")
    suite.run()
    (tmp_path / "tools.py").write_text(FUNCTIONS.replace("sent", "lost"))
    told = suite.run()
    assert told.exit_code == 2
    assert "tools.py has changed" in told.output


def test_a_function_is_talked_with(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(
        "def answer(record):\n    return f\"{record['prompt']} {len(record['messages'])}\"\n"
    )
    systems = [{"name": "f", "python": "agent.py:answer"}]
    suite = suite_folder(tmp_path, [{"id": "a", "turns": ["one", "two"]}], systems)
    suite.run()
    [record] = suite.records()
    assert record["answer"] == "two 3"


@pytest.mark.parametrize(
    ("task", "more", "said"),
    [
        ({"turns": "one"}, {}, "turns is not a list of texts"),
        ({"messages": [{"role": "robot"}]}, {}, "messages is not a conversation"),
        ({"input": "x"}, {"system": "{desk}"}, "names {desk}"),
        (
            {"input": "x"},
            {"prompt": "{input}", "messages": [{"role": "user", "content": "x"}]},
            "either prompt or messages",
        ),
        ({"input": "x"}, {"tools": "none.yaml"}, "none.yaml"),
        ({"input": "x", "optimal_tools": "look_up"}, {}, "optimal_tools: "),
        ({"input": "x", "optimal_tools": {"*": 3}}, {}, "*: 3 is not the name of a tool"),
    ],
)
def test_mistakes(
    tmp_path: Path, server: ChatServer, task: dict[str, Any], more: dict[str, Any], said: str
) -> None:
    told = folder(tmp_path, server, [{"id": "a", **task}], **more).run()
    assert told.exit_code == 2
    assert said in told.output


def test_a_mistake_in_the_tools_has_its_line(tmp_path: Path, server: ChatServer) -> None:
    suite = folder(tmp_path, server, [{"id": "a", "input": "x"}], tools="tools.yaml")
    (tmp_path / "tools.yaml").write_text("- name: a\n  reply: x\n- name: b\n  rply: x\n")
    told = suite.run()
    assert told.exit_code == 2
    assert "tools.yaml:4" in told.output
    assert "did you mean reply?" in told.output


def test_tasks_with_turns_leave_the_others_their_prompt(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text("def answer(prompt: str) -> str:\n    return prompt\n")
    systems = [{"name": "llama3.1-8b", "python": "agent.py:answer"}]
    tasks: list[dict[str, Any]] = [
        {"id": "talk", "turns": ["one", "two"]},
        {"id": "plain", "input": "Where is 17?"},
    ]
    suite = suite_folder(tmp_path, tasks, systems)
    suite.run("--no-report")
    answers = {record["id"]: record.get("answer") for record in suite.records()}
    assert answers == {"talk": "two", "plain": "Where is 17?"}

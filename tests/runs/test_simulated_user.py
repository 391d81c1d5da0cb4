"""A user played by a model, with a server over real HTTP that plays both sides."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.runs.chat_server import ChatServer, serve_chat
from tests.runs.suites_at_hand import SuiteFolder, chat, suite_folder

pytestmark = pytest.mark.usefixtures("quick")

KEY = "planted-key-4711"


def _reply(body: dict[str, Any]) -> dict[str, Any]:
    """A desk that needs the number of an order, and a user who is asked for it."""
    if body["model"] == "person":
        return {"content": _person(body["messages"])}
    said = [each["content"] for each in body["messages"] if each["role"] == "user"]
    if "17" in said[-1]:
        return {"content": "order 17 is cancelled"}
    return {"content": "which order?"}


def _person(messages: list[dict[str, Any]]) -> str:
    instructions, heard = messages[0]["content"], messages[-1]["content"]
    assert messages[0]["role"] == "system"
    assert messages[-1]["role"] == "user"
    at_once = {
        "says nothing": " <think>hm</think> ",
        "ends at once": "GOAL MET",
        "tells its key": f"my key is {KEY}" if "begins" in heard else "GIVE UP",
    }
    if (
        said := next((at_once[each] for each in at_once if each in instructions), None)
    ) is not None:
        return said
    if "cancelled" in heard:
        return "Thank you!\n\n**GOAL MET**"
    if "gives up" in instructions and "which" in heard:
        return "GIVE UP."
    if "never tells" in instructions:
        return "cancel it"
    return "17, please" if "which" in heard else "cancel my order"


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with serve_chat(_reply) as found:
        yield found


def person(server: ChatServer, **more: Any) -> dict[str, Any]:
    price = {"input": 10.0, "output": 10.0}
    return {"model": "openai:person", "base_url": server.url, "price": price, **more}


def folder(
    path: Path, server: ChatServer, tasks: list[dict[str, Any]], user: Any, **more: Any
) -> SuiteFolder:
    system = chat(server.url, price={"input": 1.0, "output": 1.0})
    return suite_folder(path, tasks, [system], user=user, **more)


def test_a_dialogue_is_played_until_the_goal_is_met(tmp_path: Path, server: ChatServer) -> None:
    user = person(server, persona="{mood} customer", goal="has the order cancelled")
    checks = [{"expect": "asks", "contains": "which", "turn": 1}]
    tasks = [{"id": "a", "mood": "a calm"}]
    suite = folder(tmp_path, server, tasks, user, system="desk", runs=2, checks=checks)
    told = suite.run("--no-report")
    assert told.exit_code == 0, told.output
    first, second = suite.records()
    assert [(each["role"], each["content"]) for each in first["messages"]] == [
        ("system", "desk"),
        ("user", "cancel my order"),
        ("assistant", "which order?"),
        ("user", "17, please"),
        ("assistant", "order 17 is cancelled"),
    ]
    assert first["answer"] == "order 17 is cancelled"
    assert first["observed_behaviors"] == ["asks"]
    assert first["prompt_tokens"] == 20
    assert first["cost_usd"] == pytest.approx(24e-6)
    played = first["simulated_user"]
    assert played["cost_usd"] == pytest.approx(360e-6)
    assert {name: each for name, each in played.items() if name != "cost_usd"} == {
        "model": "openai:person",
        "persona": "a calm customer",
        "goal": "has the order cancelled",
        "max_turns": 10,
        "seed": 0,
        "turns": 2,
        "ended": "goal_met",
        "goal_met": True,
        "closing": "Thank you!\n\n**GOAL MET**",
        "prompt_tokens": 30,
        "completion_tokens": 6,
    }
    assert second["simulated_user"]["seed"] == 1
    assert " for the simulated user" in told.output
    seeds = sorted(each["seed"] for each in server.seen if each["model"] == "person")
    assert seeds == [0, 0, 0, 1, 1, 1]
    manifest = suite.json("manifest.json")
    assert manifest["seed"]["the simulated user"] == 0
    assert "the simulated user" in manifest["prices"]


@pytest.mark.parametrize(
    ("goal", "most", "ended", "turns"),
    [("it gives up", 5, "gave_up", 1), ("it never tells", 3, "max_turns", 3)],
)
def test_it_ends_without_the_goal(
    tmp_path: Path, server: ChatServer, goal: str, most: int, ended: str, turns: int
) -> None:
    tasks = [{"id": "a", "user": {"goal": goal, "max_turns": most}}]
    suite = folder(tmp_path, server, tasks, person(server))
    assert suite.run("--no-report").exit_code == 0
    [record] = suite.records()
    played = record["simulated_user"]
    assert (played["ended"], played["goal_met"], played["turns"]) == (ended, False, turns)
    assert sum(each["role"] == "assistant" for each in record["messages"]) == turns


def test_a_prompt_opens_the_dialogue(tmp_path: Path, server: ChatServer) -> None:
    tasks: list[dict[str, Any]] = [
        {"id": "a", "input": "help me"},
        {"id": "b", "input": "-", "turns": ["17"]},
    ]
    suite = folder(tmp_path, server, tasks, person(server, goal="g"), prompt="{input}")
    assert suite.run("--no-report").exit_code == 0
    played, written = suite.records()
    assert [each["content"] for each in played["messages"]][:3] == [
        *("help me", "which order?", "17, please"),
    ]
    assert "simulated_user" not in written
    assert written["answer"] == "order 17 is cancelled"


def test_a_function_is_talked_with(tmp_path: Path, server: ChatServer) -> None:
    (tmp_path / "agent.py").write_text(
        "def answer(record):\n"
        "    done = '17' in record['prompt']\n"
        "    return {'answer': 'cancelled' if done else 'which order?',\n"
        "            'trace': {'tool_calls': [{'tool_name': f\"t{len(record['messages'])}\"}],\n"
        "                      'agent_tasks': {'a': 1, 'b': 0}},\n"
        "            'violations': [] if done else ['asks']}\n"
    )
    systems = [{"name": "f", "python": "agent.py:answer"}]
    more = {"user": person(server, goal="g"), "trust": ["violations"]}
    suite = suite_folder(tmp_path, [{"id": "a"}], systems, **more)
    assert suite.run("--no-report").exit_code == 0
    [record] = suite.records()
    assert record["simulated_user"]["goal_met"] is True
    assert [each["tool_name"] for each in record["trace"]["tool_calls"]] == ["t1", "t3"]
    assert record["trace"]["agent_tasks"] == {"a": 2, "b": 0}
    assert record["violations"] == ["asks"]


@pytest.mark.parametrize(
    ("goal", "error"),
    [
        ("it says nothing", "bad_response: the simulated user: an empty message"),
        (
            "it ends at once",
            "bad_response: the simulated user: it ended the conversation before it began",
        ),
    ],
)
def test_its_failure_is_one_of_the_record(
    tmp_path: Path, server: ChatServer, goal: str, error: str
) -> None:
    user = person(server, goal=goal)
    suite = folder(tmp_path, server, [{"id": "a"}], user, retries=1)
    assert suite.run("--no-report").exit_code == 3
    assert suite.errors() == {"a": error}
    suite.write(user={**user, "goal": "g"})
    told = suite.run("--no-report")
    assert told.exit_code == 2
    assert "user.goal was" in told.output


def test_a_server_that_is_not_there_fails_the_record(tmp_path: Path, server: ChatServer) -> None:
    user = {**person(server, goal="g"), "base_url": "http://127.0.0.1:9/v1"}
    suite = folder(tmp_path, server, [{"id": "a"}], user, retries=0)
    assert suite.run("--no-report").exit_code == 3
    assert str(suite.errors()["a"]).startswith("connection: the simulated user: ")


def test_what_failed_dialogues_cost_counts_for_the_budget(
    tmp_path: Path, server: ChatServer
) -> None:
    def reply(body: dict[str, Any]) -> dict[str, Any]:
        said = {"content": "hello"}
        if body["model"] == "person" and len(body["messages"]) > 2:
            return {"content": " "}
        return said

    server.reply = reply
    suite = folder(
        tmp_path, server, [{"id": "a"}], person(server, goal="g"), budget_usd=1.0, retries=0
    )
    assert suite.run("--no-report").exit_code == 3
    assert suite.json("manifest.json")["spent_usd"] == pytest.approx(120e-6 + 12e-6 + 120e-6)


def test_the_budget_counts_both(tmp_path: Path, server: ChatServer) -> None:
    tasks = [{"id": name} for name in "abcdefgh"]
    user = person(server, goal="g")
    suite = folder(tmp_path, server, tasks, user, budget_usd=0.0009, concurrency=2)
    told = suite.run("--no-report")
    assert told.exit_code == 3
    assert "the budget is spent" in told.output
    assert len(suite.records()) == 2  # 0.000384 each, and a third would be too much
    assert suite.json("manifest.json")["spent_usd"] == pytest.approx(2 * 384e-6)


def test_a_budget_needs_its_price(tmp_path: Path, server: ChatServer) -> None:
    user = {**person(server, goal="g"), "price": None}
    told = folder(tmp_path, server, [{"id": "a"}], user, budget_usd=1.0).run("--no-report")
    assert told.exit_code == 2
    assert "no price is known for the simulated user (openai:person)" in told.output


def test_its_key_is_masked(
    tmp_path: Path, server: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERSON", KEY)
    user = person(server, goal="it tells its key", api_key_env="PERSON")
    suite = folder(tmp_path, server, [{"id": "a"}], user)
    assert suite.run("--no-report").exit_code == 0
    [record] = suite.records()
    assert record["messages"][0]["content"] == "my key is ***"
    assert KEY not in (suite.results / "records.jsonl").read_text()


def test_nothing_is_called_again_and_changes_are_told(tmp_path: Path, server: ChatServer) -> None:
    user = person(server, goal="g")
    suite = folder(tmp_path, server, [{"id": "a"}], user, cache="cache")
    suite.run("--no-report")
    made = len(server.seen)
    assert "nothing new to call" in suite.run("--no-report").output
    assert len(server.seen) == made
    suite.write(user={**user, "settings": {"temperature": 1}})
    told = suite.run("--no-report")
    assert told.exit_code == 2
    assert "user.settings.temperature was not there, is 1" in told.output
    suite.run("--no-report", "--fresh")
    assert len(server.seen) == 2 * made


@pytest.mark.parametrize(
    ("user", "task", "said"),
    [
        ({"goal": "g", "peronsa": "x"}, {}, "did you mean persona?"),
        ({}, {}, "the task a: nothing says what the user wants"),
        ({"goal": "{mood}"}, {}, "names {mood}, and the task a has none"),
        ({"goal": "g", "max_turns": 20}, {}, "max_turns: 20 in the suite"),
        ({"goal": "g"}, {"user": {"max_turns": 11}}, "max_turns: 11 in the suite"),
        ({"goal": "g"}, {"user": "u17"}, "the task a: user: no mapping of keys"),
        ({"goal": "g"}, {"user": {"model": "x"}}, "model is not a known key"),
        ({"goal": "g"}, {"user": {"goal": "x"}, "turns": ["y"]}, "both turns and a user"),
        (None, {"input": "x", "user": {"goal": "x"}}, "the suite says nothing of who plays it"),
    ],
)
def test_mistakes(
    tmp_path: Path, server: ChatServer, user: Any, task: dict[str, Any], said: str
) -> None:
    spec = None if user is None else person(server, **user)
    told = folder(tmp_path, server, [{"id": "a", **task}], spec).run("--no-report")
    assert told.exit_code == 2
    assert said in " ".join(told.output.split())
    assert not server.seen


def test_tools_use_up_the_turns_of_the_system(tmp_path: Path, server: ChatServer) -> None:
    def reply(body: dict[str, Any]) -> dict[str, Any]:
        if body["model"] == "person":
            return {"content": "go on"}
        if body["messages"][-1]["role"] == "tool":
            return {"content": "well"}
        call = {"name": "clock", "arguments": "{}"}
        return {"tool_calls": [{"id": "c", "type": "function", "function": call}]}

    server.reply = reply
    (tmp_path / "tools.yaml").write_text("- {name: clock, reply: noon}\n")
    user = person(server, goal="g", max_turns=4)
    suite = folder(tmp_path, server, [{"id": "a"}], user, tools="tools.yaml", max_turns=4)
    assert suite.run("--no-report").exit_code == 0
    [record] = suite.records()
    assert record["finish_reason"] == "max_turns"
    assert (record["simulated_user"]["turns"], record["simulated_user"]["ended"]) == (
        2,
        "max_turns",
    )
    assert len(record["trace"]["tool_calls"]) == 2


def test_a_system_cannot_say_it_for_the_user(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(
        "def answer(record):\n    return {'answer': 'x', 'simulated_user': {'goal_met': True}}\n"
    )
    suite = suite_folder(tmp_path, [{"id": "a"}], [{"name": "f", "python": "agent.py:answer"}])
    assert suite.run("--no-report").exit_code == 0
    [record] = suite.records()
    assert "simulated_user" not in record
    assert record["reported"] == {"simulated_user": {"goal_met": True}}

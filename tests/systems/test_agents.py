"""Agents of other libraries as systems: the real ones, with a model server over real HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import calipers as cal
from tests.runs.chat_server import ChatServer, serve_chat
from tests.runs.suites_at_hand import SuiteFolder, quick, suite_folder

__all__ = ["quick"]

pytestmark = [
    pytest.mark.usefixtures("quick", "server"),
    pytest.mark.filterwarnings("ignore"),  # of the libraries
]

KEY = "planted-key-4711"
PNG = b"\x89PNG\r\n\x1a\npixels"
PYDANTIC = """
from pydantic_ai import Agent

agent = Agent("openai-chat:tiny", system_prompt="desk")


@agent.tool_plain(retries=3)
def look_up(order: int) -> str:
    if order == 13:
        from pydantic_ai import ModelRetry
        raise ModelRetry("no such order")
    return f"order {order} is sent"
"""
LANGGRAPH = """
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition


def look_up(order: int) -> str:
    "Looks an order up."
    if order == 13:
        raise ValueError("no such order")
    return f"order {order} is sent"


model = ChatOpenAI(model="tiny", max_retries=0).bind_tools([look_up])


async def ask(state):
    return {"messages": [await model.ainvoke([("system", "desk"), *state["messages"]])]}


builder = StateGraph(MessagesState)
builder.add_node("ask", ask)
builder.add_node("tools", ToolNode([look_up], handle_tool_errors=True))
builder.add_edge(START, "ask")
builder.add_conditional_edges("ask", tools_condition)
builder.add_edge("tools", "ask")
agent = builder.compile()
"""
OPENAI = """
from agents import Agent, OpenAIChatCompletionsModel, function_tool, set_tracing_disabled
from openai import AsyncOpenAI

set_tracing_disabled(True)


@function_tool
def look_up(order: int) -> str:
    if order == 13:
        raise ValueError("no such order")
    return f"order {order} is sent"


client = AsyncOpenAI(max_retries=0)
model = OpenAIChatCompletionsModel(model="tiny", openai_client=client)
agent = Agent(name="desk", instructions="desk", tools=[look_up], model=model)
"""
LIBRARIES = {
    "pydantic-ai": ("pydantic_ai", PYDANTIC),
    "langgraph": ("langgraph.graph", LANGGRAPH),
    "openai-agents": ("agents", OPENAI),
}


def _reply(body: dict[str, Any]) -> dict[str, Any]:
    """A model that looks orders up, says what the tool said, and counts what the user said."""
    last = body["messages"][-1]
    if last["role"] == "tool":
        return {"content": f"it says: {last['content']}"}
    text = last["content"] if isinstance(last["content"], str) else last["content"][0]["text"]
    if body.get("tools") and text.startswith("order"):
        call = {"name": "look_up", "arguments": json.dumps({"order": int(text.split()[1])})}
        made = {"id": f"c{len(body['messages'])}", "type": "function", "function": call}
        return {"content": None, "tool_calls": [made]}
    users = sum(each["role"] == "user" for each in body["messages"])
    tools = sum(each["role"] == "tool" for each in body["messages"])
    system = [each["content"] for each in body["messages"] if each["role"] == "system"]
    return {"content": f"{users} {tools} {'+'.join(system)}: {text}"}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    with serve_chat(_reply) as found:
        monkeypatch.setenv("OPENAI_BASE_URL", found.url)
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        yield found


@pytest.fixture(params=sorted(LIBRARIES))
def library(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    pytest.importorskip(LIBRARIES[name][0], reason=f"{name} is not installed")
    return name


def folder(
    path: Path, library: str, tasks: list[dict[str, Any]], system: Any = None, **more: Any
) -> SuiteFolder:
    (path / "agent.py").write_text(LIBRARIES[library][1])
    price = {"input": 1.0, "output": 1.0}
    named = {"name": "a", "python": "agent.py:agent", "price": price, **(system or {})}
    return suite_folder(path, tasks, [named], **more)


def test_an_agent_is_called(tmp_path: Path, library: str) -> None:
    tasks = [{"id": "a", "input": "order 17"}, {"id": "b", "input": "order 13"}]
    checks = [{"expect": "looks it up", "tool_called": {"name": "look_up", "args": {"order": 17}}}]
    suite = folder(tmp_path, library, tasks, checks=checks)
    told = suite.run("--no-report")
    assert told.exit_code == 0, told.output
    good, bad = suite.records()
    assert good["answer"] == "it says: order 17 is sent"
    assert [each["role"] for each in good["messages"]] == ["user", "assistant", "tool", "assistant"]
    assert good["messages"][0]["content"] == "order 17"
    assert good["messages"][1]["tool_calls"][0]["function"]["name"] == "look_up"
    assert good["messages"][2]["content"] == "order 17 is sent"
    assert (good["prompt_tokens"], good["completion_tokens"]) == (20, 4)
    assert good["cost_usd"] == pytest.approx(24e-6)
    [call] = good["trace"]["tool_calls"]
    assert (call["tool_name"], call["args"], call["success"]) == ("look_up", {"order": 17}, True)
    assert call["context"] == "order 17"
    assert good["observed_behaviors"] == ["looks it up"]
    assert "is sent" not in bad["answer"]
    assert [each["success"] for each in bad["trace"]["tool_calls"]] == [False]
    assert not bad["observed_behaviors"]


def test_turns_go_on_where_the_agent_was(tmp_path: Path, library: str) -> None:
    suite = folder(tmp_path, library, [{"id": "a", "turns": ["order 17", "thanks"]}], runs=2)
    assert suite.run("--no-report").exit_code == 0
    for record in suite.records():
        assert record["answer"] == "2 1 desk: thanks"  # both turns, the tool, its own instructions
        assert record["prompt_tokens"] == 30
        assert [each["tool_name"] for each in record["trace"]["tool_calls"]] == ["look_up"]
        assert [each["role"] for each in record["messages"]] == [
            *("user", "assistant", "tool", "assistant", "user", "assistant"),
        ]


def test_messages_and_a_message_of_the_system(
    tmp_path: Path, server: ChatServer, library: str
) -> None:
    suite = folder(tmp_path, library, [{"id": "a", "input": "hi"}], system={"system": "be kind"})
    assert suite.run("--no-report").exit_code == 0
    [record] = suite.records()
    assert record["answer"].startswith("1 0 ")
    assert {"desk", "be kind"} <= {
        line
        for each in server.seen[0]["messages"]
        if each["role"] == "system"
        for line in each["content"].split("\n")
    }


def test_an_image_is_seen(tmp_path: Path, server: ChatServer, library: str) -> None:
    (tmp_path / "cat.png").write_bytes(PNG)
    parts = [
        {"type": "text", "text": "what?"},
        {"type": "image_url", "image_url": {"url": "cat.png"}},
    ]
    tasks = [{"id": "a", "messages": [{"role": "user", "content": parts}]}]
    suite = folder(tmp_path, library, tasks)
    told = suite.run("--no-report")
    assert told.exit_code == 0, told.output
    sent = server.seen[0]["messages"][-1]["content"][1]
    assert sent["image_url"]["url"].startswith("data:image/png;base64,")
    assert "base64" not in json.dumps(suite.records())


def test_what_a_server_says_has_its_kind(tmp_path: Path, server: ChatServer, library: str) -> None:
    server.status = 429
    suite = folder(tmp_path, library, [{"id": "a", "input": "hi"}], retries=1)
    assert suite.run("--no-report").exit_code == 3
    [record] = suite.records()
    assert record["error"].startswith("rate_limit: 429")
    assert record["attempts"] == 2
    assert KEY not in (suite.results / "records.jsonl").read_text()
    server.status = 200
    assert suite.run("--no-report").exit_code == 0  # in the same process, with another event loop


@pytest.mark.long
def test_many_at_once(tmp_path: Path, library: str) -> None:
    tasks = [{"id": f"t{n}", "input": f"order {n + 100}"} for n in range(8)]
    suite = folder(tmp_path, library, tasks)
    assert suite.run("--no-report").exit_code == 0
    found = {each["id"]: each for each in suite.records()}
    for n in range(8):
        assert found[f"t{n}"]["answer"] == f"it says: order {n + 100} is sent"
        [call] = found[f"t{n}"]["trace"]["tool_calls"]
        assert call["args"] == {"order": n + 100}


def test_from_python(tmp_path: Path, library: str) -> None:
    from calipers.support.user_code import load_object  # noqa: PLC0415

    (tmp_path / "agent.py").write_text(LIBRARIES[library][1])
    agent = load_object("agent.py:agent", tmp_path)
    result = cal.run(agent, tasks=[{"id": "a", "input": "order 17"}])
    assert result.records["answer"].to_list() == ["it says: order 17 is sent"]


def test_a_structured_output_is_json(tmp_path: Path, server: ChatServer) -> None:
    pytest.importorskip("pydantic_ai", reason="the extra run is not installed")
    server.reply = lambda body: {
        "tool_calls": [
            {
                "id": "c",
                "type": "function",
                "function": {"name": body["tools"][0]["function"]["name"], "arguments": '{"n": 3}'},
            }
        ]
    }
    suite = folder(tmp_path, "pydantic-ai", [{"id": "a", "input": "hi"}])
    (tmp_path / "agent.py").write_text(
        "from pydantic import BaseModel\nfrom pydantic_ai import Agent\n"
        "class Out(BaseModel):\n    n: int\n"
        'agent = Agent("openai-chat:tiny", output_type=Out)\n'
    )
    told = suite.run("--no-report")
    assert told.exit_code == 0, told.output
    assert suite.records()[0]["answer"] == '{"n": 3}'


def test_handoffs_are_in_the_trace(tmp_path: Path, server: ChatServer) -> None:
    pytest.importorskip("agents", reason="openai-agents is not installed")

    def reply(body: dict[str, Any]) -> dict[str, Any]:
        offered = [each["function"]["name"] for each in body.get("tools") or ()]
        if "transfer_to_desk" in offered:
            call = {"name": "transfer_to_desk", "arguments": "{}"}
            return {"tool_calls": [{"id": "h", "type": "function", "function": call}]}
        return _reply(body)

    server.reply = reply
    suite = folder(tmp_path, "openai-agents", [{"id": "a", "turns": ["hi", "order 17"]}])
    first = "first = Agent(name='front', instructions='front', handoffs=[agent], model=model)\n"
    (tmp_path / "agent.py").write_text(OPENAI + first)
    suite.write(systems=[{"name": "a", "python": "agent.py:first"}]).run("--no-report")
    [record] = suite.records()
    assert record["answer"] == "it says: order 17 is sent"
    trace = record["trace"]
    assert trace["agent_interactions"] == [{"from": "front", "to": "desk", "type": "handoff"}]
    assert trace["agent_tasks"] == {"front": 1, "desk": 2}
    assert [(e["tool_name"], e["agent_id"]) for e in trace["tool_calls"]] == [("look_up", "desk")]


def test_a_graph_with_a_state_of_its_own(tmp_path: Path) -> None:
    pytest.importorskip("langgraph.graph", reason="langgraph is not installed")
    (tmp_path / "agent.py").write_text(
        "from typing import TypedDict\nfrom langgraph.graph import START, StateGraph\n"
        "class State(TypedDict):\n    input: str\n    answer: str\n"
        "def double(state):\n    return {'answer': state['input'] * 2}\n"
        "builder = StateGraph(State)\nbuilder.add_node('double', double)\n"
        "builder.add_edge(START, 'double')\nagent = builder.compile()\n"
    )
    systems = [{"name": "a", "python": "agent.py:agent"}]
    suite = suite_folder(tmp_path, [{"id": "a", "input": "x"}], systems)
    assert suite.run("--no-report").exit_code == 0
    assert suite.records()[0]["answer"] == "xx"
    suite.write(systems=[{"name": "a", "python": "agent.py:builder"}])
    told = suite.run("--no-report", "--fresh")
    assert told.exit_code == 2
    assert "agent.py:builder is a graph that is not compiled" in told.output


def test_a_graph_that_remembers(tmp_path: Path) -> None:
    pytest.importorskip("langgraph.graph", reason="langgraph is not installed")
    suite = folder(tmp_path, "langgraph", [{"id": "a", "turns": ["one", "two"]}], runs=2)
    (tmp_path / "agent.py").write_text(
        LANGGRAPH.replace("builder.compile()", "builder.compile(checkpointer=InMemorySaver())")
        + "\n"
    )
    source = (tmp_path / "agent.py").read_text()
    (tmp_path / "agent.py").write_text(
        f"from langgraph.checkpoint.memory import InMemorySaver\n{source}"
    )
    assert suite.run("--no-report").exit_code == 0
    assert [each["answer"] for each in suite.records()] == ["2 0 desk: two"] * 2


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("agent = 3\n", "agent.py:agent is of type int, neither a function nor an agent"),
        ("agnet = 3\n", "has no function agent"),
        ("from smol import agent\n", "is an object of type CodeAgent, of a library whose agents"),
        ("from smol import Own\nagent = Own()\n", "is an object of type Own, of a library"),
    ],
)
def test_what_is_no_system(tmp_path: Path, source: str, said: str) -> None:
    (tmp_path / "smol.py").write_text(SMOL)
    (tmp_path / "agent.py").write_text(source)
    systems = [{"name": "a", "python": "agent.py:agent"}]
    told = suite_folder(tmp_path, [{"id": "a", "input": "x"}], systems).run("--no-report")
    assert told.exit_code == 2
    assert said in " ".join(told.output.split())


SMOL = """
class CodeAgent:
    def run(self, task):
        return "7"

    def __call__(self, task, **arguments):  # as a part of another agent
        return f"Here is the final answer from your managed agent 'None': {self.run(task)}"


class Own(CodeAgent):
    pass


agent = CodeAgent()
"""


@pytest.mark.parametrize(
    "source",
    [
        "class Desk:\n    def __call__(self, record):\n        return '7'\n\nagent = Desk()\n",
        "from smol import agent as smol\n\ndef agent(record):\n    return smol.run('3 + 4')\n",
        "from functools import partial\ndef ask(n, record):\n    return n\n\nagent = partial(ask, '7')\n",
        "from smol import agent as smol\n\nagent = smol.run\n",
    ],
)
def test_ones_own_objects_and_functions_around_agents_are_asked(
    tmp_path: Path, source: str
) -> None:
    (tmp_path / "smol.py").write_text(SMOL)
    (tmp_path / "agent.py").write_text(source)
    systems = [{"name": "a", "python": "agent.py:agent"}]
    suite = suite_folder(tmp_path, [{"id": "a", "input": "3 + 4", "target": "7"}], systems)
    suite.run("--no-report")
    assert [each["answer"] for each in suite.records()] == ["7"]

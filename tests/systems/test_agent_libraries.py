"""Agents of libraries that have environments of their own: `make test-agents`."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.runs.chat_server import ChatServer, serve_chat
from tests.runs.suites_at_hand import ROOT, SuiteFolder, suite_folder
from tests.systems.anthropic_server import serve_anthropic

pytestmark = pytest.mark.long

KEY = "planted-key-4711"
LOOK_UP = '''
def look_up(order: int) -> str:
    """Look an order up.

    Args:
        order: Its number.
    """
    if order == 13:
        raise ValueError("no such order")
    return f"order {order} is sent"
'''
SMOLAGENTS = f"""
from smolagents import CodeAgent, OpenAIModel, ToolCallingAgent, tool
{LOOK_UP}
model = OpenAIModel("tiny", client_kwargs={{"max_retries": 0}}, retry=False)
parts = dict(tools=[tool(look_up)], model=model, verbosity_level=-1)
agent = ToolCallingAgent(**parts, instructions="desk", name="desk", description="It looks up.")
coder = CodeAgent(**parts)
lead = ToolCallingAgent([], model, managed_agents=[agent], name="lead", verbosity_level=-1)
"""
AUTOGEN = f"""
from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.conditions import TextMessageTermination
from autogen_agentchat.teams import Swarm
from autogen_ext.models.openai import OpenAIChatCompletionClient
{LOOK_UP}
info = dict(vision=True, function_calling=True, json_output=True, family="unknown")
info |= dict(structured_output=True)
model = OpenAIChatCompletionClient(model="tiny", max_retries=0, model_info=info)
parts = dict(model_client=model, reflect_on_tool_use=True)


def agent():
    return AssistantAgent("desk", tools=[look_up], system_message="desk", **parts)


def team():
    front = AssistantAgent("front", handoffs=["desk"], **parts)
    return Swarm([front, agent()], termination_condition=TextMessageTermination("desk"))


one = agent()


async def streamed(prompt: str):
    async for message in agent().run_stream(task=prompt):
        yield message
"""
ADK = """
from google.adk.agents import Agent
from google.adk.apps.app import App
from google.adk.models.lite_llm import LiteLlm


def look_up(order: int) -> dict:
    "Look an order up."
    if order == 13:
        return {"error": "no such order"}
    return {"result": f"order {order} is sent"}


model = LiteLlm("openai/tiny", num_retries=0)
agent = Agent(name="desk", model=model, instruction="desk", tools=[look_up], description="Looks up.")
app = App(name="orders", root_agent=agent)
front = Agent(name="front", model=model, sub_agents=[agent.clone()])
"""
CREWAI = f"""
from crewai import LLM, Agent, Crew, Task
from crewai.tools import tool
{LOOK_UP}
model = LLM(model="openai/gpt-4o-mini", max_retries=0)
agent = Agent(role="desk", goal="desk", backstory="desk", tools=[tool(look_up)], llm=model)
crew = Crew(
    agents=[agent],
    tasks=[Task(description="{{input}}", expected_output="a line", agent=agent)],
)
blind = Crew(
    agents=[agent], tasks=[Task(description="Wait.", expected_output="a line", agent=agent)]
)
"""
CLAUDE = """
from claude_agent_sdk import ClaudeAgentOptions, create_sdk_mcp_server, query, tool


@tool("look_up", "Look an order up.", {"order": int})
async def look_up(args):
    if args["order"] == 13:
        raise ValueError("no such order")
    return {"content": [{"type": "text", "text": f"order {args['order']} is sent"}]}


async def agent(prompt: str):
    options = ClaudeAgentOptions(
        model="claude-sonnet-4-5",
        system_prompt="desk",
        setting_sources=[],
        mcp_servers={"desk": create_sdk_mcp_server("desk", tools=[look_up])},
        allowed_tools=["mcp__desk__look_up"],
        tools=[],
    )
    async for message in query(prompt=prompt, options=options):
        yield message
"""
SOURCES = {"smolagents": SMOLAGENTS, "autogen": AUTOGEN, "adk": ADK, "crewai": CREWAI}


def _reply(body: dict[str, Any]) -> dict[str, Any]:
    """A model that looks orders up once, or hands them on, and says what it was told."""
    names = {each["function"]["name"] for each in body.get("tools") or ()}
    texts = [_read_text(message) for message in body["messages"]]
    told = [bool(re.search("is sent|no such order", text)) for text in texts]
    open_ones = [
        n
        for n, text in enumerate(texts)
        if re.search("order [0-9]|thanks|what[?]", text) and not told[n]
    ]
    asked = open_ones[-1] if open_ones else len(texts) - 1
    order = None if told[asked] else re.search(r"order (\d+)", texts[asked])
    if order is not None and not any(told[asked:]):
        calls: dict[str, dict[str, Any]] = {
            "transfer_to_desk": {},
            "transfer_to_agent": {"agent_name": "desk"},
            "desk": {"task": order[0]},
            "look_up": {"order": int(order[1])},
        }
        if "look_up" in names:  # who has the tool hands nothing on
            return _call(body, "look_up", calls["look_up"])
        for name in (each for each in calls if each in names):
            return _call(body, name, calls[name])
    if "final_answer" in names:
        return _call(body, "final_answer", {"answer": f"it says: {texts[-1]}"})
    return {"content": f"it says: {texts[-1]}"}


def _call(body: dict[str, Any], name: str, given: dict[str, Any]) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(given)}
    number = f"call_{len(json.dumps(body['messages']))}"
    return {
        "content": None,
        "tool_calls": [{"id": number, "type": "function", "function": function}],
    }


def _read_text(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else "".join(e.get("text", "") for e in content)


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with serve_chat(_reply) as found:
        yield found


def run(
    path: Path,
    library: str,
    source: str,
    url: str,
    tasks: list[dict[str, Any]],
    name: str,
    **more: Any,
) -> tuple[SuiteFolder, subprocess.CompletedProcess[str]]:
    """Run a suite in the environment of the library."""
    python = ROOT / f".venv-agents-{library}" / "bin" / "python"
    if not python.exists():
        pytest.skip(f"not installed: {library} (make test-agents)")
    (path / "agent.py").write_text(source, encoding="utf-8")
    price = {"input": 1.0, "output": 1.0}
    suite = suite_folder(
        path, tasks, [{"name": "a", "python": f"agent.py:{name}", "price": price}], **more
    )
    command = [python, "-m", "calipers", "run", path / "suite.yaml", "-o", suite.results]
    done = subprocess.run(
        [*map(str, command), "--no-report"],
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(path),
            "PYTHONPATH": str(ROOT / "src"),
            "OPENAI_BASE_URL": f"{url}",
            "OPENAI_API_KEY": KEY,
            "ANTHROPIC_BASE_URL": url,
            "ANTHROPIC_API_KEY": KEY,
            "CLAUDE_CONFIG_DIR": str(path / "claude"),
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CODE_MAX_RETRIES": "0",
            "CREWAI_DISABLE_TELEMETRY": "true",
            "OTEL_SDK_DISABLED": "true",
            "IS_SANDBOX": "1",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    return suite, done


ORDERS = [{"id": "a", "input": "order 17"}, {"id": "b", "input": "order 13"}]


@pytest.mark.parametrize(
    ("library", "name"),
    [
        ("smolagents", "agent"),
        ("autogen", "agent"),
        ("autogen", "streamed"),
        ("adk", "agent"),
        ("adk", "app"),
        ("crewai", "agent"),
        ("crewai", "crew"),
    ],
)
def test_an_agent_is_asked(tmp_path: Path, server: ChatServer, library: str, name: str) -> None:
    suite, done = run(tmp_path, library, SOURCES[library], server.url, ORDERS, name)
    assert done.returncode == 0, done.stderr
    good, bad = suite.records()
    assert "order 17 is sent" in good["answer"]
    assert [each["role"] for each in good["messages"]] == ["user", "assistant", "tool", "assistant"]
    assert good["messages"][1]["tool_calls"][0]["function"]["name"] == "look_up"
    assert good["messages"][2]["content"] == "order 17 is sent"
    assert (good["prompt_tokens"], good["completion_tokens"]) == (20, 4)
    assert good["cost_usd"] == pytest.approx(24e-6)
    [call] = good["trace"]["tool_calls"]
    assert (call["tool_name"], call["args"], call["success"]) == ("look_up", {"order": 17}, True)
    assert (call["context"], call["agent_id"]) == ("order 17", "desk")
    assert good["trace"]["agent_tasks"] == {"desk": 1}
    assert [each["success"] for each in bad["trace"]["tool_calls"]] == [False]
    assert "no such order" in bad["messages"][2]["content"]
    assert KEY not in (suite.results / "records.jsonl").read_text()


@pytest.mark.parametrize("library", sorted(SOURCES))
def test_turns_go_on_and_tasks_stay_apart(tmp_path: Path, server: ChatServer, library: str) -> None:
    tasks = [{"id": f"t{n}", "turns": [f"order {n}", "thanks"]} for n in range(20, 26)]
    suite, done = run(tmp_path, library, SOURCES[library], server.url, tasks, "agent")
    assert done.returncode == 0, done.stderr
    for n, record in zip(range(20, 26), suite.records(), strict=True):
        assert "thanks" in record["answer"]
        assert record["prompt_tokens"] == 30
        [call] = record["trace"]["tool_calls"]
        assert call["args"] == {"order": n}
        said = [each["content"] for each in record["messages"] if each["role"] == "tool"]
        assert said == [f"order {n} is sent"]
    last = [
        body["messages"] for body in server.seen if "thanks" in _read_text(body["messages"][-1])
    ]
    assert len(last) == 6
    for messages in last:  # what was said before is there, and nothing of another task
        assert len(set(re.findall(r"order (\d+)", json.dumps(messages)))) == 1


@pytest.mark.parametrize("library", sorted(SOURCES))
def test_what_a_server_says_has_its_kind(tmp_path: Path, server: ChatServer, library: str) -> None:
    server.status = 429
    suite, done = run(
        tmp_path, library, SOURCES[library], server.url, ORDERS[:1], "agent", retries=1
    )
    assert done.returncode == 3
    [record] = suite.records()
    assert record["error"].startswith("rate_limit: 429")
    assert record["attempts"] == 2
    assert KEY not in record["error"]


def test_an_agent_that_writes_code(tmp_path: Path, server: ChatServer) -> None:
    def reply(body: dict[str, Any]) -> dict[str, Any]:
        text = _read_text(body["messages"][-1])
        order = re.search(r"order (\d+)", text)
        assert order is not None
        if "is sent" in text:
            return {"content": f"<code>\nfinal_answer('order {order[1]} is sent')\n</code>"}
        return {"content": f"<code>\nfound = look_up({order[1]})\nprint(found)\n</code>"}

    server.reply = reply
    tasks = [{"id": f"t{n}", "input": f"order {n}"} for n in range(20, 26)]
    suite, done = run(tmp_path, "smolagents", SMOLAGENTS, server.url, tasks, "coder")
    assert done.returncode == 0, done.stderr
    for n, record in zip(range(20, 26), suite.records(), strict=True):
        assert record["answer"] == f"order {n} is sent"
        first, last = record["trace"]["tool_calls"]
        assert (first["tool_name"], first["success"]) == ("python_interpreter", True)
        assert f"look_up({n})" in first["args"]
        assert "final_answer" in last["args"]
        assert record["prompt_tokens"] == 20


def test_managed_agents_count(tmp_path: Path, server: ChatServer) -> None:
    suite, done = run(tmp_path, "smolagents", SMOLAGENTS, server.url, ORDERS[:1], "lead")
    assert done.returncode == 0, done.stderr
    [record] = suite.records()
    trace = record["trace"]
    assert [(e["tool_name"], e["agent_id"]) for e in trace["tool_calls"]] == [("look_up", "desk")]
    told = {"from": "lead", "to": "desk", "type": "task_request"}
    assert trace["agent_interactions"] == [told]
    assert trace["agent_tasks"] == {"desk": 1, "lead": 1}
    assert record["prompt_tokens"] == 40  # two requests of each


PNG = bytes.fromhex(  # a black pixel
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de"
    "0000000c49444154789c63606060000000040001f61738550000000049454e44ae426082"
)


@pytest.mark.parametrize("library", ["adk", "autogen", "smolagents"])
def test_images_are_seen(tmp_path: Path, server: ChatServer, library: str) -> None:
    (tmp_path / "cat.png").write_bytes(PNG)
    image = {"type": "image_url", "image_url": {"url": "cat.png"}}
    content = [{"type": "text", "text": "what?"}, image]
    tasks = [{"id": "a", "messages": [{"role": "user", "content": content}]}]
    suite, done = run(tmp_path, library, SOURCES[library], server.url, tasks, "agent")
    assert done.returncode == 0, done.stderr
    parts = next(m["content"] for m in server.seen[0]["messages"] if m["role"] == "user")
    [url] = [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]
    assert url.startswith("data:image/png;base64,")
    assert "base64" not in json.dumps(suite.records())


@pytest.mark.parametrize("library", ["smolagents", "crewai"])
def test_instructions_of_the_suite_are_added(
    tmp_path: Path, server: ChatServer, library: str
) -> None:
    _, done = run(
        tmp_path, library, SOURCES[library], server.url, ORDERS[:1], "agent", system="be kind"
    )
    assert done.returncode == 0, done.stderr
    told = "".join(_read_text(m) for m in server.seen[0]["messages"] if m["role"] == "system")
    assert "desk" in told
    assert "be kind" in told


@pytest.mark.parametrize(("library", "name"), [("autogen", "team"), ("adk", "front")])
def test_handoffs_are_in_the_trace(
    tmp_path: Path, server: ChatServer, library: str, name: str
) -> None:
    suite, done = run(tmp_path, library, SOURCES[library], server.url, ORDERS[:1], name)
    assert done.returncode == 0, done.stderr
    [record] = suite.records()
    trace = record["trace"]
    assert trace["agent_interactions"] == [{"from": "front", "to": "desk", "type": "handoff"}]
    assert [(e["tool_name"], e["agent_id"]) for e in trace["tool_calls"]] == [("look_up", "desk")]
    assert "order 17 is sent" in record["answer"]


@pytest.mark.parametrize(
    ("library", "name", "said"),
    [
        ("autogen", "one", "name a function that makes one: def agent(): return AssistantAgent(…)"),
        ("crewai", "blind", "the crew's tasks name no field of the record, such as {input}"),
    ],
)
def test_what_cannot_be_asked_is_refused(
    tmp_path: Path, server: ChatServer, library: str, name: str, said: str
) -> None:
    _, done = run(tmp_path, library, SOURCES[library], server.url, ORDERS, name)
    assert done.returncode in (2, 3)
    assert said in " ".join(f"{done.stdout} {done.stderr}".split())
    assert not server.seen


def _reply_as_claude(body: dict[str, Any]) -> dict[str, Any]:
    content = body["messages"][-1]["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    seen = [block for block in blocks if block["type"] == "tool_result"]
    if seen:
        return {"type": "text", "text": f"it says: {json.dumps(seen[0]['content'])}"}
    order = re.search(r"order (\d+)", json.dumps(blocks))
    assert order is not None
    given = {"order": int(order[1])}
    return {"type": "tool_use", "id": "toolu_1", "name": "mcp__desk__look_up", "input": given}


def test_the_stream_of_the_claude_agent_sdk(tmp_path: Path) -> None:
    with serve_anthropic(_reply_as_claude) as server:
        suite, done = run(tmp_path, "claude", CLAUDE, server.url, ORDERS, "agent")
    assert done.returncode == 0, done.stderr
    good, bad = suite.records()
    assert "order 17 is sent" in good["answer"]
    assert [each["role"] for each in good["messages"]] == ["user", "assistant", "tool", "assistant"]
    counts = [good[f"{name}_tokens"] for name in ("prompt", "completion", "cache_read")]
    assert counts == [20, 4, 8]
    [call] = good["trace"]["tool_calls"]
    assert (call["tool_name"], call["args"]) == ("mcp__desk__look_up", {"order": 17})
    assert (call["success"], call["context"]) == (True, "order 17")
    assert [each["success"] for each in bad["trace"]["tool_calls"]] == [False]


def test_an_error_of_the_service_of_claude(tmp_path: Path) -> None:
    with serve_anthropic(_reply_as_claude) as server:
        server.status = 400
        suite, done = run(tmp_path, "claude", CLAUDE, server.url, ORDERS[:1], "agent", retries=0)
    assert done.returncode == 3, done.stderr
    [record] = suite.records()
    assert record["error"].startswith("bad_request: 400"), record["error"]

"""Have agents of LangGraph and of OpenAI's SDK add numbers, watched by OpenInference.

`write_frameworks.py FOLDER`; the models are written down, and nothing is sent anywhere.
"""

import json
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import httpx
from agents import Agent, OpenAIChatCompletionsModel, RunConfig, Runner, function_tool
from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from openai import AsyncOpenAI
from openinference.instrumentation.langchain import LangChainInstrumentor
from openinference.instrumentation.openai_agents import OpenAIAgentsInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

QUESTION, ANSWER, RUNS = "20 + 22", "The sum is 42.", 3


class Written(GenericFakeChatModel):
    """A chat model whose replies are written down."""

    def bind_tools(self, *_: Any, **__: Any) -> Any:
        return self


def reply(request: httpx.Request) -> httpx.Response:
    """Answer as the API of chat completions does: call the tool, then say what it gave."""
    asked = json.loads(request.content)["messages"]
    function = {"name": "add", "arguments": json.dumps({"a": 20, "b": 22})}
    call = {"id": "c", "type": "function", "function": function}
    message: dict[str, Any] = {"role": "assistant", "content": None, "tool_calls": [call]}
    if asked[-1]["role"] == "tool":
        message = {"role": "assistant", "content": ANSWER}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    about = {"id": "x", "object": "chat.completion", "created": 0, "model": "tiny"}
    return httpx.Response(200, json={**about, "choices": [choice], "usage": usage})


def run_langgraph() -> dict[str, int]:
    @tool
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    used = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
    call = {"name": "add", "args": {"a": 20, "b": 22}, "id": "c"}
    for _ in range(RUNS):
        replies = [
            AIMessage("", tool_calls=[call], usage_metadata=used),
            AIMessage(ANSWER, usage_metadata=used),
        ]
        agent = create_agent(Written(messages=iter(replies)), tools=[add], name="adder")
        agent.invoke({"messages": [("user", QUESTION)]})
    return {"prompt_tokens": 20, "completion_tokens": 10}


def run_openai_agents() -> dict[str, int]:
    @function_tool
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    counted = {}
    for _ in range(RUNS):
        http = httpx.AsyncClient(transport=httpx.MockTransport(reply))
        client = AsyncOpenAI(api_key="none", http_client=http)
        model = OpenAIChatCompletionsModel("tiny", client)
        agent = Agent(name="adder", tools=[add], model=model)
        result = Runner.run_sync(agent, QUESTION, run_config=RunConfig(workflow_name="sums"))
        used = result.context_wrapper.usage
        counted = {"prompt_tokens": used.input_tokens, "completion_tokens": used.output_tokens}
    return counted


def main(folder: Path) -> None:
    numbers: dict[str, Any] = {}
    for name, watch, run in (
        ("langgraph", LangChainInstrumentor(), run_langgraph),
        ("openai-agents", OpenAIAgentsInstrumentor(), run_openai_agents),
    ):
        kept, provider = InMemorySpanExporter(), TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(kept))
        watch.instrument(tracer_provider=provider)
        numbers[name] = {"version": version(name), **run()}
        watch.uninstrument()
        lines = (span.to_json(indent=None) for span in kept.get_finished_spans())
        path = folder / f"{name}.jsonl"
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    print(json.dumps(numbers))


if __name__ == "__main__":
    main(Path(sys.argv[1]))

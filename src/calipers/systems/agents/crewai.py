"""Agents and crews of CrewAI.

An agent is given the conversation, a crew the fields of the record that its tasks name. Each call
has a copy, as CrewAI's own `kickoff_for_each` makes them, whose models count their tokens anew: the
counters of CrewAI's copies are those of the original.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from calipers.records.logs.parts import list_objects, read_text
from calipers.records.readers.joins import parse_cell
from calipers.systems.calls import AgentTurn, Call, Fault, Message, make_token_fields

NAME = "an agent or a crew of CrewAI"
_OWN = ("assistant", "tool")
_PARTS = ("role", "content", "tool_calls", "tool_call_id")


def is_agent(candidate: Any) -> bool:
    """Return True if an object has the attributes of such an agent or crew."""
    if isinstance(candidate, type) or not hasattr(candidate, "kickoff_async"):
        return False
    agent = all(hasattr(candidate, name) for name in ("role", "goal", "backstory"))
    return agent or _is_crew(candidate)


def _is_crew(candidate: Any) -> bool:
    return all(hasattr(candidate, name) for name in ("agents", "tasks", "fetch_inputs"))


async def take_turn(agent: Any, call: Call, messages: Sequence[Mapping[str, Any]]) -> AgentTurn:
    """Ask a copy of the agent with all that was said, or run a copy of the crew on the record."""
    if any(_has_image(message.get("content")) for message in messages):
        raise Fault("bad_request", f"{NAME} takes no images")
    own = agent.copy()
    if _is_crew(own):
        inputs = _choose_inputs(own, call, messages)
        _count_anew([*own.agents, own.manager_agent], own.manager_llm)
        result = await own.kickoff_async(inputs=inputs)
        return _read_outputs(result, result.tasks_output, call.prompt, 0)
    _count_anew([own])
    given = [
        {name: said[name] for name in _PARTS if name in said}
        | {"content": read_text(said.get("content"))}
        for said in messages
    ]
    result = await own.kickoff_async(given)
    before = sum(message["role"] in _OWN for message in given)
    return _read_outputs(result, [result], call.prompt, before)


def _has_image(content: Any) -> bool:
    return any(part.get("type") != "text" for part in list_objects(content))


def _choose_inputs(
    crew: Any, call: Call, messages: Sequence[Mapping[str, Any]]
) -> Mapping[str, Any]:
    """Return the fields of the record that the tasks and agents of a crew name."""
    if len(messages) > 1:
        raise Fault("bad_request", "a crew takes one message of the user, and no instructions")
    known = {"prompt": call.prompt, "input": call.prompt, **call.record}
    named = crew.fetch_inputs()
    if missing := sorted(named - known.keys()):
        raise Fault("bad_request", f"the crew needs {', '.join(missing)}, which no record has")
    if not named:
        raise Fault("bad_request", "the crew's tasks name no field of the record, such as {input}")
    return {name: known[name] for name in named}


def _count_anew(agents: Sequence[Any], *models: Any) -> None:
    """Give the models of copies counters of their own."""
    for model in (*(getattr(agent, "llm", None) for agent in agents), *models):
        if isinstance(used := getattr(model, "_token_usage", None), dict):
            model._token_usage = dict.fromkeys(used, 0)  # noqa: SLF001 (there is no other way)


def _read_outputs(result: Any, outputs: Sequence[Any], prompt: str, before: int) -> AgentTurn:
    """Return the turn that the outputs of tasks, or that of one agent, tell."""
    messages: list[Message] = []
    calls: list[dict[str, Any]] = []
    for output in outputs:
        said = [message for message in output.messages if message["role"] in _OWN][before:]
        messages += ({name: each[name] for name in _PARTS if name in each} for each in said)
        calls += _list_calls(output, said, prompt)
    used = result.token_usage
    structured = getattr(result, "pydantic", None) or getattr(result, "json_dict", None)
    return AgentTurn(
        output=result.raw if structured is None else structured,
        messages=messages or [{"role": "assistant", "content": result.raw}],
        state=None,
        usage=make_token_fields(
            used.prompt_tokens,
            used.completion_tokens,
            read=used.cached_prompt_tokens,
            written=getattr(used, "cache_creation_tokens", 0),
            reasoning=getattr(used, "reasoning_tokens", 0),
        ),
        trace={"tool_calls": calls, "agent_tasks": dict(Counter(map(_name_agent, outputs)))},
    )


def _name_agent(output: Any) -> str:
    return str(getattr(output, "agent_role", None) or output.agent).strip()


def _list_calls(output: Any, said: Sequence[Message], prompt: str) -> Iterator[dict[str, Any]]:
    """Yield the calls of tools in messages, and which of them CrewAI says that failed."""
    failed = [(each.tool_name, each.tool_args) for each in getattr(output, "tool_failures", ())]
    for message in said:
        for call in message.get("tool_calls") or ():
            made = (call["function"]["name"], parse_cell(call["function"]["arguments"]))
            has_failed = made in failed
            if has_failed:
                failed.remove(made)
            name, args = made
            about = {"success": not has_failed, "agent_id": _name_agent(output)}
            yield {"tool_name": name, "args": args, "context": prompt, **about}

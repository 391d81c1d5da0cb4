"""The attributes of spans, by the conventions of OpenTelemetry and OpenInference."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from calipers.records.fields import load_json, name_finish_reason
from calipers.records.logs.conversations import read_said
from calipers.records.logs.parts import as_mapping, keep_extra, parse_number, read_text
from calipers.records.logs.spans import Span

OPERATION = "gen_ai.operation.name"
_KIND = "openinference.span.kind"
NOT_CALLS = ("invoke_agent", "create_agent", "execute_tool", "invoke_workflow")
MODELS = ("gen_ai.response.model", "gen_ai.request.model", "llm.model_name", "ai.model.id")
_INPUT_TOKENS = (
    "gen_ai.usage.input_tokens",
    "gen_ai.usage.prompt_tokens",
    "llm.token_count.prompt",
)
_OUTPUT_TOKENS = (
    "gen_ai.usage.output_tokens",
    "gen_ai.usage.completion_tokens",
    "llm.token_count.completion",
)
TOKENS = (*_INPUT_TOKENS, *_OUTPUT_TOKENS)
_CACHE_READ = (
    "gen_ai.usage.cache_read.input_tokens",
    "gen_ai.usage.cache_read_input_tokens",
    "llm.token_count.prompt_details.cache_read",
)
_CACHE_WRITE = (
    "gen_ai.usage.cache_creation.input_tokens",
    "gen_ai.usage.cache_creation_input_tokens",
    "llm.token_count.prompt_details.cache_write",
)
_REASONING = (
    "gen_ai.usage.reasoning.output_tokens",
    "gen_ai.usage.details.reasoning_tokens",
    "llm.token_count.completion_details.reasoning",
)
_FINISHED = ("gen_ai.response.finish_reasons", "ai.response.finishReason")
TOOLS = ("gen_ai.tool.name", "tool.name", "ai.toolCall.name")
ARGUMENTS = ("gen_ai.tool.call.arguments", "tool_arguments", "ai.toolCall.args", "input.value")
_CONVENTIONS = (
    *("gen_ai.", "llm.", "input.", "output.", "openinference.", "calipers.", "ai.", "tool."),
    *("tag.", "session.", "agent.", "graph.", "http.", "server.", "telemetry.", "mlflow."),
)
HANDOFF = "handoff to "
_AGENTS = ("gen_ai.agent.name", "agent.name")
SAID = ("gen_ai.output.messages", "gen_ai.completion", "ai.response.text", "output.value")
ASKED = ("gen_ai.input.messages", "gen_ai.prompt", "ai.prompt", "input.value")


def read_first_of(span: Span, names: Sequence[str]) -> Any:
    """Return the first of the attributes that the span has, or None."""
    return next(
        (span.attributes[name] for name in names if span.attributes.get(name) is not None), None
    )


def find_finish_reason(calls: Sequence[Span]) -> str | None:
    """Return why the last call ended, one of a list of reasons which may be JSON text."""
    found = [read_first_of(span, _FINISHED) for span in calls]
    last = next((each for each in reversed(found) if each is not None), None)
    if isinstance(last, str) and last.startswith("["):
        last = load_json(last, last)
    return name_finish_reason(last[0] if isinstance(last, list) and last else last)


def keep_attributes(root: Span) -> dict[str, Any]:
    """Return the further attributes and the metadata of a root span."""
    own = {
        name: value
        for name, value in root.attributes.items()
        if isinstance(value, str | int | float) and not name.startswith(_CONVENTIONS)
    }
    return keep_extra(parse_arguments(root.attributes.get("metadata")), own, used=("metadata",))


def read_own_fields(root: Span) -> dict[str, Any]:
    """Return what `calipers run` records about a call in the span that it writes."""
    own = {
        name.removeprefix("calipers."): value
        for name, value in root.attributes.items()
        if name.startswith("calipers.") and isinstance(value, str | int | float)
    }
    known = ("id", "model", "tier", "run", *(name for name in own if name.startswith("score_")))
    return {name: own[name] for name in known if name in own}


def is_tool(span: Span) -> bool:
    """Say whether the span is the call of a tool."""
    kind = str(span.attributes.get(_KIND) or "").upper()
    return (
        span.attributes.get(OPERATION) == "execute_tool"
        or kind == "TOOL"
        or "ai.toolCall.name" in span.attributes
    )


def is_handoff(span: Span) -> bool:
    """Say whether an agent hands over to another in this span."""
    return span.name.startswith(HANDOFF)


def is_workflow(span: Span) -> bool:
    """Say whether a span has nothing of an agent but its kind, as a workflow around agents has."""
    return span.parent is None and not span.attributes.keys() - {_KIND}


def parse_arguments(value: Any) -> Any:
    """Return the arguments of a tool, which are JSON in a text."""
    return load_json(value, value) if isinstance(value, str) else value


def name_agent(span: Span) -> str | None:
    """Return the agent's name, if the span is an agent's work."""
    kind = str(span.attributes.get(_KIND) or "").upper()
    if span.attributes.get(OPERATION) == "invoke_agent" or kind == "AGENT":
        return read_text(read_first_of(span, _AGENTS)) or span.name
    # LangChain puts the agent's name on every span; the agent's own span is named after it.
    named = as_mapping(parse_arguments(span.attributes.get("metadata"))).get("lc_agent_name")
    return span.name if named is not None and named == span.name else None


def count_tokens(span: Span) -> dict[str, float | None]:
    """Return the tokens that the span counts, those of the cache apart."""
    read, written = _count(span, _CACHE_READ), _count(span, _CACHE_WRITE)
    prompt = _count(span, _INPUT_TOKENS)
    return {
        "prompt_tokens": None if prompt is None else max(0, prompt - (read or 0) - (written or 0)),
        "completion_tokens": _count(span, _OUTPUT_TOKENS),
        "cache_read_tokens": read,
        "cache_write_tokens": written,
        "reasoning_tokens": _count(span, _REASONING),
    }


def _count(span: Span, names: Sequence[str]) -> float | None:
    return parse_number(read_first_of(span, names))


def find_text(spans: Iterable[Span], names: Sequence[str], role: str) -> str | None:
    """Return what a role said, from the first of the spans that has it."""
    given = (read_first_of(span, names) for span in spans)
    return next(filter(None, (read_said(each, role) for each in given if each is not None)), None)

"""One turn of an agent, as fields of a record."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from calipers.support.quick_dataclasses import dataclass
from calipers.systems.calls import Reply

Message = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentTurn:
    """The output of a turn, its messages behind the user's in OpenAI's shape, and what it took."""

    output: Any
    messages: Sequence[Message]
    state: Any  # what the agent needs to go on
    usage: Mapping[str, int] = field(default_factory=dict)
    finish_reason: str | None = None
    calls: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # about tools, by id
    trace: Mapping[str, Any] = field(default_factory=dict)  # beside the calls

    def to_reply(self, said: str) -> Reply:
        """Return the turn as a reply to what the user said."""
        trace = {"tool_calls": list(self._list_tool_calls(said)), **self.trace}
        ended = {} if self.finish_reason is None else {"finish_reason": self.finish_reason}
        return Reply(
            text=_spell_output(self.output),
            fields={**self.usage, **ended, "trace": trace},
            messages=tuple(self.messages),
            state=self.state,
        )

    def _list_tool_calls(self, said: str) -> Sequence[Mapping[str, Any]]:
        made = (call for each in self.messages for call in each.get("tool_calls") or ())
        found = []
        for call in made:
            about = self.calls.get(call["id"], {})
            if not about.get("is_handoff"):
                args = _read_arguments(call["function"]["arguments"])
                found.append({"tool_name": call["function"]["name"], "args": args, "context": said})
                found[-1] |= about
        return found


def make_tool_call(number: Any, name: Any, arguments: Any) -> Message:
    """Return the call of a tool in OpenAI's shape."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, default=str)
    return {
        "id": str(number),
        "type": "function",
        "function": {"name": str(name), "arguments": text or "{}"},
    }


def as_text(value: Any) -> str:
    """Return what a tool said as a text."""
    return value if isinstance(value, str) else json.dumps(value, default=str)


def count_tokens(
    total: Any, output: Any, *, read: Any = 0, written: Any = 0, reasoning: Any = 0
) -> dict[str, int]:
    """Return tokens as records count them: those of the cache are not among those of the prompt."""
    total, output, read, written, reasoning = (
        int(each or 0) for each in (total, output, read, written, reasoning)
    )
    if not (total or output):
        return {}
    further = {"cache_read_tokens": read, "cache_write_tokens": written}
    further["reasoning_tokens"] = reasoning
    return {
        "prompt_tokens": max(0, total - read - written),
        "completion_tokens": output,
        **{name: count for name, count in further.items() if count},
    }


def _read_arguments(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _spell_output(output: Any) -> str | None:
    """Return the output as a text: what is structured, as JSON."""
    if output is None or isinstance(output, str):
        return output
    if hasattr(output, "model_dump"):
        output = output.model_dump(mode="json")
    elif dataclasses.is_dataclass(output) and not isinstance(output, type):
        output = dataclasses.asdict(output)
    return json.dumps(output, default=str, ensure_ascii=False)

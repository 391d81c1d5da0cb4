"""One call of a system, and its outcome: a reply, an agent's turn, or a fault."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from calipers.records.fields import BILLED_TOKENS
from calipers.support.lazy_numpy import replace_numpy
from calipers.systems.redact import LONGEST_MESSAGE, Mask

if TYPE_CHECKING:
    from calipers.systems.images import ImageFile

Kind = Literal[
    "timeout",
    "rate_limit",
    "server",
    "connection",
    "bad_response",
    "content_filter",
    "bad_request",
    "exception",
]
KINDS: tuple[str, ...] = Kind.__args__  # type: ignore[attr-defined]

_HELD = 1 << 16  # characters of a message until it is masked
_MICROSECOND = 6  # decimals of a second


SUMMED = (*BILLED_TOKENS, "reasoning_tokens", "cost_usd")


@dataclass(frozen=True, slots=True, kw_only=True)
class UserRole:
    """The part that a model plays as the user of one task."""

    goal: str
    persona: str | None
    max_turns: int
    settings: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """What a system is given: a record, and for models the prompt and the settings."""

    record: Mapping[str, Any]
    prompt: str
    system: str | None = None  # instructions that go before the prompt, in a message of their own
    settings: Mapping[str, Any] = field(default_factory=dict)
    messages: Sequence[Mapping[str, Any]] = ()  # a conversation so far, instead of the prompt
    turns: tuple[str, ...] = ()  # what the user says after these
    tools: Sequence[Mapping[str, Any]] = ()  # that a model may call: name, description, parameters
    images: Mapping[str, ImageFile] = field(default_factory=dict)  # by what the messages call them
    state: Any = None  # what the reply before left, for an agent to go on with
    user: UserRole | None = None  # somebody who goes on after these, played by a model

    @property
    def is_open_ended(self) -> bool:
        """Return True if more than one reply may be asked for."""
        return bool(self.turns or self.tools or self.user is not None)

    def open_messages(self) -> list[dict[str, Any]]:
        """Return the instructions, if any, and the prompt as messages."""
        system = [] if self.system is None else [{"role": "system", "content": self.system}]
        return [*system, {"role": "user", "content": self.prompt}]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A tool that a model wants called, its arguments as JSON."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What came back: a text, fields of the record, or both."""

    text: str | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)
    reasoning: str | None = None  # what the provider itself calls so
    logprobs: Sequence[tuple[str, float]] = ()  # of each token of the text
    tool_calls: Sequence[ToolCall] = ()
    messages: Sequence[Mapping[str, Any]] = ()  # the conversation, or an agent's part of it
    state: Any = None  # what an agent needs to go on; it is in no record
    seconds: float | None = None  # what the system took, where that is not the time of this call
    is_cached: bool = False  # answered from the suite's cache: nothing was called


def make_reply(given: Any) -> Reply:
    """Return the reply from a text or from fields of the record; raise a Fault otherwise."""
    plain = given
    with suppress(RecursionError):  # what is nested too deep is refused where fields are checked
        plain = replace_numpy(given)
    if isinstance(plain, str):
        return Reply(text=plain)
    if isinstance(plain, dict) and all(isinstance(key, str) for key in plain):
        return Reply(fields=plain)
    what = "nothing" if given is None else f"a value of type {type(given).__name__}"
    fix = 'it takes "…" or {"answer": …}'
    raise Fault("bad_response", f"neither a text nor record fields, but {what}: {fix}")


def add_usage(sums: dict[str, float], fields: Mapping[str, Any]) -> None:
    """Add what a reply took to the sums."""
    for name in SUMMED:
        if isinstance(value := fields.get(name), int | float):
            sums[name] = sums.get(name, 0) + value


def make_time_fields(seconds: float) -> dict[str, float]:
    """Return the time of a call, as in records."""
    return {
        "latency_ms": round(seconds * 1000, _MICROSECOND - 3),
        "duration_seconds": round(seconds, _MICROSECOND),
    }


class Fault(Exception):  # noqa: N818 (reads as a sentence: "raise Fault")
    """A call that failed.

    `again` says that another attempt may help; `outage`, that other calls would fail too, so that
    many in a row mean that the system is down. The message may be a provider's text and hold keys:
    only `mask` cuts it, after masking.
    """

    def __init__(
        self,
        kind: Kind,
        message: str,
        *,
        again: bool = False,
        outage: bool = False,
        retry_after: float | None = None,
        usage: Mapping[str, Any] | None = None,
        most: int = LONGEST_MESSAGE,
    ) -> None:
        self.kind = kind
        self.message = message[:_HELD]
        self.most = most
        self.again = again
        self.outage = outage
        self.retry_after = retry_after
        self.usage = usage or {}  # record fields of what was billed all the same
        super().__init__(f"{kind}: {self.message}")

    def forget_origin(self) -> Fault:
        """Return the fault without what led to it: its frames hold bodies of replies."""
        self.__cause__ = self.__context__ = None
        return self.with_traceback(None)

    def mask(self, mask: Mask) -> Fault:
        """Return the same fault with a message that can be written and shown."""
        return Fault(
            self.kind,
            mask.mask_message(self.message, self.most),
            again=self.again,
            outage=self.outage,
            retry_after=self.retry_after,
            usage=self.usage,
        )


def describe_error(error: BaseException, place: str | None = None) -> str:
    """Return the type of an exception, the line it came through, and its text, which may be long.

    >>> describe_error(ValueError("no digits"), "bot.py:3")
    'ValueError (bot.py:3): no digits'
    """
    name = type(error).__name__ if place is None else f"{type(error).__name__} ({place})"
    return f"{name}: {error}" if str(error) else name


class System(Protocol):
    """Something that answers."""

    async def __call__(self, call: Call) -> Reply:
        """Return the reply, or raise a Fault."""
        ...


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

    def to_reply(self, text: str) -> Reply:
        """Return the turn as a reply to what the user said."""
        trace = {"tool_calls": list(self._list_tool_calls(text)), **self.trace}
        ended = {} if self.finish_reason is None else {"finish_reason": self.finish_reason}
        return Reply(
            text=_spell_output(self.output),
            fields={**self.usage, **ended, "trace": trace},
            messages=tuple(self.messages),
            state=self.state,
        )

    def _list_tool_calls(self, text: str) -> Sequence[Mapping[str, Any]]:
        made = (call for message in self.messages for call in message.get("tool_calls") or ())
        tool_calls = []
        for call in made:
            about = self.calls.get(call["id"], {})
            if not about.get("is_handoff"):
                args = _read_arguments(call["function"]["arguments"])
                tool_calls.append(
                    {"tool_name": call["function"]["name"], "args": args, "context": text}
                )
                tool_calls[-1] |= about
        return tool_calls


def make_tool_call(number: Any, name: Any, arguments: Any) -> Message:
    """Return the call of a tool in OpenAI's shape."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, default=str)
    return {
        "id": str(number),
        "type": "function",
        "function": {"name": str(name), "arguments": text or "{}"},
    }


def format_tool_reply(value: Any) -> str:
    """Return what a tool said as a text."""
    return value if isinstance(value, str) else json.dumps(value, default=str)


def make_token_fields(
    total: Any, output: Any, *, read: Any = 0, written: Any = 0, reasoning: Any = 0
) -> dict[str, int]:
    """Return tokens as records count them: those of the cache are not among those of the prompt."""
    total, output, read, written, reasoning = (
        int(count or 0) for count in (total, output, read, written, reasoning)
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

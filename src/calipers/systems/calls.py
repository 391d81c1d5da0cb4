"""One call of a system, and its outcome: a reply or a fault."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from calipers.support.quick_dataclasses import dataclass
from calipers.systems.masking import MESSAGE, Mask

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


SUMMED = (
    *("prompt_tokens", "completion_tokens", "cache_read_tokens", "cache_write_tokens"),
    *("reasoning_tokens", "cost_usd"),
)


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
        """Say whether more than one reply may be asked for."""
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


def make_reply(given: Any) -> Reply:
    """Return the reply from a text or from fields of the record; raise a Fault otherwise."""
    if isinstance(given, str):
        return Reply(text=given)
    if isinstance(given, dict) and all(isinstance(key, str) for key in given):
        return Reply(fields=given)
    what = "nothing" if given is None else f"a value of type {type(given).__name__}"
    raise Fault("bad_response", f"neither a text nor record fields, but {what}")


def add_usage(sums: dict[str, float], fields: Mapping[str, Any]) -> None:
    """Add what a reply took to the sums."""
    for name in SUMMED:
        if isinstance(value := fields.get(name), int | float):
            sums[name] = sums.get(name, 0) + value


def time_fields(seconds: float) -> dict[str, float]:
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
        most: int = MESSAGE,
    ) -> None:
        self.kind = kind
        self.message = message[:_HELD]
        self.most = most
        self.again = again
        self.outage = outage
        self.retry_after = retry_after
        self.usage = usage or {}  # record fields of what was billed all the same
        super().__init__(f"{kind}: {self.message}")

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


def describe_error(error: BaseException) -> str:
    """Return the type and the text of an exception."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


class System(Protocol):
    """Something that answers."""

    async def __call__(self, call: Call) -> Reply:
        """Return the reply, or raise a Fault."""
        ...

"""What the user says, for agents that take a text and images instead of a conversation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from calipers.systems.calls import Fault, format_tool_reply
from calipers.systems.images import get_url


@dataclass(frozen=True, slots=True)
class UserMessage:
    """The last message of the user, and the suite's instructions before it."""

    text: str
    images: Sequence[str] = ()  # data URLs
    system: str | None = None


def read_user_message(
    messages: Sequence[Mapping[str, Any]], agent: str, *, is_first: bool, system: bool
) -> UserMessage:
    """Return what the user said last; what was said before it, the agent knows of later turns.

    Args:
        messages: The conversation so far.
        agent: What the agent is called in an error.
        is_first: Whether the agent has not been asked before.
        system: Whether it takes instructions beside its own.

    Raises:
        Fault: There are earlier messages that such an agent cannot be given.
    """
    *before, last = messages
    before = before if is_first else []
    told = [message.get("content") for message in before if message.get("role") == "system"]
    if len(told) < len(before):
        raise Fault("bad_request", f"{agent} takes no earlier messages: write turns of the user")
    if told and not system:
        raise Fault("bad_request", f"{agent} takes no instructions of the suite: give it its own")
    content = last.get("content")
    parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
    return UserMessage(
        text="".join(str(part.get("text", "")) for part in parts if part.get("type") == "text"),
        images=[str(get_url(part)) for part in parts if part.get("type") == "image_url"],
        system="\n".join(map(format_tool_reply, told)) or None,
    )

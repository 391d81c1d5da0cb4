"""Messages in OpenAI's shape, as pydantic-ai has them, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic_ai.messages import (
    BinaryContent,
    ImageUrl,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
)

from calipers.systems.calls import Fault
from calipers.systems.images import get_url


def convert_messages(messages: Sequence[Mapping[str, Any]]) -> list[ModelMessage]:
    """Return a conversation in pydantic-ai's words.

    Raises:
        Fault: A part of a message is neither a text nor an image.
    """
    converted: list[ModelMessage] = []
    names: dict[str, str] = {}  # of the tools, by the calls' ids
    for message in messages:
        role, content = message.get("role"), message.get("content")
        if role == "assistant":
            asked = [(e["id"], e["function"]) for e in message.get("tool_calls") or ()]
            names |= {number: made["name"] for number, made in asked}
            calls = [ToolCallPart(m["name"], m["arguments"], number) for number, m in asked]
            text = _join_texts(content)
            converted.append(ModelResponse(parts=[*([TextPart(text)] if text else []), *calls]))
            continue
        part: Any = UserPromptPart(convert_content(content))
        if role == "system":
            part = SystemPromptPart(_join_texts(content))
        elif role == "tool":
            number = str(message.get("tool_call_id"))
            part = ToolReturnPart(names.get(number, "tool"), _join_texts(content), number)
        if converted and isinstance(converted[-1], ModelRequest):
            converted[-1] = ModelRequest(parts=[*converted[-1].parts, part])
        else:
            converted.append(ModelRequest(parts=[part]))
    return converted


def _join_texts(content: Any) -> str:
    parts = convert_content(content)
    return parts if isinstance(parts, str) else "".join(e for e in parts if isinstance(e, str))


def convert_content(content: Any) -> str | list[UserContent]:
    """Return what a user says: a text, or texts and images."""
    if not isinstance(content, list):
        return content if isinstance(content, str) else ""
    parts = [_convert_part(part) for part in content]
    texts = [part for part in parts if isinstance(part, str)]
    return "".join(texts) if len(texts) == len(parts) else parts


def _convert_part(part: Any) -> UserContent:
    kind = part.get("type") if isinstance(part, Mapping) else None
    if kind == "text":
        return str(part.get("text", ""))
    if kind != "image_url":
        raise Fault("bad_request", f"a part of type {kind}: this provider is sent texts and images")
    url, image = str(get_url(part)), part["image_url"]
    detail = image.get("detail") if isinstance(image, Mapping) else None
    also = None if detail is None else {"detail": detail}
    if url.startswith("data:"):
        content = BinaryContent.from_data_uri(url)
        return BinaryContent(content.data, media_type=content.media_type, vendor_metadata=also)
    return ImageUrl(url, vendor_metadata=also)

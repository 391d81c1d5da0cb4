"""A record's conversation as people read it: who said what, which tools were called, the replies.

The messages are those of chat servers (OpenAI's, Anthropic's, LangChain's). A record without any
has a question, a thought, the calls of its trace, and an answer. Anything may stand in a record:
what is no message is left out, what is no text is shown as JSON, and nothing is loaded from
elsewhere.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeGuard

PartKind = Literal["text", "reasoning", "image", "file"]
Tone = Literal["good", "bad"]

SYSTEM, USER, ASSISTANT, TOOL = "system", "user", "assistant", "tool"
MOST_TURNS = 400  # that are read: the first and the last
_MOST_CALLS = 200  # of one turn
_MOST_PARTS = 200
_DEEPEST = 4  # lists within the content of a message
_MOST_IMAGE = 8 << 20  # bytes of a picture, as text
_MOST_MARKS = 200  # in one text

_ROLES = {
    **dict.fromkeys(("user", "human", "humanmessage"), USER),
    **dict.fromkeys(("assistant", "ai", "aimessage", "aimessagechunk", "model"), ASSISTANT),
    **dict.fromkeys(("system", "developer", "systemmessage"), SYSTEM),
    **dict.fromkeys(("tool", "toolmessage", "function", "tool_result"), TOOL),
}
_THOUGHTS = ("reasoning_content", "reasoning", "thinking")  # beside the content of a message
_THINKING = ("reasoning", "thinking", "thought", "redacted_thinking")
_CALLING = ("tool_use", "tool_call", "function_call", "server_tool_use")
_REPLYING = ("tool_result", "function_call_output", "tool_call_output")
_IMAGES = ("image", "image_url", "input_image")
_ARGUMENTS = ("arguments", "args", "input", "kwargs", "context")
_RESULTS = ("result", "output", "reply", "response", "observation")
_NUMBERS = ("tool_call_id", "tool_use_id", "call_id", "id")
_THOUGHT_ALOUD = re.compile(
    r"\s*<(think|thinking|reasoning)>(.*?)(?:</\1>\s*|\Z)", re.DOTALL | re.IGNORECASE
)
_DATA = re.compile(r"data:(image/[a-z0-9.+-]{1,40});base64,", re.IGNORECASE)
_SIGNATURES = {
    "image/png": (b"\x89PNG\r\n\x1a\n",),
    "image/jpeg": (b"\xff\xd8\xff",),
    "image/gif": (b"GIF87a", b"GIF89a"),
    "image/webp": (b"RIFF",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Some text, a thought, a picture or another file: of the last two, what it is in words."""

    kind: PartKind
    text: str
    media_type: str = ""  # of a picture that can be shown
    data: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolUse:
    """A tool that was called, what with, and what it replied."""

    name: str
    arguments: tuple[tuple[str, str], ...] = ()  # by name; one without a name if they are no object
    reply: str | None = None  # None: none was recorded
    failed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What somebody said, and the tools that were called then."""

    role: str  # system, user, assistant, tool; or as the record calls it
    name: str = ""  # of who spoke, where the record says so
    parts: tuple[Part, ...] = ()
    calls: tuple[ToolUse, ...] = ()
    left_out: int = 0  # turns in the place of this one

    @property
    def text(self) -> str:
        """What was said, without thoughts and pictures."""
        return "\n".join(part.text for part in self.parts if part.kind == "text")


def read_transcript(record: Mapping[str, Any]) -> list[Turn]:
    """Return the turns of a record, whose nested fields may be JSON text.

    >>> call = {"id": "1", "function": {"name": "find", "arguments": '{"order": 4100}'}}
    >>> said = [
    ...     {"role": "user", "content": "Where is order 4100?"},
    ...     {"role": "assistant", "content": None, "tool_calls": [call]},
    ...     {"role": "tool", "tool_call_id": "1", "content": "shipped"},
    ... ]
    >>> [turn.role for turn in read_transcript({"messages": said})]
    ['user', 'assistant']
    >>> read_transcript({"messages": said})[1].calls
    (ToolUse(name='find', arguments=(('order', '4100'),), reply='shipped', failed=False),)
    """
    messages = _parse(record.get("messages"))
    listed = [each for each in messages if isinstance(each, Mapping)] if _is_list(messages) else []
    turns = _read_messages(listed)
    if not any(turn.parts or turn.calls for turn in turns):
        turns = _read_question(record)
    if not any(turn.calls for turn in turns) and (calls := _read_traced_calls(record)):
        at = len(turns) - 1 if turns and turns[-1].role == ASSISTANT else len(turns)
        turns.insert(at, Turn(role=ASSISTANT, calls=calls))
    return _add_answer(turns, record)


def _read_messages(messages: Sequence[Mapping[str, Any]]) -> list[Turn]:
    gap = max(0, len(messages) - MOST_TURNS)
    if gap:
        half = MOST_TURNS // 2
        first, last = _read_some(messages[:half]), _read_some(messages[half + gap :])
        return [*first, Turn(role="", left_out=gap), *last]
    return _read_some(messages)


def _read_some(messages: Sequence[Mapping[str, Any]]) -> list[Turn]:
    """Return turns; the reply of a tool stands with its call, or is a turn of its own."""
    turns: list[Turn] = []
    waiting: list[tuple[str, int, int]] = []  # ids of calls without a reply, and where they stand
    for message in map(_unwrap, messages):
        role = _read_role(message)
        parts, calls, replies = _read_content(message, role)
        for reply in replies:
            if not _place_reply(reply, turns, waiting):
                name, text = reply.name or "tool", Part(kind="text", text=reply.text)
                turns.append(Turn(role=TOOL, name=name, parts=(text,)))
        if parts or calls or not replies:
            name = _as_line(message.get("name"))
            made = tuple(call for _, call in calls)
            turns.append(Turn(role=role, name=name, parts=tuple(parts), calls=made))
            waiting += [(number, len(turns) - 1, at) for at, (number, _) in enumerate(calls)]
    return turns


@dataclass(frozen=True, slots=True)
class _Reply:
    number: str
    name: str
    text: str
    failed: bool


def _place_reply(reply: _Reply, turns: list[Turn], waiting: list[tuple[str, int, int]]) -> bool:
    """Put a reply beside its call: by the id, or else by the name, or the only one that waits."""
    found = next((each for each in waiting if reply.number and each[0] == reply.number), None)
    if found is None and not reply.number:
        named = (each for each in waiting if turns[each[1]].calls[each[2]].name == reply.name)
        found = next(named, waiting[0] if len(waiting) == 1 else None)
    if found is None:
        return False
    waiting.remove(found)
    _, turn, at = found
    calls = list(turns[turn].calls)
    calls[at] = replace(calls[at], reply=reply.text, failed=reply.failed)
    turns[turn] = replace(turns[turn], calls=tuple(calls))
    return True


def _unwrap(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the message inside what LangChain serialized: its data, or a constructor's."""
    data, kwargs = message.get("data"), message.get("kwargs")
    if isinstance(data, Mapping) and "type" in message and "content" not in message:
        return {"type": message["type"], **data}
    if isinstance(kwargs, Mapping) and isinstance(message.get("id"), list):
        kind = message["id"][-1] if message["id"] else ""
        return {"type": kind, **kwargs}
    return message


def _read_role(message: Mapping[str, Any]) -> str:
    kind = message.get("type")
    if kind in _CALLING or kind == "reasoning":  # OpenAI's Responses list these as items
        return ASSISTANT
    found = next((v for k in ("role", "type", "from") if isinstance(v := message.get(k), str)), "")
    if found in _REPLYING:
        return TOOL
    return _ROLES.get(found.lower(), _as_line(found) or "message")


_Calls = list[tuple[str, ToolUse]]


def _read_content(message: Mapping[str, Any], role: str) -> tuple[list[Part], _Calls, list[_Reply]]:
    """Return what a message says, the tools that it calls, and the replies of tools in it."""
    if role == TOOL or message.get("type") in _REPLYING:
        return [], [], [_read_reply(message)]
    parts: list[Part] = []
    calls: _Calls = []
    replies: list[_Reply] = []
    for name in _THOUGHTS:
        if (said := _read_thought(message.get(name))) and said not in [p.text for p in parts]:
            parts.append(Part(kind="reasoning", text=said))
    content = message.get("parts") or message.get("content")
    if content is None and "value" in message:  # ShareGPT's
        content = message["value"]
    items = [message] if message.get("type") in (*_CALLING, "reasoning") else [content]
    for each in _flatten(items):
        kind = each.get("type") if isinstance(each, Mapping) else None
        if kind in _CALLING:
            calls.append(_read_call(each))
        elif kind in _REPLYING:
            replies.append(_read_reply(each))
        else:
            parts += _read_parts(each)
    listed = message.get("tool_calls")
    if _is_list(listed):
        calls += [_read_call(each) for each in listed if _is_object(each)]
    if _is_object(message.get("function_call")):
        calls.append(_read_call(message["function_call"]))
    return parts[:_MOST_PARTS], calls[:_MOST_CALLS], replies[:_MOST_CALLS]


def _flatten(values: Sequence[Any], deep: int = _DEEPEST) -> Iterator[Any]:
    for each in values:
        if _is_list(each) and deep:
            yield from _flatten(each, deep - 1)
        elif each is not None:
            yield each


def _read_parts(value: Any) -> Iterator[Part]:
    """Yield the parts of a piece of content: a text, an object with a type, or anything else."""
    if isinstance(value, str):
        yield from _split_thoughts(value)
        return
    if not isinstance(value, Mapping):
        yield Part(kind="text", text=_write(value))
        return
    kind = value.get("type")
    if kind in _THINKING:
        said = _read_thought(value)
        yield Part(kind="reasoning", text=said or "(not shown by the provider)")
    elif kind in _IMAGES or "image_url" in value or "inline_data" in value:
        yield _read_image(value)
    else:
        text = next((value[k] for k in ("text", "content", "refusal") if value.get(k)), None)
        if isinstance(text, str):
            yield from _split_thoughts(text)
        elif kind in ("text", "input_text", "output_text") and text is None:
            return
        else:
            yield Part(kind="file" if kind else "text", text=_write(value))


def _split_thoughts(text: str) -> Iterator[Part]:
    """Yield the thought at the beginning of a text, if it has one, and the rest."""
    if (found := _THOUGHT_ALOUD.match(text)) is not None:
        if thought := found[2].strip():
            yield Part(kind="reasoning", text=thought)
        text = text[found.end() :]
    if text.strip():
        yield Part(kind="text", text=text)


def _read_thought(value: Any) -> str:
    if isinstance(value, str):
        return value.strip()
    if _is_list(value):
        return "\n".join(filter(None, map(_read_thought, value[:_MOST_PARTS])))
    if isinstance(value, Mapping):
        keys = ("thinking", "reasoning", "text", "content", "summary")
        return next((said for key in keys if (said := _read_thought(value.get(key)))), "")
    return ""


def _read_call(call: Mapping[str, Any]) -> tuple[str, ToolUse]:
    function = call.get("function")
    inside = function if isinstance(function, Mapping) else call
    name = function if isinstance(function, str) else inside.get("name") or call.get("tool_name")
    given = next((inside[key] for key in _ARGUMENTS if inside.get(key) is not None), None)
    number = next((call[key] for key in ("call_id", "id") if call.get(key) is not None), "")
    said = next((call[key] for key in _RESULTS if call.get(key) is not None), None)
    return str(number), ToolUse(
        name=_as_line(name) or "a tool without a name",
        arguments=_read_arguments(given),
        reply=None if said is None else _write(said),
        failed=call.get("success") is False or call.get("error") not in (None, False, ""),
    )


def _read_arguments(given: Any) -> tuple[tuple[str, str], ...]:
    found = _parse(given)
    if isinstance(found, Mapping):
        return tuple((_as_line(name), _write(value)) for name, value in found.items())
    return () if found is None or found == "" else (("", _write(found)),)


def _read_reply(message: Mapping[str, Any]) -> _Reply:
    number = next((message[key] for key in _NUMBERS if message.get(key) is not None), "")
    content = message.get("content", message.get("output"))
    said = [part.text for each in _flatten([content]) for part in _read_parts(each)]
    failed = message.get("error") not in (None, False, "") or message.get("status") == "error"
    return _Reply(
        number=str(number),
        name=_as_line(message.get("name")),
        text="\n".join(said[:_MOST_PARTS]),
        failed=failed or message.get("is_error") is True,
    )


def _read_image(value: Mapping[str, Any]) -> Part:
    """Return a picture: its data if the record holds them, or where it lies, which is not asked."""
    source = next(
        (value[k] for k in ("image_url", "source", "inline_data", "image", "url") if value.get(k)),
        "",
    )
    if isinstance(source, Mapping):
        kind = source.get("media_type") or source.get("mime_type")
        held = source.get("url") or source.get("data")
        source = f"data:{kind};base64,{held}" if kind and not source.get("url") else held
    address = source if isinstance(source, str) else _write(source)
    if (found := _DATA.match(address)) is None:
        return Part(kind="image", text=f"picture at {address}" if address else "picture")
    return decode_image(found[1].lower(), address[found.end() :])


def decode_image(media_type: str, text: str) -> Part:
    """Return a picture in Base64; with its data only if they begin as such a picture does.

    >>> decode_image("image/svg+xml", "PHN2Zz4=").text
    'SVG+XML picture, 0.0 kB, which cannot be shown'
    """
    kind = media_type.removeprefix("image/").upper()
    try:
        data = base64.b64decode(text, validate=True) if len(text) <= _MOST_IMAGE else b""
    except (binascii.Error, ValueError):
        data = b""
    whole = f"{kind} picture, {len(text) * 3 // 4 / 1000:,.1f} kB"
    if data.startswith(_SIGNATURES.get(media_type, ())) and data:
        return Part(kind="image", text=whole, media_type=media_type, data=data)
    return Part(kind="image", text=f"{whole}, which cannot be shown")


def _read_question(record: Mapping[str, Any]) -> list[Turn]:
    """Return the question of a record without messages."""
    asked = record.get("input")
    if asked is None or asked == "":
        return []
    return [Turn(role=USER, parts=(Part(kind="text", text=_write(asked)),))]


def _read_traced_calls(record: Mapping[str, Any]) -> tuple[ToolUse, ...]:
    trace = _parse(record.get("trace"))
    listed = trace.get("tool_calls") if isinstance(trace, Mapping) else None
    calls = [each for each in listed if _is_object(each)] if _is_list(listed) else []
    return tuple(_read_call(each)[1] for each in calls[:_MOST_CALLS])


def _add_answer(turns: list[Turn], record: Mapping[str, Any]) -> list[Turn]:
    """Add the thought and the answer of a record, unless the messages end with them."""
    thought, answer = record.get("cot"), record.get("answer")
    spoken = [turn for turn in turns if turn.role == ASSISTANT and turn.text]
    parts: list[Part] = []
    heard = "\n".join(part.text for turn in turns for part in turn.parts)
    if isinstance(thought, str) and thought.strip() and thought.strip() not in heard:
        parts.append(Part(kind="reasoning", text=thought))
    ended = bool(spoken) and turns[-1] is spoken[-1]
    if not ended and answer is not None and answer != "":
        parts.append(Part(kind="text", text=_write(answer)))
    if ended and parts:
        return [*turns[:-1], replace(turns[-1], parts=(*parts, *turns[-1].parts))]
    return [*turns, Turn(role=ASSISTANT, parts=tuple(parts))] if parts else turns


@dataclass(frozen=True, slots=True)
class Marked:
    """Some text, with a tone or without."""

    text: str
    tone: Tone | None = None


def mark_words(text: str, words: Mapping[str, Tone]) -> list[Marked]:
    """Return a text with some words marked; in capitals or not, and as whole words alone.

    >>> [(each.text, each.tone) for each in mark_words("It is Shipped.", {"shipped": "good"})]
    [('It is ', None), ('Shipped', 'good'), ('.', None)]
    """
    tones = {word.lower(): tone for word, tone in words.items() if word.strip()}
    if not tones:
        return [Marked(text)]
    longest = sorted(tones, key=len, reverse=True)
    pattern = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, longest))})(?!\w)", re.IGNORECASE)
    found: list[Marked] = []
    at = 0
    for count, match in enumerate(pattern.finditer(text)):
        if count == _MOST_MARKS:
            break
        found += [Marked(text[at : match.start()])] if match.start() > at else []
        found.append(Marked(match[0], tones.get(match[0].lower())))
        at = match.end()
    return [*found, Marked(text[at:])] if at < len(text) else found


def choose_marks(record: Mapping[str, Any], *, right: bool | None) -> dict[str, Tone]:
    """Return which words of a transcript to mark: the target, and a wrong answer."""
    found: dict[str, Tone] = {}
    answer, target = record.get("answer"), record.get("target")
    if right is False and isinstance(answer, str) and _is_short(answer):
        found[answer.strip()] = "bad"
    if isinstance(target, str) and _is_short(target):
        found[target.strip()] = "good"
    return found


def list_pictures(turns: Sequence[Turn]) -> list[Part]:
    """Return the pictures that can be shown, in their order: a page numbers them so."""
    return [part for turn in turns for part in turn.parts if part.data]


_LONGEST_MARK = 80


def _is_short(text: str) -> bool:
    return 0 < len(text.strip()) <= _LONGEST_MARK


def _parse(value: Any) -> Any:
    """Return what a text is the JSON of, or the value itself."""
    if not isinstance(value, str) or value.lstrip()[:1] not in ("{", "["):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def _write(value: Any) -> str:
    """Return a text unchanged, anything else as JSON."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (ValueError, RecursionError):
        return "(nested too deep to show)"


def _as_line(value: Any) -> str:
    text = "" if value is None else " ".join(str(value).split())
    return text[:200]


def _is_list(value: Any) -> TypeGuard[Sequence[Any]]:
    return isinstance(value, list | tuple)


def _is_object(value: Any) -> TypeGuard[Mapping[str, Any]]:
    return isinstance(value, Mapping)

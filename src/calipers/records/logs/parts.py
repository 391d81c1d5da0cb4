"""Parts of other tools' logs: JSON that may be damaged, messages, calls of tools, scores, tokens.

Questions, answers and calls of tools are found in the many shapes in which tools and providers
write conversations.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

from calipers.records.derived_fields import SYNONYMS, TRACE_PARTS
from calipers.records.fields import FIELDS, load_json
from calipers.records.readers.bytestream import decompress, read_document, read_lines, shorten_error
from calipers.records.readers.joins import parse_cell
from calipers.support.errors import DataError

OURS = frozenset((*FIELDS, *SYNONYMS.values(), *TRACE_PARTS))
_PREFIX = "score_"
_TEXT = re.compile(r"[^\s\ufeff]")
_NUMBERS = (int, float)
_LARGEST = sys.float_info.max
_DECIMAL = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_DIGITS = 19  # of the largest whole number in 64 bits


def parse_json(data: bytes | str, where: str) -> Any:
    """Return the JSON; NaN and unpaired surrogates are accepted, as logs contain them."""
    with suppress(ValueError):
        return _find_parser()(data)
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"{where}: not JSON: {shorten_error(error)}",
            fix="check that the log is whole; write it again",
        ) from error


@cache
def _find_parser() -> Callable[[bytes | str], Any]:
    from pydantic_core import from_json  # noqa: PLC0415 (slow to load)

    return partial(from_json, allow_inf_nan=True, cache_strings="keys")


def read_whole(path: Path) -> Any:
    """Return the JSON of a whole file, plain or compressed."""
    with path.open("rb") as file:
        return parse_json(read_document(decompress(file, str(path)), str(path)), str(path))


def read_json_lines(path: Path) -> Iterator[tuple[Mapping[str, Any], float]]:
    """Yield the JSON object of each line, and the share of the file read."""
    size = max(path.stat().st_size, 1)
    with path.open("rb") as file:
        lines = read_lines(decompress(file, str(path)), str(path))
        for number, line in enumerate(lines, start=1):
            if line.strip():
                row = as_mapping(parse_json(line, f"{path}:{number}"))
                yield row, min(1.0, file.tell() / size)


def as_mapping(value: Any) -> Mapping[str, Any]:
    """Return the object, or an empty one."""
    return value if isinstance(value, dict) else {}


def has_keys(*keys: str) -> Callable[[Any], bool]:
    """Return what says whether a JSON is an object with all these keys."""
    return lambda document: as_mapping(document).keys() >= {*keys}


def as_list(value: Any) -> list[Any]:
    """Return the list, or an empty one."""
    return value if isinstance(value, list) else []


def list_objects(value: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the objects in a list."""
    return (item for item in as_list(value) if isinstance(item, dict))


def as_number(value: Any) -> float | None:
    """Return the number, or None if it is not one."""
    if isinstance(value, bool) or not isinstance(value, _NUMBERS):
        return None
    return value if -_LARGEST <= value <= _LARGEST else None


def parse_number(value: Any) -> float | None:
    """Return the number, which some write as a text, or None.

    >>> [parse_number(each) for each in (7, "7", "7.0", "seven", None)]
    [7, 7, 7.0, None, None]
    """
    if isinstance(value, str) and len(value) <= _DIGITS and _DECIMAL.fullmatch(value):
        return float(value) if "." in value else int(value)
    return as_number(value)


def read_text(content: Any) -> str | None:
    """Return the text of a message's content: itself, or that of its parts."""
    if content is None or isinstance(content, str):
        return content
    if isinstance(content, dict):
        return read_text(content.get("text", content.get("content")))
    if isinstance(content, list):
        found = [part for part in map(read_text, content) if part]
        return "\n".join(found) if found else None
    return json.dumps(content, ensure_ascii=False)


def format_text(value: Any) -> str | None:
    """Return a text unchanged, anything else as JSON."""
    is_text = value is None or isinstance(value, str)
    return value if is_text else json.dumps(value, ensure_ascii=False)


def find_last_text(messages: Iterable[Any], role: str) -> str | None:
    """Return the text of the last message of a role, or None."""
    found = [as_mapping(message) for message in messages if as_mapping(message).get("role") == role]
    return read_text(found[-1].get("content")) if found else None


def keep_extra(*groups: Any, used: Collection[str] = ("category",)) -> dict[str, Any]:
    """Return fields as they are, nested ones as JSON text.

    One named like a field of the record is kept as `metadata_NAME`, unless it is `used` as such.
    """
    return {
        f"metadata_{name}" if name in OURS else str(name): format_text(value)
        if isinstance(value, dict | list)
        else value
        for fields in groups
        for name, value in as_mapping(fields).items()
        if name not in used
    }


def spread_scores(scores: Mapping[str, Any]) -> dict[str, Any]:
    """Return each score in its own field; one of several parts in as many."""
    fields: dict[str, Any] = {}
    for name, value in scores.items():
        if isinstance(value, dict):
            fields |= {f"{_PREFIX}{name}_{part}": score for part, score in value.items()}
        elif not isinstance(value, list):
            fields[f"{_PREFIX}{name}"] = value
    return fields


def place_target(target: str | None, *, correct: bool | None, judged: bool) -> dict[str, Any]:
    """Return the target; as `expected` if the scorer left it open, so that texts do not decide."""
    return {"expected" if judged and correct is None else "target": target}


def sum_usage(by_model: Mapping[str, Mapping[str, float | None]]) -> dict[str, Any]:
    """Return the sum of what the models used, and each one's if there are several."""
    if len(by_model) < 2:  # noqa: PLR2004 (there is nothing to add up)
        return dict(*by_model.values())
    names = dict.fromkeys(name for counts in by_model.values() for name in counts)
    fields: dict[str, Any] = {}
    for name in names:
        known = [count for counts in by_model.values() if (count := counts.get(name)) is not None]
        fields[name] = sum(known) if known else None
    fields["usage"] = [
        {"model": model} | {name: count for name, count in counts.items() if count is not None}
        for model, counts in by_model.items()
    ]
    if any(counts.get("cost_usd") is None for counts in by_model.values()):
        fields.pop("cost_usd", None)
    return fields


def as_truth(value: Any) -> bool | None:
    """Return whether a score means right or wrong; None if it is partial or something else."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _WORDS.get(value.strip().lower())
    return {0.0: False, 1.0: True}.get(value) if as_number(value) is not None else None


_WORDS = {
    **dict.fromkeys(("c", "yes", "true", "correct", "pass", "passed", "1", "1.0"), True),
    **dict.fromkeys(("i", "n", "no", "false", "incorrect", "fail", "failed", "0", "0.0"), False),
}


USER, ASSISTANT = "user", "assistant"

_ROLES = {
    **dict.fromkeys(("human", "humanmessage"), USER),
    **dict.fromkeys(("ai", "aimessage", "aimessagechunk", "model"), ASSISTANT),
}
_CONVERSATION = ("messages", "input_messages", "output_messages", "history", "prompt", "choices")
_USUAL = {
    USER: ("input", "question", "query", "prompt", "user_input", "text", "content", "request"),
    ASSISTANT: (
        *("output", "answer", "response", "final_output", "completion", "text", "content"),
        *("result", "generation", "prediction", "reply"),
    ),
}
_DEEPEST = 6  # objects around a text
_PAIR = 2
_SPEAKERS = ("user", "human", "assistant", "ai", "system")
_ARGUMENTS = ("arguments", "args", "input", "kwargs")
_OF_CALLS = ("tool_calls", "tool_call_id", "error", "status")


def find_last_said(value: Any, role: str) -> str | None:
    """Return the text that a role said last: of a text, a message, messages, or around these.

    >>> find_last_said({"messages": [{"type": "human", "content": "Hi"}]}, "user")
    'Hi'
    >>> find_last_said([["system", "Be brief."], ["user", "Hi"]], "user")
    'Hi'
    >>> find_last_said({"question": "2 + 2?"}, "user"), find_last_said({"a": 1, "b": 2}, "user")
    ('2 + 2?', '{"a": 1, "b": 2}')
    """
    return _find_text(value, role, _DEEPEST) or (
        format_text(value) if value not in ({}, []) else None
    )


def _find_text(value: Any, role: str, depth: int) -> str | None:
    if isinstance(value, str):
        parsed = _parse_nested(value)
        return (
            value if parsed is None else (_find_text(parsed, role, depth - 1) if depth else value)
        )
    if isinstance(value, list):
        return _find_in_list(value, role, depth)
    return _find_in_object(value, role, depth) if isinstance(value, dict) and depth else None


def _parse_nested(text: str) -> Any:
    """Return the list or object that a text is the JSON of, or None."""
    return load_json(text) if text.lstrip()[:1] in ("{", "[") else None


def _find_in_list(values: list[Any], role: str, depth: int) -> str | None:
    messages = [_unwrap(message) for message in list_objects(list(map(_read_pair, values)))]
    if any(_name_role(message) for message in messages):
        said = (
            _read_content(message) for message in reversed(messages) if _name_role(message) == role
        )
        return next(filter(None, said), None)
    if not depth:
        return None
    found = (_find_text(value, role, depth - 1) for value in reversed(values))
    return (
        next(filter(None, found), None)
        if values and len(messages) == len(values)
        else (_find_text(values[0], role, depth - 1) if len(values) == 1 else read_text(values))
    )


def _read_pair(value: Any) -> Any:
    """Return the message that a pair of role and text is, as LangChain takes them."""
    is_pair = isinstance(value, list) and len(value) == _PAIR and isinstance(value[0], str)
    if not is_pair or value[0].lower() not in _SPEAKERS or not isinstance(value[1], str):
        return value
    return {"role": value[0], "content": value[1]}


def _find_in_object(value: Mapping[str, Any], role: str, depth: int) -> str | None:
    value = _unwrap(value)
    if _name_role(value):
        return _read_content(value)
    if "generations" in value:  # of LangChain: a list for each prompt
        return _find_text(value["generations"], role, depth - 1)
    if role == ASSISTANT and isinstance(value.get("message"), dict):
        return _find_text(value["message"], role, depth - 1) or read_text(value.get("text"))
    for name in _CONVERSATION:
        if isinstance(value.get(name), list) and (text := _find_text(value[name], role, depth - 1)):
            return text
    known = [name for name in _USUAL[role] if value.get(name) is not None]
    names = known or (list(value) if len(value) == 1 else [])
    return _find_text(value[names[0]], role, depth - 1) if names else None


def _unwrap(given: Any) -> Mapping[str, Any]:
    """Return the message inside what LangChain serialized: its data, or a constructor's."""
    message = as_mapping(given)
    if isinstance(message.get("data"), dict) and "type" in message and "content" not in message:
        return {"type": message["type"], **message["data"]}
    if isinstance(message.get("kwargs"), dict) and isinstance(message.get("id"), list):
        kind = str(message["id"][-1]) if message["id"] else ""
        return {"type": kind, **message["kwargs"]}
    return message


def _name_role(message: Mapping[str, Any]) -> str | None:
    if not {"content", "parts", "tool_calls"} & message.keys():
        return None
    role = message.get("role") or message.get("type")
    known = role.lower() if isinstance(role, str) else None
    if known is None or (known == "text" and "role" not in message):
        return None  # a part of a message
    return _ROLES.get(known, known)


def _read_content(message: Mapping[str, Any]) -> str | None:
    content = message.get("parts") or message.get("content")
    texts = [
        read_text(part)
        for part in (as_list(content) or [content])
        if as_mapping(part).get("type") not in ("tool_use", "tool_call", "reasoning", "thinking")
    ]
    return "\n".join(filter(None, texts)) or None


def list_calls(messages: Iterable[Any]) -> list[dict[str, Any]]:
    """Return the tools called, with the arguments of each and whether the call succeeded.

    >>> call = {"id": "1", "function": {"name": "add", "arguments": '{"a": 2}'}}
    >>> list_calls([{"role": "assistant", "tool_calls": [call]}])
    [{'tool_name': 'add', 'args': {'a': 2}, 'success': True}]
    """
    known = [message for message in messages if isinstance(message, dict)]
    calls = [
        as_mapping(call)
        for message in known
        for call in (*as_list(message.get("tool_calls")), *_list_used(message.get("content")))
    ]
    if not calls:
        return []
    failed = {str(message.get("tool_call_id")) for message in known if _is_failed_call(message)}
    return [made for call in calls if (made := _read_tool_call(call, failed)) is not None]


def keep_call_parts(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return of a message only what `list_calls` reads: its texts may be long."""
    used = _list_used(message.get("content"))
    return {name: message[name] for name in _OF_CALLS if name in message} | {"content": used}


def _list_used(content: Any) -> list[Any]:
    """Return the parts of a message that use a tool, as Anthropic has them."""
    if not isinstance(content, list):
        return []
    return [part for part in list_objects(content) if part.get("type") == "tool_use"]


def _is_failed_call(message: Mapping[str, Any]) -> bool:
    return message.get("error") not in (None, False) or message.get("status") == "error"


def _read_tool_call(call: Mapping[str, Any], failed: set[str]) -> dict[str, Any] | None:
    function = call.get("function")
    inside = function if isinstance(function, dict) else call
    name = function if isinstance(function, str) else inside.get("name")
    if not isinstance(name, str):
        return None
    given = next((inside[key] for key in _ARGUMENTS if inside.get(key) is not None), None)
    args = parse_cell(given)
    found = {"tool_name": name, "success": str(call.get("id")) not in failed}
    if isinstance(args, dict):
        return {"tool_name": name, "args": args, "success": found["success"]}
    text = read_text(args)
    return {**found, "context": text} if text else found

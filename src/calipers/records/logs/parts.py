"""What logs of other tools are made of: JSON that may be damaged, messages, counts of tokens."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from calipers.records.bytestream import brief, decompressed, read_document, read_lines
from calipers.records.completing import SYNONYMS, TRACE_PARTS
from calipers.records.fields import FIELDS
from calipers.support.errors import DataError

_OURS = frozenset((*FIELDS, *SYNONYMS.values(), *TRACE_PARTS))
_PREFIX = "score_"
_TEXT = re.compile(r"[^\s\ufeff]")
_LARGEST = sys.float_info.max
_DIGITS = 19  # of the largest whole number in 64 bits


def parsed(data: bytes | str, where: str) -> Any:
    """The JSON; bare NaN and halves of surrogate pairs are taken, as logs hold them."""
    with suppress(ValueError):
        return from_json(data, allow_inf_nan=True)
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"{where}: not JSON: {brief(error)}", fix="check that the log is whole; write it anew"
        ) from error


def values(data: bytes, where: str) -> Iterator[Any]:
    """JSON texts one after another, each on a line or on several."""
    found = data.decode("utf-8", "replace")
    place, decoder = 0, json.JSONDecoder()
    while start := _TEXT.search(found, place):
        try:
            value, place = decoder.raw_decode(found, start.start())
        except (ValueError, RecursionError) as error:
            line = found.count("\n", 0, start.start()) + 1
            raise DataError(
                f"{where}:{line}: not JSON: {brief(error)}", fix="check that the log is whole"
            ) from error
        yield value


def whole(path: Path) -> Any:
    """The JSON of a whole file, plain or compressed."""
    with path.open("rb") as file:
        return parsed(read_document(decompressed(file, str(path)), str(path)), str(path))


def numbered_lines(path: Path) -> Iterator[tuple[int, Mapping[str, Any], float]]:
    """The JSON object of each line with its number, and the share of the file behind it."""
    size = max(path.stat().st_size, 1)
    with path.open("rb") as file:
        lines = read_lines(decompressed(file, str(path)), str(path))
        for number, line in enumerate(lines, start=1):
            if line.strip():
                yield (
                    number,
                    mapping(parsed(line, f"{path}:{number}")),
                    min(1.0, file.tell() / size),
                )


def mapping(value: Any) -> Mapping[str, Any]:
    """The object, or an empty one in its place."""
    return value if isinstance(value, dict) else {}


def listed(value: Any) -> list[Any]:
    """The list, or an empty one in its place."""
    return value if isinstance(value, list) else []


def objects(value: Any) -> Iterator[Mapping[str, Any]]:
    """The objects in a list."""
    return (each for each in listed(value) if isinstance(each, dict))


def number(value: Any) -> float | None:
    """The number, if it is one."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if -_LARGEST <= value <= _LARGEST else None


def whole_number(value: Any) -> float | None:
    """The number, which some write as a text."""
    if isinstance(value, str) and len(value) <= _DIGITS and value.isdecimal():
        return int(value)
    return number(value)


def text(content: Any) -> str | None:
    """The text of a message's content: itself, or that of its parts."""
    if content is None or isinstance(content, str):
        return content
    if isinstance(content, dict):
        return text(content.get("text", content.get("content")))
    if isinstance(content, list):
        found = [part for part in map(text, content) if part]
        return "\n".join(found) if found else None
    return json.dumps(content, ensure_ascii=False)


def spelled(value: Any) -> str | None:
    """A text as it is, anything else as JSON."""
    return (
        value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    )


def last_text(messages: Iterable[Any], role: str) -> str | None:
    """The text of the last message of a role."""
    found = [mapping(each) for each in messages if mapping(each).get("role") == role]
    return text(found[-1].get("content")) if found else None


def extra_fields(*groups: Any) -> dict[str, Any]:
    """Fields that the record does not name, kept as they are; nested ones as JSON text."""
    return {
        str(name): json.dumps(value, ensure_ascii=False)
        if isinstance(value, dict | list)
        else value
        for fields in groups
        for name, value in mapping(fields).items()
        if name not in _OURS
    }


def score_fields(scores: Mapping[str, Any]) -> dict[str, Any]:
    """Each score in a field of its own; one of several parts in as many."""
    fields: dict[str, Any] = {}
    for name, value in scores.items():
        if isinstance(value, dict):
            fields |= {f"{_PREFIX}{name}_{part}": each for part, each in value.items()}
        elif not isinstance(value, list):
            fields[f"{_PREFIX}{name}"] = value
    return fields


def target_fields(target: str | None, *, correct: bool | None, judged: bool) -> dict[str, Any]:
    """The target; as `expected` where a judge left it open: no comparison decides in its place."""
    return {"expected" if judged and correct is None else "target": target}


def usage_fields(by_model: Mapping[str, Mapping[str, float | None]]) -> dict[str, Any]:
    """The sum of what the models used, and each one's where they are several."""
    names = dict.fromkeys(name for counts in by_model.values() for name in counts)
    fields: dict[str, Any] = {}
    for name in names:
        known = [each for counts in by_model.values() if (each := counts.get(name)) is not None]
        fields[name] = sum(known) if known else None
    if len(by_model) > 1:
        fields["usage"] = [
            {"model": model} | {name: each for name, each in counts.items() if each is not None}
            for model, counts in by_model.items()
        ]
        if any(counts.get("cost_usd") is None for counts in by_model.values()):
            fields.pop("cost_usd", None)
    return fields


def truth(value: Any) -> bool | None:
    """What a score says of right and wrong; None for a part of it, or something else."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _WORDS.get(value.strip().lower())
    return {0.0: False, 1.0: True}.get(value) if number(value) is not None else None


_WORDS = {
    **dict.fromkeys(("c", "yes", "true", "correct", "pass", "passed", "1", "1.0"), True),
    **dict.fromkeys(("i", "n", "no", "false", "incorrect", "fail", "failed", "0", "0.0"), False),
}

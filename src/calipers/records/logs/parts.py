"""Parts of other tools' logs: JSON that may be damaged, messages, counts of tokens."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

from calipers.records.bytestream import decompress, read_document, read_lines, shorten_error
from calipers.records.completing import SYNONYMS, TRACE_PARTS
from calipers.records.fields import FIELDS
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
    return (each for each in as_list(value) if isinstance(each, dict))


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


def spell(value: Any) -> str | None:
    """Return a text unchanged, anything else as JSON."""
    is_text = value is None or isinstance(value, str)
    return value if is_text else json.dumps(value, ensure_ascii=False)


def find_last_text(messages: Iterable[Any], role: str) -> str | None:
    """Return the text of the last message of a role, or None."""
    found = [as_mapping(each) for each in messages if as_mapping(each).get("role") == role]
    return read_text(found[-1].get("content")) if found else None


def keep_extra(*groups: Any, used: Collection[str] = ("category",)) -> dict[str, Any]:
    """Return fields as they are, nested ones as JSON text.

    One named like a field of the record is kept as `metadata_NAME`, unless it is `used` as such.
    """
    return {
        f"metadata_{name}" if name in OURS else str(name): spell(value)
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
            fields |= {f"{_PREFIX}{name}_{part}": each for part, each in value.items()}
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
        known = [each for counts in by_model.values() if (each := counts.get(name)) is not None]
        fields[name] = sum(known) if known else None
    fields["usage"] = [
        {"model": model} | {name: each for name, each in counts.items() if each is not None}
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

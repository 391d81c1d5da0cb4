"""Configuration files as plain values, with the line of each; numbers that people write."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from math import inf, isfinite
from os import PathLike
from pathlib import Path
from typing import Any

from calipers.support.errors import ArgumentTypeError, UsageError

MAX_BYTES = 1 << 20
_SHOWN = 60  # characters of a name or a value in a message


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """The content of a file, its name, and the line of each part, if known."""

    source: str
    value: Any
    lines: Mapping[tuple[Hashable, ...], int] = field(default_factory=dict)

    def locate(self, place: tuple[Hashable, ...]) -> str:
        """Return FILE:LINE of a place, or of the nearest enclosing one that has a line."""
        while place and place not in self.lines:
            place = place[:-1]
        line = self.lines.get(place) if place else None
        return self.source if line is None else f"{self.source}:{line}"


def read_config(path: str | Path, *, example: str) -> ConfigFile:
    """Read a YAML file, or a JSON one by its suffix; `example` is shown if the file is empty."""
    is_json = Path(path).suffix.lower() == ".json"
    try:
        text = _read_text(Path(path))
        value, lines = _parse_json(text) if is_json else _parse_yaml(text)
    except OSError as error:
        raise UsageError(
            f"{path}: {error.strerror}", fix="check the path and its permissions"
        ) from error
    except (ValueError, RecursionError) as error:
        kind = "JSON" if is_json else "YAML"
        problem = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise UsageError(
            f"{path}: cannot be read as {kind}: {' '.join(problem.split())}", fix=example
        ) from error
    return ConfigFile(str(path), value, lines)


def read_table(given: Any, keyword: str, *, example: str) -> tuple[Any, str]:
    """Return what a file holds, or a mapping in its place, and what messages call it.

    A text in braces is a mapping as YAML writes it.

    >>> read_table({"a": 1}, "weights", example="")
    ({'a': 1}, 'weights')
    """
    if isinstance(given, str) and given.lstrip().startswith("{"):
        return _parse_inline(given, keyword, example), keyword
    if isinstance(given, str | PathLike):
        return read_config(str(given), example=example).value, str(given)
    if isinstance(given, Mapping):
        return given, keyword
    raise ArgumentTypeError(
        f"{keyword}={given!r}: expected a path or a mapping, not {type(given).__name__}",
        fix=example,
    )


def _parse_inline(text: str, keyword: str, example: str) -> Any:
    try:
        return _parse_yaml(text)[0]
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{keyword}: {' '.join(str(error).split())}", fix=example) from error


def _read_text(path: Path) -> str:
    with path.open("rb") as file:
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise ValueError(f"larger than {MAX_BYTES >> 20} MiB")
    return content.decode("utf-8-sig")


def _parse_yaml(text: str) -> tuple[Any, Mapping[tuple[Hashable, ...], int]]:
    from calipers.support.limited_yaml import load_yaml  # noqa: PLC0415 (only where there is a file)

    return load_yaml(text)


def _parse_json(text: str) -> tuple[Any, Mapping[tuple[Hashable, ...], int]]:
    value = json.loads(text, object_pairs_hook=_refuse_duplicates)
    try:
        return value, _parse_yaml(text)[1]  # most JSON is YAML, and that reader knows lines
    except ValueError:
        return value, {}


def _refuse_duplicates(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Return the pairs as a mapping; raise ValueError if a key occurs twice."""
    mapping: dict[str, Any] = {}
    for key, value in pairs:
        if key in mapping:
            raise ValueError(f"{shown(key)} is there twice")
        mapping[key] = value
    return mapping


def shown(value: Any) -> str:
    """Return a value as messages show it: short, on one line, nested ones described in words."""
    if isinstance(value, list | dict):  # with aliases, the text could be endless
        return "a list" if isinstance(value, list) else "a mapping"
    text = "".join(character if character.isprintable() else "\ufffd" for character in str(value))
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


def read_nonnegative(value: Any, where: str, *, fix: str) -> float:
    """Return a finite number that is not negative; raise UsageError otherwise, naming the place."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        is_plain = isinstance(value, str | bool | None)
        written = json.dumps(value, ensure_ascii=False) if is_plain else value
        raise UsageError(f"{where} is {shown(written)}, not a number", fix=fix)
    try:
        number = float(value)
    except OverflowError:
        number = inf
    if not isfinite(number):
        raise UsageError(f"{where} is {shown(number)}, not a finite number", fix=fix)
    if number < 0:
        raise UsageError(f"{where} is {shown(value)}, negative", fix=fix)
    return number

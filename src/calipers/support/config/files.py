"""Configuration files as plain values, with the line of each."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from calipers.support.errors import UsageError
from calipers.support.quick_dataclasses import dataclass

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


def _read_text(path: Path) -> str:
    with path.open("rb") as file:
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise ValueError(f"larger than {MAX_BYTES >> 20} MiB")
    return content.decode("utf-8-sig")


def _parse_yaml(text: str) -> tuple[Any, Mapping[tuple[Hashable, ...], int]]:
    from calipers.support.config.limited_yaml import load_yaml  # noqa: PLC0415 (only where there is a file)

    return load_yaml(text)


def _parse_json(text: str) -> tuple[Any, Mapping[tuple[Hashable, ...], int]]:
    value = json.loads(text, object_pairs_hook=_refuse_duplicates)
    try:
        return value, _parse_yaml(text)[1]  # most JSON is YAML, and that reader knows lines
    except ValueError:
        return value, {}


def _refuse_duplicates(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Return the pairs as a mapping; raise ValueError if a key occurs twice."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"{shown(key)} is there twice")
        found[key] = value
    return found


def shown(value: Any) -> str:
    """Return a value as messages show it: short, on one line, nested ones described in words."""
    if isinstance(value, list | dict):  # with aliases, the text could be endless
        return "a list" if isinstance(value, list) else "a mapping"
    text = "".join(each if each.isprintable() else "\ufffd" for each in str(value))
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"

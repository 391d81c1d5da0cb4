"""Small YAML and JSON files of the user's: mappings of names to values."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable
from pathlib import Path
from typing import Any

from calipers.errors import UsageError

MAX_BYTES = 1 << 20
_SHOWN = 60  # characters of a name or a value in a message


def read_mapping(path: str | Path, *, example: str) -> Any:
    """What a YAML file holds, or a JSON one by its suffix; `example` shows how such files look."""
    is_json = Path(path).suffix.lower() == ".json"
    try:
        text = _text(Path(path))
        return json.loads(text, object_pairs_hook=_once) if is_json else _yaml(text)
    except OSError as error:
        raise UsageError(
            f"{path}: {error.strerror}", fix="check the path and its rights"
        ) from error
    except (ValueError, RecursionError) as error:
        kind = "JSON" if is_json else "YAML"
        raise UsageError(
            f"{path}: cannot be read as {kind}: {' '.join(str(error).split())}", fix=example
        ) from error


def shown(value: Any) -> str:
    """A value from outside, short and on one line, as messages show it; nested ones in words."""
    if isinstance(value, list | dict):  # written out, aliases can grow without end
        return "a list" if isinstance(value, list) else "a mapping"
    text = "".join(each if each.isprintable() else "\ufffd" for each in str(value))
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


def _text(path: Path) -> str:
    with path.open("rb") as file:
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise ValueError(f"larger than {MAX_BYTES >> 20} MiB")
    return content.decode("utf-8-sig")


def _once(pairs: Iterable[tuple[Hashable, Any]]) -> dict[Hashable, Any]:
    """A mapping whose keys must differ; the formats would let the last one win."""
    found: dict[Hashable, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"{shown(key)} is there twice")
        found[key] = value
    return found


def _yaml(text: str) -> Any:
    import yaml  # noqa: PLC0415 (only where there is a file)

    class Loader(yaml.SafeLoader):
        def construct_mapping(
            self,
            node: yaml.MappingNode,
            deep: bool = False,  # noqa: FBT001, FBT002 (as it is called)
        ) -> dict[Hashable, Any]:
            _once((key.value, None) for key, _ in node.value if isinstance(key, yaml.ScalarNode))
            return super().construct_mapping(node, deep)

    try:
        return yaml.load(text, Loader)  # noqa: S506 (a safe one)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error

"""Prices in USD per million tokens, and the file that a user gives them in."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from math import inf, isfinite
from pathlib import Path
from typing import Any

from calipers.errors import UsageError, nearest

_NUMBER = "write a plain number, USD per million tokens: 0.15"
_EXAMPLE = "for example my-model: {input: 3, output: 15}, USD per million tokens"
_SHOWN = 60  # characters of a name or a value in a message


@dataclass(frozen=True, slots=True)
class Price:
    """USD per million tokens. Where the cache has no price, its tokens cost nothing."""

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None


KEYS = tuple(each.name for each in fields(Price))


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices by the names that models have in the records, and where they are from."""

    source: str
    by_model: Mapping[str, Price] = field(hash=False)


def read_prices(path: str | Path) -> Prices:
    """The prices in a YAML or JSON file: `{my-model: {input: 3, output: 15, cache_read: 0.3}}`."""
    is_json = Path(path).suffix.lower() == ".json"
    try:
        text = Path(path).read_text(encoding="utf-8")
        table = json.loads(text, object_pairs_hook=_once) if is_json else _yaml(text)
    except OSError as error:
        raise UsageError(
            f"{path}: {error.strerror}", fix="check the path and its rights"
        ) from error
    except (ValueError, RecursionError) as error:
        kind = "JSON" if is_json else "YAML"
        raise UsageError(
            f"{path}: cannot be read as {kind}: {' '.join(str(error).split())}", fix=_EXAMPLE
        ) from error
    return checked_prices(table, source=str(path))


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


def checked_prices(table: Any, *, source: str) -> Prices:
    """The prices in a table as a file holds it; errors name the source, the model and the key.

    >>> checked_prices({"my-model": {"input": 3, "output": -15}}, source="prices.yaml")
    Traceback (most recent call last):
    calipers.errors.UsageError: prices.yaml: my-model: output is -15, negative
      write a plain number, USD per million tokens: 0.15
    """
    if not isinstance(table, Mapping) or not table:
        raise UsageError(f"{source}: no prices of models in it", fix=_EXAMPLE)
    for model in table:
        if not isinstance(model, str):
            raise UsageError(
                f"{source}: {shown(model)} is no text, as the name of a model is",
                fix="put it in quotes",
            )
    return Prices(
        source, {name: _price(entry, f"{source}: {shown(name)}") for name, entry in table.items()}
    )


def _price(entry: Any, where: str) -> Price:
    if not isinstance(entry, Mapping):
        raise UsageError(f"{where} is {shown(entry)}, no prices", fix=_EXAMPLE)
    for key in entry:
        if key not in KEYS:
            raise UsageError(
                f"{where}: no price is called {shown(key)}", fix=nearest(str(key), KEYS)
            )
    given = {key: value for key, value in entry.items() if value is not None}
    for key in ("input", "output"):
        if key not in given:
            raise UsageError(f"{where}: {key} is missing", fix=_EXAMPLE)
    return Price(**{key: _number(value, f"{where}: {key}") for key, value in given.items()})


def _number(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        written = json.dumps(value, ensure_ascii=False, default=str)
        raise UsageError(f"{where} is {shown(written)}, not a number", fix=_NUMBER)
    try:
        number = float(value)
    except OverflowError:
        number = inf
    if not isfinite(number):
        raise UsageError(f"{where} is {shown(number)}, not a finite number", fix=_NUMBER)
    if number < 0:
        raise UsageError(f"{where} is {shown(value)}, negative", fix=_NUMBER)
    return number


def shown(value: Any) -> str:
    """A text from outside, short and on one line, as messages show it."""
    text = "".join(each if each.isprintable() else "\ufffd" for each in str(value))
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"

"""Prices in USD per million tokens, and the file that a user gives them in."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import field, fields
from pathlib import Path
from typing import Any

from calipers.support.config.files import read_config, shown
from calipers.support.config.numbers import read_nonnegative
from calipers.support.errors import UsageError, nearest
from calipers.support.quick_dataclasses import dataclass

_NUMBER = "write a plain number, USD per million tokens: 0.15"
# Names of models as providers write them: the provider before it, a version or date behind it.
_PATH = re.compile(r"(?:[^/:]+[/:])+(?=[^/:])")
_BEDROCK = re.compile(
    r"(?:(?:us|eu|apac|jp|au|global|us-gov)\.)?"
    r"(?:ai21|amazon|anthropic|cohere|deepseek|meta|mistral|openai|qwen)\."
)
_VERSION = re.compile(r"-v\d+(?::\d+)?$")
_DATE = re.compile(r"[-@:_](?:20\d\d-?(?:0[1-9]|1[0-2])-?\d\d|(?:0[1-9]|1[0-2])[0-3]\d|latest)$")
_EXAMPLE = "for example my-model: {input: 3, output: 15}, USD per million tokens"


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

    def find(self, model: str) -> Price | None:
        """Return the price of a model, by its name as providers write it; None if there is none.

        An exact name goes first, then another case, a name without its provider, one without its
        date. A name in the table may leave out the provider and the date, or have a provider where
        the model's has none; of entries that are equally near and differ, none is taken.
        """
        if model in self.by_model:
            return self.by_model[model]
        lowered = [(name.lower(), entry) for name, entry in self.by_model.items()]
        names_provider = _strip_provider(model.lower()) != model.lower()
        for spelling in list_spellings(model):
            near = [entry for name, entry in lowered if name == spelling]
            if not near and not names_provider:
                near = [entry for name, entry in lowered if _strip_provider(name) == spelling]
            if near:
                return near[0] if all(each == near[0] for each in near) else None
        return None


def list_spellings(model: str) -> Iterator[str]:
    """Yield ways to write a model's name, the most exact first, in lower case.

    >>> [name for name in list_spellings("OpenAI/gpt-4o-2024-08-06")]
    ['openai/gpt-4o-2024-08-06', 'gpt-4o-2024-08-06', 'openai/gpt-4o', 'gpt-4o']
    """
    lowered = _VERSION.sub("", model.lower()) if _BEDROCK.search(model.lower()) else model.lower()
    undated = _DATE.sub("", lowered)
    known: dict[str, None] = {model.lower(): None}
    for name in (lowered, undated):
        known |= {name: None, _strip_provider(name): None}
    yield from known


def _strip_provider(name: str) -> str:
    return _BEDROCK.sub("", _PATH.sub("", name, count=1), count=1)


def read_prices(path: str | Path) -> Prices:
    """Read prices from a YAML or JSON file: `{my-model: {input: 3, output: 15}}`."""
    return check_prices(read_config(path, example=_EXAMPLE).value, source=str(path))


def check_prices(table: Any, *, source: str) -> Prices:
    """Return the prices in a table read from a file; errors name source, model and key.

    >>> check_prices({"my-model": {"input": 3, "output": -15}}, source="prices.yaml")
    Traceback (most recent call last):
    calipers.support.errors.UsageError: prices.yaml: my-model: output is -15, negative
      write a plain number, USD per million tokens: 0.15
    """
    if not isinstance(table, Mapping) or not table:
        raise UsageError(f"{source}: no prices of models in it", fix=_EXAMPLE)
    for model in table:
        if not isinstance(model, str):
            raise UsageError(
                f"{source}: {shown(model)} is not text, as the name of a model is",
                fix="put it in quotes",
            )
    return Prices(
        source,
        {name: _read_price(entry, f"{source}: {shown(name)}") for name, entry in table.items()},
    )


def _read_price(entry: Any, where: str) -> Price:
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
    return Price(
        **{
            key: read_nonnegative(value, f"{where}: {key}", fix=_NUMBER)
            for key, value in given.items()
        }
    )

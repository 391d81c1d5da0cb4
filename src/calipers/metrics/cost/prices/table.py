"""Prices in USD per million tokens, and the file that a user gives them in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, fields
from pathlib import Path
from typing import Any

from calipers.metrics.cost.prices.names import find_named
from calipers.support.config.files import read_config, shown
from calipers.support.config.numbers import read_nonnegative
from calipers.support.errors import UsageError, nearest
from calipers.support.quick_dataclasses import dataclass

_NUMBER = "write a plain number, USD per million tokens: 0.15"
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
        """Return the price of a model, by its name as providers write it; None if there is none."""
        return find_named(model, self.by_model)


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

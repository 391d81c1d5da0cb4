"""Weights of scenarios: one by category times one by capability, 1 where none is named."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from math import inf
from pathlib import Path
from typing import Any

from calipers.support.config.files import read_config
from calipers.support.errors import ArgumentTypeError, UsageError, nearest
from calipers.support.quick_dataclasses import dataclass

_EXAMPLE = "for example by_category: {adversarial: 2}"


def _check_weight(name: Any, weight: Any, of: str) -> float:
    if not isinstance(name, str):
        raise UsageError(f"{of}: {name!r} is not a name", fix="put it in quotes")
    is_number = isinstance(weight, int | float) and not isinstance(weight, bool)
    if not is_number or not 0 <= weight < inf:
        raise UsageError(
            f"{of}: the weight of {name!r} is {weight!r}, not a number from 0 on",
            fix="a scenario of weight 2 counts twice, one of weight 0 not at all",
        )
    return float(weight)


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseWeights:
    """How much a scenario counts: `by_category` times `by_capability`; an unnamed one weighs 1.

    >>> CaseWeights(by_category={"adversarial": 2}).to_dict()
    {'by_category': {'adversarial': 2.0}, 'by_capability': {}}
    """

    by_category: Mapping[str, float] = field(default_factory=dict, hash=False)
    by_capability: Mapping[str, float] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        for key in ("by_category", "by_capability"):
            given = (getattr(self, key) or {}).items()
            checked = {name: _check_weight(name, each, f"weights.{key}") for name, each in given}
            object.__setattr__(self, key, checked)

    def to_dict(self) -> dict[str, dict[str, float]]:
        """Return the weights as in a policy file."""
        return {"by_category": dict(self.by_category), "by_capability": dict(self.by_capability)}


def read_case_weights(given: Any) -> CaseWeights:
    """Return the weights of scenarios that a YAML or JSON file, or a mapping, holds.

    Raises:
        UsageError: A key is not known, or a weight is not a number from 0 on.
    """
    if isinstance(given, CaseWeights):
        return given
    is_file = isinstance(given, str | Path)
    source = str(given) if is_file else "case_weights"
    table = read_config(given, example=_EXAMPLE).value if is_file else given
    if not isinstance(table, Mapping):
        raise ArgumentTypeError(f"{source}: not a mapping", fix=_EXAMPLE)
    known = ("by_category", "by_capability")
    for name in table:
        if name not in known:
            raise UsageError(f"{source}: {name} is not a known key", fix=nearest(str(name), known))
    return CaseWeights(**table)

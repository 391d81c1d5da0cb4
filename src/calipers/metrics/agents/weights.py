"""Weights of the parts of the agents' composite: P's, or those of a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from math import isfinite
from pathlib import Path
from typing import Any

from calipers.support.config.files import read_config, shown
from calipers.support.config.numbers import read_nonnegative
from calipers.support.errors import UsageError, nearest
from calipers.support.quick_dataclasses import dataclass

_EXAMPLE = "for example task_success: 0.5 and tool_efficiency: 0.5"
_NUMBER = "write a plain number from 0 on: 0.25"

PARTS = (
    "time_taken",
    "task_success",
    "coordination_quality",
    "tool_efficiency",
    "planning_rational",
    "output_similarity",
)


@dataclass(frozen=True, slots=True)
class AgentWeights:
    """The weight of each part, and the file they are from; None for P's own."""

    source: str | None
    by_part: Mapping[str, float] = field(hash=False)

    def to_dict(self) -> dict[str, Any]:
        """Return the weights as in the JSON output."""
        return {"source": self.source, **self.by_part}


WEIGHTS = AgentWeights(None, dict.fromkeys(PARTS, 0.167))
"""P's, which sum to 1.002 and are not rescaled."""


def read_weights(path: str | Path) -> AgentWeights:
    """Read weights from a YAML or JSON file: `{task_success: 0.5, …}`; other parts weigh 0."""
    return check_weights(read_config(path, example=_EXAMPLE).value, source=str(path))


def check_weights(table: Any, *, source: str) -> AgentWeights:
    """Return the weights in a table read from a file; errors name the source and the part.

    >>> check_weights({"task_sucess": 1}, source="weights.yaml")
    Traceback (most recent call last):
    calipers.support.errors.UsageError: weights.yaml: no part of the composite is called task_sucess
      did you mean task_success?
    """
    if not isinstance(table, Mapping) or not table:
        raise UsageError(f"{source}: no weights in it", fix=_EXAMPLE)
    for name in table:
        if name not in PARTS:
            raise UsageError(
                f"{source}: no part of the composite is called {shown(name)}",
                fix=nearest(str(name), PARTS),
            )
    given = {
        name: read_nonnegative(value, f"{source}: {name}", fix=_NUMBER)
        for name, value in table.items()
    }
    if not any(given.values()):
        raise UsageError(f"{source}: all weights are 0", fix=_EXAMPLE)
    if not isfinite(sum(given.values())):
        raise UsageError(f"{source}: the weights sum to infinity", fix=_NUMBER)
    return AgentWeights(source, {name: given.get(name, 0.0) for name in PARTS})

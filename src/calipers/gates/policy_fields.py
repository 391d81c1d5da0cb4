"""Types of a policy's fields: how each is read, and its JSON Schema for editors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

from pydantic import Field, PlainValidator

from calipers.gates import policy_values as values
from calipers.gates.policy_values import ALIASES, RISKS, Rule
from calipers.metrics import catalogue
from calipers.support.quick_dataclasses import dataclass

Schema = dict[str, Any]

SAID: Schema = {"type": "string", "description": "For people; it has no effect."}
_COUNTED = "^pass_(at|hat)_[1-9][0-9]{0,2}$"

THRESHOLD: Schema = {
    "description": '85, 0.85, "≥ 85%", "< 5000ms", "= 100%"; or with a risk and a description.',
    "anyOf": [
        {"type": ["number", "string"]},
        {
            "type": "object",
            "properties": {
                "threshold": {"type": ["number", "string"]},
                "risk": {"enum": list(RISKS)},
                "description": SAID,
            },
            "required": ["threshold"],
            "additionalProperties": False,
        },
    ],
}


@dataclass(frozen=True, slots=True)
class SchemaOf:
    """Gives a field its JSON Schema, made when it is asked for: metrics may be added until then."""

    make: Callable[[], Schema]

    def __get_pydantic_json_schema__(self, _core: Any, _handler: Any) -> Schema:
        return self.make()


def make_metric_schema(value: Schema) -> Schema:
    """Return the schema of a table by metric."""
    metrics = {name: {**value, "description": each.says} for name, each in catalogue().items()}
    aliases = {name: metrics[metric] for name, metric in ALIASES.items()}
    return {
        "type": "object",
        "properties": {"description": SAID, **aliases, **metrics},
        "patternProperties": {_COUNTED: value},
        "additionalProperties": value,  # of a field, registered, or declared under `metrics`
    }


def make_name_schema(value: Schema, known: Schema | None = None) -> Schema:
    """Return the schema of a table by any name, beside known ones."""
    names = {"description": SAID, **(known or {})}
    return {"type": "object", "properties": names, "additionalProperties": value}


Description = Annotated[str | None, Field(description="For people; it has no effect.")]
Rules = Annotated[
    Mapping[str, Rule],
    PlainValidator(values.read_rules),
    SchemaOf(lambda: make_metric_schema(THRESHOLD)),
]
Share = Annotated[Rule, PlainValidator(values.read_share), SchemaOf(lambda: THRESHOLD)]
Shares = Annotated[
    Mapping[str, Rule],
    PlainValidator(values.read_shares),
    SchemaOf(lambda: make_name_schema(THRESHOLD)),
]
WeightTable = Annotated[
    Mapping[str, float],
    PlainValidator(values.read_weights),
    SchemaOf(lambda: make_name_schema({"type": "number", "minimum": 0})),
]

"""The parts of the policy's JSON Schema that name metrics, so that editors complete and check."""

from __future__ import annotations

from typing import Any

from calipers.gates.rules import ALIASES, RELEASE, RISKS
from calipers.metrics import catalogue

Schema = dict[str, Any]

_SAID: Schema = {"type": "string", "description": "For people; it decides nothing."}
_COUNTED = "^pass_(at|hat)_[1-9][0-9]{0,2}$"

THRESHOLD: Schema = {
    "description": '85, 0.85, "≥ 85%", "< 5000ms", "= 100%"; or with what is at stake.',
    "anyOf": [
        {"type": ["number", "string"]},
        {
            "type": "object",
            "properties": {
                "threshold": {"type": ["number", "string"]},
                "risk": {"enum": list(RISKS)},
                "description": _SAID,
            },
            "required": ["threshold"],
            "additionalProperties": False,
        },
    ],
}


def _by_metric(value: Schema) -> Schema:
    metrics = {name: {**value, "description": each.says} for name, each in catalogue().items()}
    aliases = {name: metrics[metric] for name, metric in ALIASES.items()}
    return {
        "type": "object",
        "properties": {"description": _SAID, **aliases, **metrics},
        "patternProperties": {_COUNTED: value},
        "additionalProperties": False,
    }


def _by_name(value: Schema) -> Schema:
    return {
        "type": "object",
        "properties": {"description": _SAID},
        "additionalProperties": value,
    }


RULES = _by_metric(THRESHOLD)
SHARES = _by_name(THRESHOLD)
MARGINS = _by_metric({"type": ["number", "string"]})
WEIGHTS = _by_name({"type": "number", "minimum": 0})
IDS: Schema = {"type": "array", "items": {"type": ["string", "integer"]}}
FORMULA: Schema = {"type": "string", "examples": ["0.5 × accuracy + 0.5 × behavior_coverage"]}
PROGRESSIVE: Schema = {
    "type": "object",
    "properties": {
        "description": _SAID,
        RELEASE: {"type": "string", "description": "The current row; --release goes before it."},
    },
    "additionalProperties": RULES,
}

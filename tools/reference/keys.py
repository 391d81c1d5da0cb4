"""docs/reference/suite-keys.md and policy-keys.md: every key, from the JSON Schemas."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from calipers.runs.suite import make_schema
from tools.reference.markdown import tabulate

_INTRO = """\
# Keys of a {what} file

Made from the JSON Schema that `calipers schema {what}` prints (`make reference` writes this page
again). [{page}](../{page}) explains them with examples. Where the type is the name of an object,
its keys are listed further down. An unknown key is an error that names its line and the nearest
known one.
"""
_ELSEWHERE = {
    "checks": "list of [checks](../checks.md)",
    "metric_settings": "[options of metrics](../options.md#how-metrics-are-computed)",
}


def write_suite_page() -> str:
    """Return docs/reference/suite-keys.md."""
    return _write("suite", "run.md")


def write_policy_page() -> str:
    """Return docs/reference/policy-keys.md."""
    return _write("policy", "gate.md")


def _write(what: str, page: str) -> str:
    schema = make_schema(what)
    objects = schema["$defs"]
    parts = [_INTRO.format(what=what, page=page), *_describe("Top level", schema, objects)]
    for name, each in objects.items():
        parts += _describe(name, each, objects)
    return "\n".join(parts)


def _describe(title: str, schema: dict[str, Any], objects: dict[str, Any]) -> Iterator[str]:
    yield f"## {title}\n"
    yield f"{schema.get('description', '')}\n"
    required = schema.get("required", ())
    yield tabulate(
        ("key", "type", "default", "what it says"),
        (
            [f"`{key}`", _type(key, each), _default(key in required, each), _says(each, objects)]
            for key, each in schema["properties"].items()
        ),
    )


def _type(key: str, schema: dict[str, Any]) -> str:
    return _ELSEWHERE.get(key) or _name(schema)


def _name(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "enum" in schema:
        return ", ".join(f"`{each}`" for each in schema["enum"])
    if "anyOf" in schema:
        names = dict.fromkeys(_name(each) for each in schema["anyOf"] if each != {"type": "null"})
        return " or ".join(names)
    kind = schema.get("type", "any")
    if kind == "array":
        return f"list of {_name(schema.get('items', {}))}"
    if kind == "object":
        inner = schema.get("additionalProperties")
        return f"map to {_name(inner)}" if isinstance(inner, dict) else "map"
    kinds = [kind] if isinstance(kind, str) else kind
    return " or ".join(f"{_WORDS.get(each, each)}{_bounds(schema)}" for each in kinds)


_WORDS = {"string": "text", "integer": "whole number", "boolean": "true or false"}
_BOUNDS = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}


def _bounds(schema: dict[str, Any]) -> str:
    found = [f"{sign} {schema[key]:g}" for key, sign in _BOUNDS.items() if key in schema]
    return f" {' and '.join(found)}" if found else ""


def _default(is_required: bool, schema: dict[str, Any]) -> str:  # noqa: FBT001
    if is_required:
        return "required"
    default = schema.get("default")
    return "" if default is None else f"`{json.dumps(default, ensure_ascii=False)}`"


def _says(schema: dict[str, Any], objects: dict[str, Any]) -> str:
    """Return the description of a key, or of the object that it holds."""
    held = [schema, *schema.get("anyOf", ()), schema.get("items", {})]
    named = [each["$ref"].rpartition("/")[2] for each in held if "$ref" in each]
    said = [schema.get("description"), *(objects[name].get("description") for name in named)]
    return next((text for text in said if text), "")

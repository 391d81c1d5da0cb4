"""Checks of replies that are to be JSON: that they are, their schema, and a value inside."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, NoReturn, Self

import polars as pl

from calipers.metrics.checks.kind import (
    Replies,
    ReplyTest,
    Schema,
    TrueKind,
    ask_each,
    make_object_schema,
    make_template,
    read_keys,
)
from calipers.support.config import read_config, shown
from calipers.support.errors import require_extra
from calipers.support.field_paths import Template
from calipers.support.patterns import count_groups, find_first_matches
from calipers.support.strict_model import refuse

_EXTRA = "checks"
_STEP = re.compile(
    r"\.(?P<name>[^\W\d][\w-]*)|\[(?P<at>-?\d+)\]|\[(?P<quote>['\"])(?P<key>.*?)(?P=quote)\]"
    r"|(?P<any>\.\*|\[\*\])"
)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def parse_json_reply(text: str) -> Any:
    """Return the value of a reply that is strict JSON; ValueError says why it is none."""
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError("nested too deep") from None


def _describe_json(text: str) -> str:
    try:
        parse_json_reply(text)
    except ValueError as error:
        return f"not JSON: {error}"
    return "JSON"


@dataclass(frozen=True)
class IsJson(TrueKind):
    """The reply is JSON."""

    key = "json"
    says = "The whole reply is strict JSON: no text and no code fence around it, no NaN."

    def hold(self, replies: Replies) -> pl.Series:
        return ask_each(replies.text, lambda text: _describe_json(text) == "JSON")

    def tell(self, replies: Replies) -> pl.Series:
        return ask_each(replies.text, _describe_json, pl.String)


@dataclass(frozen=True)
class JsonSchema(ReplyTest):
    """The reply is JSON that a schema allows."""

    key = "json_schema"
    says = (
        "The reply is JSON that the JSON Schema allows, written here or in a file. "
        "References to other documents are refused and never fetched."
    )
    example: ClassVar[Any] = {"type": "object", "required": ["order_id"]}
    schema: ClassVar[Schema] = {"type": ["object", "string"]}

    written: str  # the schema as JSON

    @classmethod
    def read(cls, value: Any, base: Path) -> Self:
        require_extra(
            "json_schema: jsonschema is not installed", extra=_EXTRA, modules=["jsonschema"]
        )
        if isinstance(value, str):
            value = read_config(base / value, example="a JSON Schema, as JSON or YAML").value
        if not isinstance(value, Mapping | bool):
            refuse("neither a schema nor the name of its file", fix="json_schema: {type: object}")
        for key, inside in _walk_keywords(value):
            _refuse_keyword(key, inside)
        written = json.dumps(value)
        if (problem := _find_invalid(written)) is not None:
            refuse(f"no JSON Schema: {problem}", fix="see https://json-schema.org")
        return cls(written)

    @property
    def sentence(self) -> str:
        return f"schema {shown(self.written)}"

    def hold(self, replies: Replies) -> pl.Series:
        return ask_each(replies.text, lambda text: self._explain(text) is None)

    def tell(self, replies: Replies) -> pl.Series:
        return ask_each(
            replies.text, lambda text: self._explain(text) or "as the schema says", pl.String
        )

    def _explain(self, text: str) -> str | None:
        try:
            value = parse_json_reply(text)
        except ValueError as error:
            return f"not JSON: {error}"
        try:
            found = next(_make_validator(self.written).iter_errors(value), None)
        except RecursionError:
            return "nested too deep"
        return None if found is None else f"{found.json_path}: {shown(found.message)}"


def _walk_keywords(schema: Any) -> Iterator[tuple[str, Any]]:
    """Yield every key of a schema, however deep, with its value."""
    if isinstance(schema, Mapping):
        for key, value in schema.items():
            yield str(key), value
            yield from _walk_keywords(value)
    elif isinstance(schema, list):
        for each in schema:
            yield from _walk_keywords(each)


def _refuse_keyword(key: str, value: Any) -> None:
    """Refuse what would reach for another document, or take more than linear time."""
    if key in ("$ref", "$dynamicRef") and isinstance(value, str) and not value.startswith("#"):
        refuse(f"{key} {shown(value)} names another document", fix="put it under $defs: #/$defs/…")
    if key == "pattern" and isinstance(value, str):
        try:
            count_groups(value)
        except ValueError as error:
            refuse(f"pattern: {error}", fix="in the syntax of Rust's regex: no look-around")
    if key == "patternProperties" and isinstance(value, Mapping):
        refuse(
            "patternProperties cannot be checked in linear time", fix="properties, propertyNames"
        )


@cache
def _make_validator(written: str) -> Any:
    """Return the validator of a schema: no document is fetched, patterns take linear time."""
    from jsonschema import validators  # noqa: PLC0415 (an extra)
    from referencing.jsonschema import EMPTY_REGISTRY  # noqa: PLC0415 (comes with jsonschema)

    schema = json.loads(written)
    kind = validators.validator_for(schema, default=validators.Draft202012Validator)
    linear = validators.extend(kind, {"pattern": _check_pattern})
    return linear(schema, registry=EMPTY_REGISTRY)


def _find_invalid(written: str) -> str | None:
    """Return why this is not a valid schema, its references resolved, or None."""
    from jsonschema import exceptions  # noqa: PLC0415 (an extra)

    validator = _make_validator(written)
    try:
        type(validator).check_schema(validator.schema)
        for key, ref in _walk_keywords(validator.schema):
            if key == "$ref" and isinstance(ref, str):
                validator._resolver.lookup(ref)  # noqa: SLF001 (no public way asks one reference)
    except exceptions.SchemaError as error:
        return shown(error.message)
    except Exception as error:  # noqa: BLE001 (referencing's are many)
        return shown(error)
    return None


def _check_pattern(_: Any, pattern: str, instance: Any, __: Any) -> Iterator[Any]:
    from jsonschema.exceptions import ValidationError  # noqa: PLC0415 (an extra)

    if isinstance(instance, str) and not find_first_matches({"it": pattern}, [instance]):
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


@dataclass(frozen=True)
class JsonPath(ReplyTest):
    """A value inside the reply's JSON is there, or is a given one."""

    key = "json_path"
    says = (
        "The reply is JSON, and the value at `path` (`$.items[0].name`, `['a key']`, `[-1]`, `[*]` "
        "for any) is there; with `equals` it is also that value."
    )
    example: ClassVar[Any] = {"path": "$.order.id", "equals": "{order_id}"}
    schema: ClassVar[Schema] = make_object_schema(
        {"path": {"type": "string", "pattern": r"^\$"}, "equals": {}}, "path"
    )

    path: str
    steps: tuple[Any, ...]
    has_value: bool
    equals: Any = field(compare=False)

    @classmethod
    def read(cls, value: Any, _: Path) -> Self:
        fix = 'for example json_path: {path: $.order.id, equals: "4711"}'
        found = read_keys(value, ("path", "equals"), ("path",), fix)
        path = found["path"]
        steps = _parse_path(path) if isinstance(path, str) else None
        if steps is None:
            refuse(f"{shown(path)} is not a path", fix=fix, at=("path",))
        equals = found.get("equals")
        wanted = make_template(equals, at=("equals",)) if isinstance(equals, str) else equals
        return cls(path, steps, "equals" in found, wanted)

    @property
    def fields(self) -> tuple[str, ...]:
        return self.equals.fields if isinstance(self.equals, Template) else ()

    def hold(self, replies: Replies) -> pl.Series:
        held = [self._check(text, wanted) for text, wanted in self._pair_values(replies)]
        return pl.Series(held, dtype=pl.Boolean)

    def tell(self, replies: Replies) -> pl.Series:
        return ask_each(replies.text, self._describe, pl.String)

    def _pair_values(self, replies: Replies) -> Iterator[tuple[str | None, Any]]:
        if isinstance(self.equals, Template) and self.equals.fields:
            return zip(replies.text, replies.fill(self.equals), strict=True)
        wanted = self.equals.fill({}) if isinstance(self.equals, Template) else self.equals
        return ((text, wanted) for text in replies.text)

    def _check(self, text: str | None, wanted: Any) -> bool | None:
        if text is None or (wanted is None and isinstance(self.equals, Template)):
            return None
        try:
            found = list(_walk_path(parse_json_reply(text), self.steps))
        except ValueError:
            return False
        if not self.has_value:
            return bool(found)
        return any(_is_same(value, wanted, from_field=bool(self.fields)) for value in found)

    def _describe(self, text: str) -> str:
        try:
            found = list(_walk_path(parse_json_reply(text), self.steps))
        except ValueError as error:
            return f"not JSON: {error}"
        values = ", ".join(map(json.dumps, found[:5]))
        return f"{self.path} is {values}" if found else f"{self.path} is not there"


def _is_same(value: Any, wanted: Any, *, from_field: bool) -> bool:
    """Compare as JSON does: true is not 1; what comes from a field may be written as a text."""
    if from_field and not isinstance(value, str):
        return bool(json.dumps(value) == wanted)
    numbers = {type(value), type(wanted)} <= {int, float}
    return (type(value) is type(wanted) or numbers) and bool(value == wanted)


def _parse_path(path: str) -> tuple[Any, ...] | None:
    """Return the steps of a path: names, positions, and `...` for any; None if invalid."""
    steps = list(_STEP.finditer(path, 1))
    if path != "".join(("$", *(step[0] for step in steps))):
        return None
    return tuple(map(_read_step, steps))


def _read_step(step: re.Match[str]) -> Any:
    if step["any"]:
        return ...
    return int(step["at"]) if step["at"] else step["name"] or step["key"]


def _walk_path(value: Any, steps: tuple[Any, ...]) -> Iterator[Any]:
    if not steps:
        yield value
        return
    step, rest = steps[0], steps[1:]
    if step is ...:
        inside = value.values() if isinstance(value, dict) else value
        for each in inside if isinstance(value, dict | list) else ():
            yield from _walk_path(each, rest)
    elif isinstance(step, int):
        if isinstance(value, list) and -len(value) <= step < len(value):
            yield from _walk_path(value[step], rest)
    elif isinstance(value, dict) and step in value:
        yield from _walk_path(value[step], rest)


KINDS = (IsJson, JsonSchema, JsonPath)

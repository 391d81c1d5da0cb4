"""The block `metric_settings:` of suites and policies, made from the declared options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field, PlainValidator, WithJsonSchema

from calipers.metrics.declare.settings import list_metric_options
from calipers.scores.resolve_options import SettingError, read_metric_settings
from calipers.support.options import Option
from calipers.support.strict_model import refuse

_TYPES = {"whole": "integer", "number": "number", "flag": "boolean"}
_BOUNDS = {
    "minimum": "at_least",
    "exclusiveMinimum": "above",
    "maximum": "at_most",
    "exclusiveMaximum": "below",
}


def _read(given: Any) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        refuse("not a mapping of options to values", fix="for example {missing: renormalize}")
    try:
        return read_metric_settings(given)
    except SettingError as error:
        refuse(error.message, fix=error.fix, at=(error.key,))


def _make_property(option: Option) -> dict[str, Any]:
    if option.choices:
        kind: Mapping[str, Any] = {"enum": list(option.choices)}
    else:
        kind = option.schema or {"type": _TYPES.get(option.kind, "string")}
    bounds = {key: getattr(option, name) for key, name in _BOUNDS.items()}
    known = {key: bound for key, bound in bounds.items() if bound is not None}
    return {**kind, **known, "description": option.help}


def _make_schema() -> dict[str, Any]:
    properties = {option.key: _make_property(option) for option in list_metric_options().values()}
    return {"type": "object", "properties": properties, "additionalProperties": False}


MetricSettings = Annotated[
    Mapping[str, Any],
    PlainValidator(_read),
    WithJsonSchema(_make_schema()),
    Field(description="Options of metrics, by their names on the command line."),
]

"""The fields of a policy: thresholds, shares, weights and tolerances, read from the file's values.

Every function reads one kind of value and raises at its place in the file where it makes no sense;
every table may have a `description`, which is ignored. The annotated types at the end are what the
models of rules use; each also gives its JSON Schema to editors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf
from typing import Annotated, Any, Literal, TypeVar, get_args

from pydantic import Field, PlainValidator
from pydantic_core import PydanticCustomError

from calipers.metrics import Metric, catalogue, metric_named
from calipers.metrics.thresholds import Scale, Threshold, parse_share, parse_threshold, read_scale
from calipers.support.config import shown
from calipers.support.errors import UsageError, nearest
from calipers.support.strict_model import refuse

Risk = Literal["critical", "high", "medium", "low"]
RISKS: tuple[Risk, ...] = get_args(Risk)

ALIASES = {"latency_p95": "latency_p95_ms"}  # as S writes it
PASS_RATE = "pass_rate"  # noqa: S105 (no password)
SAFETY = "safety_rate"
FINAL_SCORE = "final_score"
DESCRIPTION = "description"
_ENTRY = ("threshold", "risk", DESCRIPTION)

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A threshold on a metric or a category, how much is at stake, and why, in words."""

    name: str
    threshold: Threshold
    risk: Risk | None = None
    description: str | None = None


def find_metric(name: str) -> Metric:
    """Return the metric of a name, as S or the catalogue writes it."""
    return metric_named(ALIASES.get(name, name))


def read_rules(table: Any) -> dict[str, Rule]:
    """Return thresholds by metric."""
    rules = read_by_name(
        table, lambda name, value: _read_rule(value, read_scale(find_metric(name)))
    )
    by_name: dict[str, Rule] = {}
    for written, rule in rules.items():
        if rule.name in by_name:
            refuse(f"{written} and {rule.name} are the same metric", fix="keep one", at=(written,))
        by_name[rule.name] = rule
    return by_name


def read_shares(table: Any) -> dict[str, Rule]:
    """Return thresholds of pass rates by category."""
    return read_by_name(table, lambda name, value: _read_rule(value, share_scale(name)))


def read_tolerances(table: Any) -> dict[str, float]:
    """Return the share of missing values that is accepted, by metric."""

    def read_tolerance(name: str, value: Any) -> tuple[str, float]:
        scale = Scale(name=name, unit=None, range=(0, 1), better="lower")
        return find_metric(name).name, parse_share(value, scale)

    return dict(read_by_name(table, read_tolerance).values())


def read_share(value: Any) -> Rule:
    """Return the threshold of the pass rate over everything."""
    return read_at((), _read_rule, value, share_scale("overall"))


def share_scale(name: str) -> Scale:
    """Return the scale of a pass rate."""
    return Scale(name=name, unit=None, range=(0, 1), better="higher")


def read_weights_by_name(table: Any) -> dict[str, float]:
    """Return weights by name, from 0 on."""

    def read_weight(name: str, value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < inf:
            raise UsageError(
                f"{shown(name)} weighs {shown(value)}, not a number from 0 on",
                fix="for example 2.0 for twice as much",
            )
        return float(value)

    return read_by_name(table, read_weight)


def _read_rule(value: Any, scale: Scale) -> Rule:
    """Return the rule of a threshold, or of a mapping that holds one and its stakes."""
    if not isinstance(value, Mapping):
        return Rule(name=scale.name, threshold=parse_threshold(value, scale))
    for key in value:
        if key not in _ENTRY:
            raise UsageError(
                f"{scale.name}: {shown(key)} is not a known key", fix=nearest(str(key), _ENTRY)
            )
    if "threshold" not in value:
        raise UsageError(f"{scale.name}: threshold is missing", fix='{threshold: "≥ 85%"}')
    risk, description = value.get("risk"), value.get(DESCRIPTION)
    if risk is not None and risk not in RISKS:
        raise UsageError(f"{scale.name}: no risk is called {shown(risk)}", fix=", ".join(RISKS))
    _check_description(description)
    threshold = parse_threshold(value["threshold"], scale)
    return Rule(name=scale.name, threshold=threshold, risk=risk, description=description)


def read_by_name(table: Any, read: Callable[[str, Any], T]) -> dict[str, T]:
    """Return what `read` makes of each entry of a table, or refuse it at its place."""
    if not isinstance(table, Mapping):
        refuse(f"{shown(table)} is not a mapping of names to values", fix='{accuracy: "≥ 90%"}')
    entries: dict[str, T] = {}
    for name, value in table.items():
        if not isinstance(name, str):
            refuse(f"{shown(name)} is not text", fix="put it in quotes", at=(name,))
        if name == DESCRIPTION:
            read_at((name,), _check_description, value)
        else:
            entries[name] = read_at((name,), read, name, value)
    return entries


def _check_description(value: Any) -> None:
    if value is not None and not isinstance(value, str):
        raise UsageError(f"description is {shown(value)}, no text", fix="put it in quotes")


def read_at(at: tuple[Any, ...], read: Callable[..., T], *what: Any) -> T:
    """Return what `read` makes of a value, or refuse it with the place where it stands."""
    try:
        return read(*what)
    except UsageError as error:
        refuse(error.message, fix=error.fix, at=at)
    except PydanticCustomError as error:  # from a table within this one
        inner = error.context or {}
        refuse(inner["message"], fix=inner["fix"], at=(*at, *inner["at"]))


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
    metrics = {name: {**value, "description": metric.says} for name, metric in catalogue().items()}
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
    PlainValidator(read_rules),
    SchemaOf(lambda: make_metric_schema(THRESHOLD)),
]
Share = Annotated[Rule, PlainValidator(read_share), SchemaOf(lambda: THRESHOLD)]
Shares = Annotated[
    Mapping[str, Rule],
    PlainValidator(read_shares),
    SchemaOf(lambda: make_name_schema(THRESHOLD)),
]
Tolerances = Annotated[
    Mapping[str, float],
    PlainValidator(read_tolerances),
    SchemaOf(lambda: make_metric_schema({"type": ["number", "string"]})),
]
WeightTable = Annotated[
    Mapping[str, float],
    PlainValidator(read_weights_by_name),
    SchemaOf(lambda: make_name_schema({"type": "number", "minimum": 0})),
]

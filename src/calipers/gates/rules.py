"""The parts of a policy: what stands in the file becomes rules, or an error at its place.

Every function here reads one kind of value and refuses what makes no sense; `description` may stand
in every table and is passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any, Literal, TypeVar, get_args

from pydantic_core import PydanticCustomError

from calipers.gates.formulas import Formula, parse_formula
from calipers.metrics import Metric, catalogue, metric_named
from calipers.metrics.thresholds import Scale, Threshold, parse_margin, parse_threshold, scale_of
from calipers.support.config.files import shown
from calipers.support.config.models import refuse
from calipers.support.errors import UsageError, nearest

Risk = Literal["critical", "high", "medium", "low"]
RISKS: tuple[Risk, ...] = get_args(Risk)

ALIASES = {"latency_p95": "latency_p95_ms"}  # as S writes it
NORMALIZED_LATENCY = "normalized_latency"
FINAL_SCORE = "final_score"
DESCRIPTION = "description"
RELEASE = "release"
_ENTRY = ("threshold", "risk", DESCRIPTION)

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A threshold on a metric or a category, how much is at stake, and why, in words."""

    name: str
    threshold: Threshold
    risk: Risk | None = None
    description: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Progressive:
    """Thresholds that rise from release to release."""

    release: str | None  # unless the command line names one
    rows: Mapping[str, Mapping[str, Rule]]


def known_metric(name: str) -> Metric:
    """The metric of that name, as S or the catalogue writes it."""
    return metric_named(ALIASES.get(name, name))


def rules_read(table: Any) -> dict[str, Rule]:
    """Thresholds by metric."""
    rules = _by_name(table, lambda name, value: _rule(value, scale_of(known_metric(name))))
    seen: set[str] = set()
    for written, rule in rules.items():
        if rule.name in seen:
            refuse(f"{written} and {rule.name} are the same metric", fix="keep one", at=(written,))
        seen.add(rule.name)
    return {rule.name: rule for rule in rules.values()}


def shares_read(table: Any) -> dict[str, Rule]:
    """Thresholds of pass rates by category."""
    return _by_name(table, lambda name, value: _rule(value, share_scale(name)))


def share_read(value: Any) -> Rule:
    """The threshold of the pass rate over everything."""
    return _told((), _rule, value, share_scale("overall"))


def share_scale(name: str) -> Scale:
    """The scale of a pass rate."""
    return Scale(name=name, unit=None, range=(0, 1), better="higher")


def margins_read(table: Any) -> dict[str, float]:
    """Margins by metric, each in the metric's unit."""

    def margin(name: str, value: Any) -> tuple[str, float]:
        metric = known_metric(name)
        if metric.better is None:
            raise UsageError(
                f"{name}: neither more nor less of it is better", fix="leave it out of the margins"
            )
        return metric.name, parse_margin(value, scale_of(metric))

    return dict(_by_name(table, margin).values())


def progressive_read(table: Any) -> Progressive:
    """A row of thresholds per release, and perhaps the release that is the current one."""
    release = table.get(RELEASE) if isinstance(table, Mapping) else None
    if release is not None:
        table = {key: row for key, row in table.items() if key != RELEASE}
    rows = _by_name(table, lambda _, row: rules_read(row))
    if release is not None and (isinstance(release, list | dict) or release not in rows):
        refuse(
            f"release is {shown(release)}, and there is no such row",
            fix=nearest(str(release), rows),
            at=(RELEASE,),
        )
    return Progressive(release=release, rows=rows)


def weights_read(table: Any) -> dict[str, float]:
    """Weights by name, from 0 on."""

    def weight(name: str, value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < inf:
            raise UsageError(
                f"{shown(name)} weighs {shown(value)}, not a number from 0 on",
                fix="for example 2.0 for twice as much",
            )
        return float(value)

    return _by_name(table, weight)


def ids_read(ids: Any) -> tuple[str, ...]:
    """The ids of scenarios; a whole number is read as its text, as in records."""
    if not isinstance(ids, list | tuple):
        refuse(f"{shown(ids)} is not a list", fix='for example ["SEC-001", "SEC-002"]')
    for at, each in enumerate(ids):
        if isinstance(each, bool) or not isinstance(each, str | int) or each == "":
            refuse(f"{shown(each)!r} is no id", fix="put it in quotes", at=(at,))
    return tuple(dict.fromkeys(str(each) for each in ids))


def formula_read(text: Any) -> Formula:
    """A formula over metrics and `normalized_latency`."""
    if not isinstance(text, str):
        refuse(f"{shown(text)} is no formula", fix='for example "0.5 × accuracy + 0.5 × recall"')
    name, equals, right = text.partition("=")
    if equals and name.strip() == FINAL_SCORE:  # as S writes it
        text = right
    formula = _told((), parse_formula, text)
    for name in formula.names:
        if name != NORMALIZED_LATENCY:
            _told((), _metric_in_formula, name)
    return formula


def _metric_in_formula(name: str) -> Metric:
    try:
        return known_metric(name)
    except UsageError as error:
        fix = nearest(name, (*catalogue(), *ALIASES, NORMALIZED_LATENCY))
        raise UsageError(error.message, fix=fix) from error


def _rule(value: Any, scale: Scale) -> Rule:
    """A threshold, or a mapping that holds one and says what is at stake."""
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


def _by_name(table: Any, read: Callable[[str, Any], T]) -> dict[str, T]:
    if not isinstance(table, Mapping):
        refuse(f"{shown(table)} is not a mapping of names to values", fix='{accuracy: "≥ 90%"}')
    return dict(_entries(table, read))


def _entries(table: Mapping[Any, Any], read: Callable[[str, Any], T]) -> Iterator[tuple[str, T]]:
    for name, value in table.items():
        if not isinstance(name, str):
            refuse(f"{shown(name)} is no text", fix="put it in quotes", at=(name,))
        if name == DESCRIPTION:
            _told((name,), _check_description, value)
        else:
            yield name, _told((name,), read, name, value)


def _check_description(value: Any) -> None:
    if value is not None and not isinstance(value, str):
        raise UsageError(f"description is {shown(value)}, no text", fix="put it in quotes")


def _told(at: tuple[Any, ...], read: Callable[..., T], *what: Any) -> T:
    """What is read, or its complaint with the place where it stands."""
    try:
        return read(*what)
    except UsageError as error:
        refuse(error.message, fix=error.fix, at=at)
    except PydanticCustomError as error:  # from a table within this one
        inner = error.context or {}
        refuse(inner["message"], fix=inner["fix"], at=(*at, *inner["at"]))

"""The sum of a judge's rubric items, in each of the shapes they come in.

>>> items = list_items({"items": {"F": {"achieved": 1, "max": 1}, "G": {"achieved": 1, "max": 3}}})
>>> sum_weighted(items)
0.5
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from math import fsum
from pathlib import Path
from typing import Any

from calipers.records.fields import BadValue, Field, Kind
from calipers.support.config import read_config, shown
from calipers.support.errors import UsageError

_NOT_APPLICABLE = ("n/a", "na", "not applicable")
_FEWEST_DECIMALS = 2  # 0.9 is how a program writes 0.90
_FINEST = 1e-6
_EXAMPLE = "for example {accuracy: 0.6, clarity: 0.4}, or {accuracy: {weight: 0.6, max: 5}}"
_AMOUNT = Field("amount", Kind.NUMBER, low=0)


class NoSum(ValueError):  # noqa: N818 (reads as a sentence: "raise NoSum")
    """Items that give no sum; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkedItem:
    """What a judge gave for one item of its rubric, of how much."""

    name: str
    achieved: float
    most: float
    weight: float | None = None
    category: str | None = None
    category_weight: float | None = None


@dataclass(frozen=True, slots=True)
class RubricWeights:
    """The weights of items and categories, and the most that an item can have, by name."""

    weights: Mapping[str, float] = field(default_factory=dict)
    tops: Mapping[str, float] = field(default_factory=dict)


NO_RUBRIC = RubricWeights()


def read_rubric_weights(given: str | Path | Mapping[str, Any]) -> RubricWeights:
    """Return the weights in a YAML or JSON file, or in a mapping of the same shape."""
    table = given if isinstance(given, Mapping) else read_config(given, example=_EXAMPLE).value
    source = "weights" if isinstance(given, Mapping) else str(given)
    try:
        weights = parse_weights(table)
    except NoSum as problem:
        raise UsageError(f"{source}: {problem}", fix=_EXAMPLE) from None
    if not (weights.weights or weights.tops):
        raise UsageError(f"{source}: no weights in it", fix=_EXAMPLE)
    return weights


def parse_weights(table: Any) -> RubricWeights:
    """Return weights from `{name: weight}`, `{name: {weight, max}}`, a list, or categories.

    >>> tone = {"weight": 0.2, "items": [{"id": "Q", "points": 2}]}
    >>> parse_weights({"categories": {"tone": tone}})
    RubricWeights(weights={'tone': 0.2}, tops={'Q': 2.0})
    """
    weights: dict[str, float] = {}
    tops: dict[str, float] = {}
    for key in ("categories", "criteria", "items"):
        if isinstance(table, Mapping) and isinstance(table.get(key), Mapping | list):
            table = table[key]
            break
    for name, entry in _list_named(table, "the rubric"):
        _add(name, entry, weights, tops)
        if isinstance(entry, Mapping) and entry.get("items") is not None:
            for item, inner in _list_named(entry["items"], f"{shown(name)}: items"):
                _add(item, inner, weights, tops)
    return RubricWeights(weights, tops)


def _add(name: str, entry: Any, weights: dict[str, float], tops: dict[str, float]) -> None:
    own = entry if isinstance(entry, Mapping) else {"weight": entry}
    top = own.get("max", own.get("points"))
    for value, into in ((own.get("weight"), weights), (top, tops)):
        if value is not None:
            into[name] = _read_amount(value, shown(name))


def list_items(
    judgment: Mapping[str, Any], rubric: RubricWeights = NO_RUBRIC
) -> list[MarkedItem] | None:
    """Return the items of a judgment that apply; None if it has none.

    They stand under `items` or ProjectScylla's `criteria_scores`; with a rubric that says what each
    weighs, the `scores` of criteria are items too.
    """
    if judgment.get("items"):
        return list(_read_items(judgment["items"], rubric))
    if judgment.get("criteria_scores"):
        return list(_read_categories(judgment["criteria_scores"], rubric))
    scores = judgment.get("scores")
    if isinstance(scores, Mapping) and scores.keys() & (rubric.weights.keys() | rubric.tops.keys()):
        return list(_convert_scores(scores, rubric))
    return None


def _read_items(
    entries: Any,
    rubric: RubricWeights,
    *,
    category: str | None = None,
    category_weight: float | None = None,
    not_applicable: Sequence[str] = (),
) -> Iterator[MarkedItem]:
    for name, entry in _list_named(entries, "items"):
        if not isinstance(entry, Mapping):
            raise NoSum(f"item {shown(name)} is {shown(entry)}, not an object")
        if name in not_applicable:
            continue
        within, weight = category, category_weight
        if within is None and entry.get("category") is not None:
            within = str(entry["category"])
            weight = rubric.weights.get(within)
        yield from _read_item(name, entry, rubric, within, weight)


def _read_item(
    name: str,
    entry: Mapping[str, Any],
    rubric: RubricWeights,
    category: str | None = None,
    category_weight: float | None = None,
) -> Iterator[MarkedItem]:
    """Yield the item, unless it does not apply."""
    achieved = entry.get("achieved", entry.get("points", entry.get("score")))
    most = entry.get("max", rubric.tops.get(name))
    if most is None and "weight" in entry and "score" in entry:
        most = 1  # a weighted score is a share
    if entry.get("na") is True or achieved is None or _is_not_applicable(achieved, most):
        return
    label = f"item {shown(name)}"
    if most is None:
        raise NoSum(f"{label} has no max")
    got, top = _read_amount(achieved, label), _read_amount(most, f"{label}: max")
    if got > top:
        raise NoSum(f"{label} has {got:g} of {top:g}")
    weight = rubric.weights.get(name, entry.get("weight"))
    if top:
        yield MarkedItem(
            name=name,
            achieved=got,
            most=top,
            weight=None if weight is None else _read_amount(weight, f"{label}: weight"),
            category=category,
            category_weight=category_weight,
        )


def _read_categories(entries: Any, rubric: RubricWeights) -> Iterator[MarkedItem]:
    for name, entry in _list_named(entries, "criteria_scores"):
        if not isinstance(entry, Mapping):
            raise NoSum(f"criteria_scores: {shown(name)} is {shown(entry)}, not an object")
        if entry.get("items") is None:
            yield from _read_item(name, entry, rubric)
            continue
        weight = rubric.weights.get(name, entry.get("weight"))
        left_out = entry.get("na_items")
        yield from _read_items(
            entry["items"],
            rubric,
            category=name,
            category_weight=None
            if weight is None
            else _read_amount(weight, f"{shown(name)}: weight"),
            not_applicable=left_out if isinstance(left_out, list) else (),
        )


def _convert_scores(scores: Mapping[str, Any], rubric: RubricWeights) -> Iterator[MarkedItem]:
    """Yield criteria as items; if the rubric has no max, scores are shares of 1."""
    most = {} if rubric.tops else {"max": 1.0}
    for name, score in scores.items():
        yield from _read_item(name, {"achieved": score, **most}, rubric)


def _list_named(entries: Any, what: str) -> Iterator[tuple[str, Any]]:
    """Yield the entries of an object, or of a list of named entries."""
    if isinstance(entries, Mapping):
        yield from ((str(name), entry) for name, entry in entries.items())
    elif isinstance(entries, list):
        for number, entry in enumerate(entries, start=1):
            keys = ("id", "name", "criterion") if isinstance(entry, Mapping) else ()
            names = (entry[key] for key in keys if entry.get(key) is not None)
            yield str(next(names, number)), entry
    else:
        raise NoSum(f"{what} is {shown(entries)}, neither a list nor an object")


def _is_not_applicable(*values: Any) -> bool:
    return any(type(value) is str and value.strip().lower() in _NOT_APPLICABLE for value in values)


def _read_amount(value: Any, label: str) -> float:
    try:
        number = _AMOUNT.read(value)
    except BadValue as problem:
        raise NoSum(f"{label}: {problem}") from None
    except OverflowError:
        raise NoSum(f"{label}: not a finite number") from None
    if number is None:
        raise NoSum(f"{label}: is not a number")
    return float(number)


def sum_weighted(items: Sequence[MarkedItem]) -> float:
    """Return Σ weight · share / Σ weight over the items, or Σ achieved / Σ max without weights.

    Where categories have weights, the same within each, then Σ weight · share / Σ weight over the
    categories that have an item.
    """
    if not items:
        raise NoSum("no item applies")
    if all(item.category_weight is None for item in items):
        return _combine(items)
    categories: dict[str | None, list[MarkedItem]] = {}
    for item in items:
        if item.category_weight is None:
            whose = f"category {shown(item.category)}" if item.category else f"item {item.name}"
            raise NoSum(f"{shown(whose)} has no weight, other categories have one")
        categories.setdefault(item.category, []).append(item)
    weights = [members[0].category_weight or 0.0 for members in categories.values()]
    return _average([_combine(members) for members in categories.values()], weights)


def _combine(items: Sequence[MarkedItem]) -> float:
    weights = [item.weight for item in items if item.weight is not None]
    if not weights:
        return fsum(item.achieved for item in items) / fsum(item.most for item in items)
    if len(weights) < len(items):
        lacking = next(item.name for item in items if item.weight is None)
        raise NoSum(f"item {shown(lacking)} has no weight, other items have one")
    return _average([item.achieved / item.most for item in items], weights)


def _average(shares: Sequence[float], weights: Sequence[float]) -> float:
    total = fsum(weights)
    if not total:
        raise NoSum("the weights add up to 0")
    return fsum(share * weight for share, weight in zip(shares, weights, strict=True)) / total


def find_tolerance(written: object) -> float:
    """Return how far a score may be from its sum: half a unit of its last decimal, ≥ the second.

    >>> [find_tolerance(written) for written in ("0.9286", "0.9", "1", "0.9333333333333333")]
    [5e-05, 0.005, 0.005, 1e-06]
    """
    exponent = Decimal(str(written)).as_tuple().exponent
    decimals = max(_FEWEST_DECIMALS, -exponent) if isinstance(exponent, int) else _FEWEST_DECIMALS
    return max(0.5 * 10.0**-decimals, _FINEST)

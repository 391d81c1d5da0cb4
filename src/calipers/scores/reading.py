"""A score read back from the JSON that it was written to."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import fields
from typing import Any

from calipers.metrics import metric_named
from calipers.metrics.stored import restore_own
from calipers.scores.results import SCHEMA, Measured, Score
from calipers.support.errors import UsageError
from calipers.support.stored import read_number, read_stored

Json = Mapping[str, Any]

_OF_SCORE = ("schema", "seed", "settings", "inputs")  # what a score in brief keeps
_OF_GROUP = ("by", "records", "errors", "truncated", "failures")
_MEASURED = {each.name for each in fields(Measured)} - {"extras"}


def read_score(found: Json | None) -> Score | None:
    """Return the score in a parsed `score.json`; None where it is none, or of another version."""
    if found is None or found.get("schema") != SCHEMA:
        return None
    restore_own(found.get("own_metrics"))
    score = read_stored(Score, found, _score)
    return score if score is not None and _is_known(score) else None


def keep_metrics(found: Json, names: Collection[str]) -> Json:
    """Return a parsed `score.json` with these metrics of its groups, and little beside them."""
    try:
        groups = [
            {**_pick(each, _OF_GROUP), "metrics": _pick(each["metrics"], names)}
            for each in found["groups"]
        ]
    except (KeyError, TypeError, AttributeError):  # damaged: whoever reads it says so
        return found
    return {**_pick(found, _OF_SCORE), "groups": groups}


def _pick(found: Json, names: Collection[str]) -> dict[str, Any]:
    return {name: each for name, each in found.items() if name in names}


def _is_known(score: Score) -> bool:
    """Say whether its metrics are ours: a later version may have others."""
    try:
        for name in {name for group in score.groups for name in group.metrics}:
            metric_named(name)
    except UsageError:
        return False
    return True


def _score(found: Json) -> Json:
    tiers, frontier, per_task = map(found.get, ("tiers", "frontier", "per_task"))
    several = [tiers] if isinstance(tiers, dict) else tiers or []
    return {
        **found,
        "groups": [_group(each) for each in found["groups"]],
        "tiers": [{"by": {}, "reasons": {}, **each} for each in several],
        "frontier": None if frontier is None else _read_frontier(frontier),
        **({"per_task": _read_per_task(per_task)} if per_task else {}),
    }


def _read_per_task(found: Json) -> Json:
    items = found.get("items")
    if items is None:
        return found
    counts = {"nobody": items["solved_by_nobody"], "everybody": items["solved_by_everybody"]}
    return {**found, "items": {**items, **counts, "examples": ()}}


def _group(found: Json) -> Json:
    statistics = found.get("statistics")
    return {
        **found,
        "truncated": found.get("truncated") or 0,
        "metrics": {name: _read_measured(each) for name, each in found["metrics"].items()},
        "statistics": statistics
        and {name: _read_numbers(each) for name, each in statistics.items()},
        "judges": [
            {**each, "members": [(by["model"], by["rubric_hash"] or "") for by in each["by"]]}
            for each in found.get("judges", ())
        ],
    }


def _read_measured(found: Json) -> Json:
    numbers = {name: read_number(found.get(name)) for name in ("value", "low", "high", "stderr")}
    extras = {name: value for name, value in found.items() if name not in _MEASURED}
    return {**found, **numbers, "extras": extras}


def _read_numbers(found: Json | None) -> Json | None:
    return None if found is None else {name: read_number(each) for name, each in found.items()}


def _read_frontier(found: Json) -> Json:
    solved = found["solved_cost_of_pass"]
    return {
        **found,
        "cost_of_pass": read_number(found["cost_of_pass"]),
        "solved_cost_of_pass": solved["value"],
        "low": solved["low"],
        "high": solved["high"],
    }

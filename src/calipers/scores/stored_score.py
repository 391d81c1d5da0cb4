"""A score read back from the JSON that it was written to."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import fields
from typing import Any

from calipers.metrics import metric_named
from calipers.metrics.stored_metrics import restore_own
from calipers.scores.result import SCHEMA, Measured, Score
from calipers.support.errors import UsageError
from calipers.support.strict_json import restore, restore_number

Json = Mapping[str, Any]

_OF_SCORE = ("schema", "seed", "settings", "inputs")  # what a score in brief keeps
_OF_GROUP = ("by", "records", "errors", "truncated", "failures")
_MEASURED = {each.name for each in fields(Measured)} - {"extras"}


def read_score(stored: Json | None) -> Score | None:
    """Return the score in a parsed `score.json`; None where it is none, or of another version."""
    if stored is None or stored.get("schema") != SCHEMA:
        return None
    restore_own(stored.get("own_metrics"))
    score = restore(Score, stored, _restore_score)
    return score if score is not None and _is_known(score) else None


def keep_metrics(stored: Json, names: Collection[str]) -> Json:
    """Return a parsed `score.json` with these metrics of its groups, and little beside them."""
    try:
        groups = [
            {**_pick(group, _OF_GROUP), "metrics": _pick(group["metrics"], names)}
            for group in stored["groups"]
        ]
    except (KeyError, TypeError, AttributeError):  # damaged: whoever reads it says so
        return stored
    return {**_pick(stored, _OF_SCORE), "groups": groups}


def _pick(stored: Json, names: Collection[str]) -> dict[str, Any]:
    return {name: part for name, part in stored.items() if name in names}


def _is_known(score: Score) -> bool:
    """Return True if its metrics are ours: a later version may have others."""
    try:
        for name in {name for group in score.groups for name in group.metrics}:
            metric_named(name)
    except UsageError:
        return False
    return True


def _restore_score(stored: Json) -> Json:
    tiers, frontier, per_task = map(stored.get, ("tiers", "frontier", "per_task"))
    several = [tiers] if isinstance(tiers, dict) else tiers or []
    variants = stored.get("variants")
    return {
        **stored,
        "groups": [_restore_group(group) for group in stored["groups"]],
        "tiers": [{"by": {}, "reasons": {}, **tiers_of} for tiers_of in several],
        "frontier": None if frontier is None else _read_frontier(frontier),
        **({"per_task": _read_per_task(per_task)} if per_task else {}),
        **({"variants": _read_variants(variants)} if variants else {}),
    }


def _read_variants(found: Json) -> Json:
    splits = found.get("variance", ())
    unknown = {"run": None, "rest": None}
    return {
        "best": found.get("best"),
        "variance": [
            {**unknown, **each, "together": each.get("task_by_variant")} for each in splits
        ],
    }


def _read_per_task(stored: Json) -> Json:
    items = stored.get("items")
    if items is None:
        return stored
    counts = {"nobody": items["solved_by_nobody"], "everybody": items["solved_by_everybody"]}
    return {**stored, "items": {**items, **counts, "examples": ()}}


def _restore_group(stored: Json) -> Json:
    statistics = stored.get("statistics")
    return {
        **stored,
        "truncated": stored.get("truncated") or 0,
        "metrics": {name: _read_measured(measured) for name, measured in stored["metrics"].items()},
        "statistics": statistics
        and {name: _read_numbers(statistic) for name, statistic in statistics.items()},
        "judges": [
            {**judge, "members": [(by["model"], by["rubric_hash"] or "") for by in judge["by"]]}
            for judge in stored.get("judges", ())
        ],
    }


def _read_measured(stored: Json) -> Json:
    numbers = {
        name: restore_number(stored.get(name)) for name in ("value", "low", "high", "stderr")
    }
    extras = {name: value for name, value in stored.items() if name not in _MEASURED}
    return {**stored, **numbers, "extras": extras}


def _read_numbers(stored: Json | None) -> Json | None:
    return (
        None
        if stored is None
        else {name: restore_number(number) for name, number in stored.items()}
    )


def _read_frontier(stored: Json) -> Json:
    solved = stored["solved_cost_of_pass"]
    return {
        **stored,
        "cost_of_pass": restore_number(stored["cost_of_pass"]),
        "solved_cost_of_pass": solved["value"],
        "low": solved["low"],
        "high": solved["high"],
    }

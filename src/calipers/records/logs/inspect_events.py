"""The events of a sample of Inspect: which calls of models are a scorer's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from calipers.records.logs.parts import as_mapping, list_objects

_SCORERS = ("scorer", "scorers")


def list_scorer_calls(events: Any) -> list[tuple[str, Any]]:
    """Return the model and the usage of each call that a scorer made, as far as events tell."""
    return list(_walk(events))


def _walk(events: Any) -> Iterator[tuple[str, Any]]:
    inside: set[str] = set()  # spans of scorers, and the spans in them
    steps = 0  # of scorers, in logs before spans
    for event in list_objects(events):
        kind = event.get("event")
        if kind == "span_begin":
            if event.get("type") in _SCORERS or str(event.get("parent_id")) in inside:
                inside.add(str(event.get("id")))
        elif kind == "step" and event.get("type") in _SCORERS:
            steps += 1 if event.get("action") == "begin" else -1
        elif kind == "model" and (steps > 0 or str(event.get("span_id") or "") in inside):
            yield str(event.get("model")), as_mapping(event.get("output")).get("usage")

"""A JSON object that is a whole file: a record, or a wrapper around the list of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from calipers.records.fields import FIELDS

# Fields of a record that a wrapper may have too, for all its records.
_ABOUT_ALL = frozenset(("id", "model", "tier", "run", "category", "tags", "error", "usage"))
_USUAL = ("records", "results", "samples", "examples", "rows", "data", "items", "test_cases")


def find_list(document: Any) -> str | None:
    """Return the key of the list of records in a wrapper; None for a record, or if unclear."""
    if not isinstance(document, Mapping) or (FIELDS.keys() - _ABOUT_ALL) & document.keys():
        return None
    lists = [name for name, each in document.items() if _is_list_of_objects(each)]
    usual = [name for name in _USUAL if name in lists]
    return lists[0] if len(lists) == 1 else usual[0] if len(usual) == 1 else None


def _is_list_of_objects(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], Mapping)

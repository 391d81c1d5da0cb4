"""The list of the record's fields, as the documentation shows it."""

from __future__ import annotations

from math import isinf

from calipers.records.fields import FIELDS, Author, Field, Kind

_WHOSE = {
    Author.TASK: "the task",
    Author.HARNESS: "the run",
    Author.SYSTEM: "the system",
    Author.VERDICT: "a check or a judge",
}


def list_fields() -> str:
    """Return a Markdown table: each field, what it holds, and who gives it where a run is made."""
    rows = (
        f"| `{field.name}` | {_describe_kind(field)} | {_WHOSE[field.author]} |\n"
        for field in FIELDS.values()
    )
    return "| field | holds | given by |\n|---|---|---|\n" + "".join(rows)


def _describe_kind(field: Field) -> str:
    if field.kind is not Kind.NUMBER:
        return str(field.kind.value)
    return (
        "number, at least 0" if isinf(field.high) else f"number in [{field.low:g}, {field.high:g}]"
    )

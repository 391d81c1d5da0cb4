"""The words of Vega-Lite that charts are made of, as plain values: fields, marks, layers, panels.

>>> mark("rule", {"opacity": 0.4}, x=quantity("low"), x2="high")["encoding"]["x2"]
{'field': 'high'}
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

Spec = dict[str, Any]
"""A part of a specification: https://vega.github.io/vega-lite/docs/."""


def quantity(field: str, **look: Any) -> Spec:
    """Return a number of each row, with its scale, axis, title or format."""
    return {"field": field, "type": "quantitative", **look}


def category(field: str, **look: Any) -> Spec:
    """Return a name or another text of each row, with its scale, axis, legend or title."""
    return {"field": field, "type": "nominal", **look}


def constant(value: Any) -> Spec:
    """Return what is the same for all rows: a colour, a shape, a pixel."""
    return {"value": value}


def mark(
    kind: str,
    look: Mapping[str, Any],
    *,
    rows: Iterable[Mapping[str, Any]] | None = None,
    **channels: Spec | list[Spec] | str,
) -> Spec:
    """Return a mark for each row, its own rows or those of the layers that it is among.

    A channel that is a bare name, as `x2="high"`, is a field without properties of its own.
    """
    encoding = {
        name: {"field": channel} if isinstance(channel, str) else channel
        for name, channel in channels.items()
    }
    return {"mark": {"type": kind, **look}, "encoding": encoding, **_hold(rows)}


def layer(*marks: Spec, rows: Iterable[Mapping[str, Any]] | None = None, **properties: Any) -> Spec:
    """Return marks over each other, the last on top, with rows for those that have none."""
    return {"layer": list(marks), **_hold(rows), **properties}


def concat(panels: Iterable[Spec], **properties: Any) -> Spec:
    """Return charts beside and below each other."""
    return {"concat": list(panels), **properties}


def _hold(rows: Iterable[Mapping[str, Any]] | None) -> Spec:
    return {} if rows is None else {"data": {"values": [dict(row) for row in rows]}}

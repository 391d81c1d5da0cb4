"""All pairs of ranked systems: columns, of which each pair becomes an object when asked for."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from calipers.statistics.all_pairs import PairColumns, find_places
from calipers.statistics.clusters import Floats, Whole
from calipers.support.strict_json import dump_strict, to_finite

_NUMBERS = ("difference", "low", "high", "p_value", "p_adjusted")
_AT_ONCE = 10_000  # pairs that are objects, or JSON, at a time


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedPair:
    """Two systems: a − b, with an interval and p-value adjusted for all pairs."""

    a: str
    b: str
    difference: float | None
    low: float | None = None
    high: float | None = None
    p_value: float | None = None
    p_adjusted: float | None = None
    test: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class RankedPairs(Sequence[RankedPair]):
    """Every pair of the systems, in their order: the first with each of the others, and so on."""

    names: tuple[str, ...]
    columns: PairColumns

    def __len__(self) -> int:
        return self.columns.p_value.size

    @overload
    def __getitem__(self, place: int) -> RankedPair: ...

    @overload
    def __getitem__(self, place: slice) -> tuple[RankedPair, ...]: ...

    def __getitem__(self, place: int | slice) -> RankedPair | tuple[RankedPair, ...]:
        places = np.arange(len(self))[place]
        found = tuple(self._list_pairs(np.atleast_1d(places)))
        return found if isinstance(place, slice) else found[0]

    def __iter__(self) -> Iterator[RankedPair]:
        for start in range(0, len(self), _AT_ONCE):
            yield from self._list_pairs(np.arange(start, min(start + _AT_ONCE, len(self))))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Sequence):
            return len(self) == len(other) and all(
                ours == theirs for ours, theirs in zip(self, other, strict=True)
            )
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"RankedPairs({len(self):,} pairs of {len(self.names):,} systems)"

    def find_apart(self, tail: float, *, higher: bool) -> NDArray[np.bool_]:
        """Return for each two systems whether the test says that one is better than the other."""
        apart = np.zeros((len(self.names), len(self.names)), dtype=bool)
        one, other = np.triu_indices(len(self.names), 1)
        is_apart = self.columns.p_adjusted < tail
        first_is_better = (self.columns.difference > 0) == higher
        apart[one, other] = is_apart & first_is_better
        apart[other, one] = is_apart & ~first_is_better
        return apart

    def _list_pairs(self, places: Whole) -> Iterator[RankedPair]:
        """Yield some pairs as objects."""
        for a, b, *rest in self._list_values(places):
            numbers = (None if isnan(each) else each for each in rest[: len(_NUMBERS)])
            yield RankedPair(
                a=self.names[a],
                b=self.names[b],
                **dict(zip(_NUMBERS, numbers, strict=True)),
                test=rest[-2],
                reason=rest[-1],
            )

    def _list_values(self, places: Whole) -> Iterator[tuple[Any, ...]]:
        """Yield both positions, the numbers, the test and the reason of some pairs."""
        known = (getattr(self.columns, name)[places] for name in (*_NUMBERS, "test", "reason"))
        columns = (*_find_positions(len(self.names), places), *known)
        return zip(*(each.tolist() for each in columns), strict=True)

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return the JSON of all pairs, as Python values."""
        names = (*_NUMBERS, "test", "reason")
        return [
            {"a": self.names[a], "b": self.names[b]}
            | dict(zip(names, (*map(to_finite, rest[:-2]), *rest[-2:]), strict=True))
            for a, b, *rest in self._list_values(np.arange(len(self)))
        ]

    def list_json(self, *, indent: int | None, depth: int) -> Iterator[str]:
        """Yield parts of the text that `json.dumps` writes of `to_dicts` at some depth of a value.

        Of half a million pairs its own encoder would keep many millions of small texts.
        """
        if not len(self):
            yield "[]"
            return
        outer, inner = (
            (", ", ", ")
            if indent is None
            else (f",\n{' ' * indent * (depth + 1)}", f",\n{' ' * indent * (depth + 2)}")
        )
        keys = [f"{json.dumps(name)}: %s" for name in ("a", "b", *_NUMBERS, "test", "reason")]
        before, after = (inner[1:], outer[1:]) if indent is not None else ("", "")
        pattern = f"{{{before}{inner.join(keys)}{after}}}"
        names = [_dump(name) for name in self.names]
        texts = {text: _dump(text) for text in {*self.columns.test, *self.columns.reason}}
        yield f"[{outer[1:] if indent is not None else ''}"
        for start in range(0, len(self), _AT_ONCE):
            rows = self._list_values(np.arange(start, min(start + _AT_ONCE, len(self))))
            yield outer if start else ""
            yield outer.join(
                pattern
                % (names[a], names[b], *map(_dump_number, numbers), texts[test], texts[reason])
                for a, b, *numbers, test, reason in rows
            )
        yield f"\n{' ' * indent * depth}]" if indent is not None else "]"


def order_pairs(columns: PairColumns, order: Sequence[int], names: Sequence[str]) -> RankedPairs:
    """Return the pairs of systems in a new order, the difference that of the first from the second.

    Args:
        columns: of all pairs in the old order.
        order: the old positions in the new order.
        names: of the systems, in the new order.
    """
    systems = np.asarray(order, dtype=np.int64)
    one, other = (systems[each] for each in np.triu_indices(systems.size, 1))
    turned = one > other
    places = find_places(systems.size, np.minimum(one, other), np.maximum(one, other))

    def turn(straight: Floats, back: Floats) -> Floats:
        turned_round: Floats = np.where(turned, 0.0 - back[places], straight[places])
        return turned_round

    return RankedPairs(
        tuple(names),
        PairColumns(
            difference=turn(columns.difference, columns.difference),
            low=turn(columns.low, columns.high),
            high=turn(columns.high, columns.low),
            p_value=columns.p_value[places],
            p_adjusted=columns.p_adjusted[places],
            test=columns.test[places],
            reason=columns.reason[places],
        ),
    )


def dump_with_pairs(value: Any, *, indent: int | None, depth: int = 0) -> Iterator[str]:
    """Yield parts of the strict JSON of a value that has pairs where dicts of them should be."""
    if isinstance(value, RankedPairs):
        yield from value.list_json(indent=indent, depth=depth)
    elif not _holds_pairs(value):
        text = dump_strict(value, indent=indent)
        yield text if indent is None else text.replace("\n", f"\n{' ' * indent * depth}")
    else:
        is_dict = isinstance(value, dict)
        outer, inner = (
            ("", "") if indent is None else (f"\n{' ' * indent * (depth + at)}" for at in (0, 1))
        )
        yield "{" if is_dict else "["
        for number, key in enumerate(value):
            yield f"{',' if number else ''}{inner}" if inner else ", " if number else ""
            yield f"{_dump(key)}: " if is_dict else ""
            yield from dump_with_pairs(
                value[key] if is_dict else key, indent=indent, depth=depth + 1
            )
        yield f"{outer}{'}' if is_dict else ']'}"


def _holds_pairs(value: Any) -> bool:
    if isinstance(value, dict | list):
        return any(map(_holds_pairs, value.values() if isinstance(value, dict) else value))
    return isinstance(value, RankedPairs)


def _find_positions(systems: int, places: Whole) -> tuple[Whole, Whole]:
    """Return the positions of both systems of each pair, by its place among all."""
    starts = find_places(systems, np.arange(systems), np.arange(1, systems + 1))
    one = np.searchsorted(starts, places, side="right") - 1
    # The last system has no pair of its own: its start is that of no place.
    return one, places - starts[one] + one + 1


def _dump(text: str | None) -> str:
    return json.dumps(text, ensure_ascii=False)


def _dump_number(value: float) -> str:
    found = to_finite(value)
    return "null" if found is None else json.dumps(found) if isinstance(found, str) else repr(found)

"""The JSON of a score with many groups, written from their columns a thousand at a time.

The text is that of `to_json`, to the byte: each metric's numbers and texts are put between the same
pieces in every group, which Polars does with whole columns.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from math import inf
from typing import TYPE_CHECKING, Any

import polars as pl

from calipers.metrics.declare.columns import pick
from calipers.scores.group_columns import GroupColumns, MeasuredColumn
from calipers.scores.result import describe_score
from calipers.statistics.elementwise import choose, is_single
from calipers.support.lazy_numpy import np
from calipers.support.strict_json import dump_strict, to_finite

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calipers.scores.result import Score

_AT_ONCE = 1024  # groups: larger pieces cost more page faults than they save calls
_SHORTEST = 1e-4  # below which Python writes an exponent, and Polars zeros
_GROUPS = '\n "groups": ['  # nothing deeper is indented by one space


def write_score(score: Score, write: Callable[[str], object]) -> None:
    """Write the JSON of a score with groups in columns, piece by piece."""
    groups = score.groups
    assert isinstance(groups, GroupColumns)
    before, after = dump_strict(describe_score(score, [])).split(f"{_GROUPS}]")
    write(f"{before}{_GROUPS}")
    for start in range(0, len(groups), _AT_ONCE):
        write(",\n" if start else "\n")
        write(_write_groups(groups, start, start + _AT_ONCE))
    write(f"\n ]{after}")


class _Pieces:
    """Texts and columns of texts that are put one behind the other in each row."""

    def __init__(self) -> None:
        self._parts: list[str | pl.Series] = []

    def add(self, *parts: str | pl.Series) -> None:
        """Add texts; two that are the same in all rows become one."""
        for part in parts:
            last = self._parts[-1] if self._parts else None
            if isinstance(part, str) and isinstance(last, str):
                self._parts[-1] = last + part
            else:
                self._parts.append(part)

    def join(self) -> str:
        """Return all rows, as the entries of a list."""
        columns = {
            f"{place}": part
            for place, part in enumerate(self._parts)
            if isinstance(part, pl.Series)
        }
        row = pl.concat_str(
            pl.lit(part) if isinstance(part, str) else pl.col(f"{place}")
            for place, part in enumerate(self._parts)
        )
        text: str = pl.DataFrame(columns).select(row.str.join(",\n")).item()
        return text


def _write_groups(groups: GroupColumns, start: int, end: int) -> str:
    keys, places = groups.by[start:end], groups.places[start:end]
    pieces = _Pieces()
    pieces.add('  {\n   "by": {')
    for number, name in enumerate(keys[0]):
        values = [_dump_deep(key[name], "    ") for key in keys]
        pieces.add("," * bool(number) + f"\n    {_dump(name)}: ", pl.Series(values))
    pieces.add("\n   }" if keys[0] else "}")
    counts = {name: count[places] for name, count in groups.counts.items()}
    for name in ("records", "errors", "truncated"):
        pieces.add(f',\n   "{name}": ', _write(counts[name]))
    if counts["failures"].any():
        failures = np.array([count or None for count in counts["failures"].tolist()], dtype=object)
        pieces.add(_write_some("failures", failures))
    if (warnings := groups.list_warnings(places)) is not None:
        pieces.add(_write_some("warning", warnings))
    pieces.add(',\n   "metrics": {')
    for number, (name, column) in enumerate(groups.metrics.items()):
        pieces.add("," * bool(number) + f"\n    {_dump(name)}: {{")
        _add_metric(pieces, column, places)
        pieces.add("\n    }")
    pieces.add("\n   }" if groups.metrics else "}")
    if groups.flagged is not None:
        flagged = np.broadcast_to(np.asarray(groups.flagged, dtype=object), len(groups))
        pieces.add(_write_some("flagged", flagged[places]))
    pieces.add("\n  }")
    return pieces.join()


def _add_metric(pieces: _Pieces, column: MeasuredColumn, places: NDArray[Any]) -> None:
    """Add the fields of `Measured.to_dict`, in its order."""
    pieces.add('\n     "value": ', _write(column.value[places]))
    for name in ("low", "high", "stderr"):
        pieces.add(f',\n     "{name}": ', _write(getattr(column, name)[places]))
    method = choose(column.has_interval[places], column.method, None)
    pieces.add(',\n     "interval": ', _write(method))
    for name in ("n", "missing", "reason"):
        pieces.add(f',\n     "{name}": ', _write(_take(getattr(column, name), places)))
    for name in ("interval_reason", "scope"):
        pieces.add(_write_some(name, _take(getattr(column, name), places), deep="  "))
    for name, extra in column.extras.items():
        pieces.add(f",\n     {_dump(name)}: ", _write(_take(extra, places)))
    for name, remark in column.remarks.items():
        pieces.add(_write_some(name, _take(remark, places), deep="  "))


def _take(column: Any, places: NDArray[Any]) -> Any:
    return column if is_single(column) else column[places]


def _write(values: Any) -> str | pl.Series:
    """Return the JSON of each value, or of the one that is the same in all rows."""
    if is_single(values):
        return _dump(values)
    if (values == values[0]).all():
        return _dump(to_finite(pick(values, 0)) if values.dtype.kind == "f" else pick(values, 0))
    if values.dtype.kind == "f":
        return write_floats(values)
    if values.dtype.kind in "iu":
        return pl.Series(values).cast(pl.String)
    return pl.Series(list(map(_dump, values.tolist())))


_ENDS = {value: dump_strict(to_finite(value)) for value in (inf, -inf)}


def write_floats(
    values: NDArray[Any], ends: Mapping[float, str] = _ENDS, null: str = "null"
) -> pl.Series:
    """Return the shortest text of each float, as Python writes it, and those of infinite ones."""
    texts = pl.Series(values).cast(pl.String)
    with np.errstate(invalid="ignore"):
        is_short = (np.abs(values) < _SHORTEST) & (values != 0)
    is_odd = is_short | ~np.isfinite(values)
    if not is_odd.any():
        return texts
    own = np.full(len(values), None, dtype=object)
    own[is_odd] = list(map(repr, values[is_odd].tolist()))
    own[np.isnan(values)] = null
    for value, text in ends.items():
        own[values == value] = text
    return pl.Series(own.tolist(), dtype=pl.String).zip_with(pl.Series(is_odd), texts)


def _write_some(name: str, values: Any, deep: str = "") -> str | pl.Series:
    """Return an entry of an object, or nothing where the value is None."""
    head = f",\n   {deep}{_dump(name)}: "
    if is_single(values):
        return "" if values is None else f"{head}{_dump(values)}"
    return pl.Series(["" if value is None else f"{head}{_dump(value)}" for value in values])


_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


@lru_cache(maxsize=4096, typed=True)
def _dump(value: Any) -> str:
    return _encode(value)


def _dump_deep(value: Any, indent: str) -> str:
    if isinstance(value, dict | list):
        return dump_strict(value).replace("\n", f"\n{indent}")
    return _encode(value)

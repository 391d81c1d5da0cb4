"""Which columns of somebody's own data are which fields of a record: a guess to be confirmed.

The names of columns, and paths into nested ones, are held against those that tools use
(`records/column_hints.py`), their values against what a field can hold. A table may be long (a row
per answer), wide (a column of answers per system), or tasks without any answers yet.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import polars as pl

from calipers.doctor.examine import may_be_field
from calipers.records.column_hints import list_paths, suggest_answers, suggest_fields
from calipers.records.derived_fields import SYNONYMS
from calipers.records.fields import FIELDS
from calipers.records.logs.log import Log
from calipers.records.sources import open_sources
from calipers.records.task_data import read_records
from calipers.support.errors import DataError, EmptyError, UsageError, nearest
from calipers.support.field_paths import look_up

LOOKED_AT = 200  # rows
SHOWN = 3
_CLOSE = 0.9  # a misspelt name, not one that holds another
_ALIKE = 0.05  # of a column's values are targets: then they are answers
_MOST_ANSWERS = 40  # columns
_LONGEST = 300  # characters of an answer that may be a target
_OUTCOMES = ("correct", "passed", "judgments", "trace", "impl_rate", "observed_behaviors")
_OF_CALLS = ("latency_ms", "cost_usd", "error", "completion_tokens", "model", *_OUTCOMES)
_ORDER = ("id", "model", "input", "target", "answer", "category")
_TRUTHS = {"true": True, "false": False}
_SPACE = re.compile(r"\s+")

Kind = Literal["records", "tasks"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DataMapping:
    """What a file holds: fields under the data's own names, or a column of answers per system."""

    path: str
    kind: Kind
    fields: Mapping[str, str] = field(default_factory=dict)  # by the record's field
    own: tuple[str, ...] = ()  # fields that have their own names already
    answers: tuple[str, ...] = ()  # columns of a wide table
    unused: tuple[str, ...] = ()
    rows: tuple[Mapping[str, Any], ...] = ()  # the first ones
    log: str | None = None  # the tool whose log it is

    @property
    def known(self) -> dict[str, str]:
        """All fields of the record that the data has, each with its column."""
        found = {**{name: name for name in self.own}, **self.fields}
        order = [*_ORDER, *FIELDS]
        return dict(sorted(found.items(), key=lambda item: order.index(item[0])))

    def show(self, row: Mapping[str, Any], name: str) -> str:
        """Return a value of a row on one line."""
        value = look_up(row, self.known.get(name, name))
        return "" if value is None else _SPACE.sub(" ", str(value))


def guess_mapping(path: str | Path) -> DataMapping:
    """Return what the first rows of a file seem to hold.

    Raises:
        EmptyError: There is no row in it.
        CalipersError: It cannot be read.
    """
    name = str(path)
    sources = open_sources(name)
    log = next((source.format.name for source in sources if isinstance(source, Log)), None)
    bad: list[DataError] = []
    rows = list(islice(read_records(name, on_bad=bad.append), LOOKED_AT))
    if bad and not rows:
        raise bad[0]
    if not rows:
        raise EmptyError(f"{name}: no rows in it", fix="a row per task or answer, with a header")
    columns = list(dict.fromkeys(column for row in rows for column in row))
    own = tuple(
        SYNONYMS.get(name, name)
        for name in columns
        if (name in FIELDS or name in SYNONYMS) and _is_filled(rows, name)
    )
    own = tuple(name for name in dict.fromkeys(own) if name in FIELDS)
    found = DataMapping(path=name, kind="records", own=own, rows=tuple(rows), log=log)
    if log is None:
        found = _guess_fields(found, columns)
    return _find_unused(_choose_kind(found), columns)


def _is_filled(rows: Sequence[Mapping[str, Any]], column: str) -> bool:
    return any(row.get(column) not in (None, "") for row in rows)


def _guess_fields(found: DataMapping, columns: Sequence[str]) -> DataMapping:
    """Return the mapping with the fields that columns, or paths into them, are called like."""
    paths = list(dict.fromkeys(path for row in found.rows for path in list_paths(row)))
    listed = [*columns, *(path for path in paths if path not in columns)]
    fields = {
        name: column
        for name, column in suggest_fields(listed, close=_CLOSE).items()
        if name not in found.own and may_be_field(_read_column(found.rows, column), name)
    }
    found = replace(found, fields=fields)
    answers = tuple(suggest_answers(columns))
    if not answers and "answer" not in found.known:
        answers = _find_answers(found, columns)
    if len(answers) == 1:
        return replace(found, fields={**fields, "answer": answers[0]})
    kept = {name: column for name, column in fields.items() if column not in answers}
    if answers:
        kept.pop("model", None)
    return replace(found, fields=kept, answers=answers)


def _read_column(rows: Sequence[Mapping[str, Any]], column: str) -> pl.Series:
    values = [look_up(row, column) for row in rows]
    column_of: pl.Series | None = None
    with suppress(TypeError, pl.exceptions.PolarsError):  # of several types
        column_of = pl.Series(values)
    if column_of is None or column_of.dtype.is_nested():
        return pl.Series(
            [None if value is None else str(value) for value in values], dtype=pl.String
        )
    return _read_texts(column_of) if column_of.dtype == pl.String else column_of


def _read_texts(texts: pl.Series) -> pl.Series:
    """Return texts as numbers or truth values where all of them are, as in CSV."""
    filled = texts.replace("", None)
    for read in (
        filled.cast(pl.Float64, strict=False),
        filled.str.to_lowercase().replace_strict(_TRUTHS, default=None, return_dtype=pl.Boolean),
    ):
        if read.null_count() == filled.null_count() < len(filled):
            return read
    return texts


def _find_answers(found: DataMapping, columns: Sequence[str]) -> tuple[str, ...]:
    """Return the columns that hold what the target's column holds, now and then."""
    target = found.known.get("target")
    if target is None:
        return ()
    wanted = [_spell(look_up(row, target)) for row in found.rows]
    taken = {column for name, column in found.known.items() if name != "model"}
    alike = []
    for column in columns:
        said = [_spell(row.get(column)) for row in found.rows]
        if column in taken or "," in column or len({*said}) < 2:  # noqa: PLR2004
            continue
        equal = sum(a == b and a != "" for a, b in zip(said, wanted, strict=True))
        if equal >= max(1, _ALIKE * len(said)):
            alike.append(column)
    return tuple(alike[:_MOST_ANSWERS])


def _spell(value: Any) -> str:
    if value is None or isinstance(value, list | dict):
        return ""
    text = str(value).strip().casefold()
    return text[:-2] if text.endswith(".0") else text if len(text) <= _LONGEST else ""


def _choose_kind(found: DataMapping) -> DataMapping:
    """Return the mapping as records, or as tasks: what is called answer is then the target."""
    known = found.known
    if found.answers or found.log is not None or any(name in known for name in _OUTCOMES):
        return found
    if "answer" in known and ("target" in known or any(name in known for name in _OF_CALLS)):
        return found
    if "answer" in known and "input" in known:  # questions with their answers
        fields = {**found.fields, "target": known["answer"]}
        fields.pop("answer", None)
        own = tuple(name for name in found.own if name != "answer")
        return replace(found, kind="tasks", fields=fields, own=own)
    if "answer" in known:
        return found
    return replace(found, kind="tasks")


def _find_unused(found: DataMapping, columns: Sequence[str]) -> DataMapping:
    used = {*found.known.values(), *found.answers}
    roots = {re.split(r"[.\[]", path, maxsplit=1)[0] for path in used}
    rest = (column for column in columns if column not in used and column not in roots)
    return replace(found, unused=tuple(rest))


def change_mapping(
    found: DataMapping, fields: Mapping[str, str], answers: Collection[str] = ()
) -> DataMapping:
    """Return the mapping with what a person says: an empty column leaves a field out.

    Raises:
        UsageError: The data has no such column.
    """
    known = list(dict.fromkeys(path for row in found.rows for path in list_paths(row)))
    for name, column in fields.items():
        if name not in FIELDS:
            raise UsageError(f"the record has no field {name}", fix=nearest(name, FIELDS))
        if column and column not in known:
            raise UsageError(f"{found.path}: no column {column}", fix=nearest(column, known))
    for column in answers:
        if column not in known:
            raise UsageError(f"{found.path}: no column {column}", fix=nearest(column, known))
    if answers:
        found = replace(found, answers=tuple(answers))
    chosen = {**found.fields, **fields}
    if found.answers:
        chosen.pop("answer", None)
        chosen.pop("model", None)
    columns = list(dict.fromkeys(column for row in found.rows for column in row))
    own = tuple(n for n in columns if n in FIELDS and n not in chosen and n not in fields)
    own = tuple(name for name in own if name not in chosen.values())
    kept = {name: column for name, column in chosen.items() if column and column != name}
    own = (*own, *(name for name, column in fields.items() if column == name))
    return _find_unused(_choose_kind(replace(found, fields=kept, own=own, kind="records")), columns)


def list_mapping_rows(found: DataMapping) -> Iterator[tuple[str, str, list[str]]]:
    """Yield each field with its column and its first values."""
    first = found.rows[:SHOWN]
    for name, column in found.known.items():
        if not any(isinstance(look_up(row, column), list | dict) for row in first):
            yield name, column, [found.show(row, name) for row in first]
    for column in found.answers:
        values = ["" if row.get(column) is None else str(row[column]) for row in first]
        yield "answer", column, [_SPACE.sub(" ", value) for value in values]

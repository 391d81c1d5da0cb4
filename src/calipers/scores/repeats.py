"""One run recorded twice: rows that are equal in everything, though two real runs would differ.

Two runs of a task differ in their number, their time, their latency or the id of their request.
Rows that carry one of these and are equal in every field are one run that was written twice: a
file that is given twice, or an append that was tried again. Rows that carry nothing of the kind
may be further runs with the same answer.

The records are looked at a second time, and only where the same id, model, tier and run occur more
than once. Sources that cannot be read twice (a pipe, a table of Spark) are not looked at.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from filecmp import cmp
from math import comb, sqrt
from pathlib import Path
from typing import Any

import polars as pl

from calipers.engines.group_codes import hash_texts
from calipers.engines.plan import IDENTITY_FIELDS
from calipers.engines.store import map_in_order
from calipers.records.batch import CHECK, Chunk, Source, UnusualRows, Wanted, select_column
from calipers.records.fields import load_json
from calipers.records.logs.log import Log
from calipers.records.readers.tables import RowList, SourceTable

_UNPAIRED = re.compile("[\ud800-\udfff]")  # half of a surrogate pair: in no column's name
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_RUNS = {"run", "attempt", "trial", "repeat", "repetition", "replicate", "epoch", "iteration"}
_NUMBERS = {"id", "index", "idx", "number", "num", "no", "name"}  # what may follow one of these
_TIMES = {"time", "timestamp", "ts", "datetime", "uuid", "guid"}
_REQUESTS = {"request", "response", "completion", "call", "span", "message", "generation", "event"}
_CALLS = _REQUESTS | {"trace", "invocation", "session", "conversation", "execution"}
_DURATIONS = {"latency", "duration", "elapsed", "ttft"}
_OF_THE_TASK = {"limit", "budget", "max", "min", "zone", "score", "threshold", "target", "expected"}
_WHOLE_DAY = r"^\s*\d{4}[-/.]?\d{1,2}[-/.]?\d{1,2}\s*$"  # on which two runs may well be made
_ALIKE = 10  # times as often as those of any two rows, durations of a task's runs may agree
_PEEKED = 20  # rows
_SAMPLE = 50_000  # rows
_SHOWN = 3  # files, and fields
_SOURCE, _ID, _CALL, _SAME = "_source", "_id", "_call", "_same"


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatedRows:
    """Rows that record a run a second time, what shows it, and where they are."""

    rows: int
    fields: tuple[str, ...]
    sources: tuple[str, ...]

    def __str__(self) -> str:
        what = "1 record equals" if self.rows == 1 else f"{self.rows:,} records equal"
        named = [name for name in self.sources if not name.startswith("<")]
        files = ", ".join(named[:_SHOWN]) + (", …" if len(named) > _SHOWN else "")
        return (
            f"{what} another in every field, {', '.join(self.fields[:_SHOWN])} included: one run "
            f"recorded twice{f' ({files})' if files else ''}; remove the copies, or number the runs"
        )


def find_copies(sources: Sequence[Source]) -> Iterator[str]:
    """Yield which files are given twice, under one name or as copies."""
    by_size: dict[int, list[Source]] = {}
    for source in sources:
        if source.path is None or not (size := Path(source.path).stat().st_size):
            continue
        alike = by_size.setdefault(size, [])
        other = next((candidate for candidate in alike if _is_copy(source, candidate)), None)
        alike.append(source)
        if other is not None:
            is_same = source.name == other.name
            yield (
                f"{source.name} is given twice"
                if is_same
                else f"{source.name} is {other.name} again"
            )


def _is_copy(source: Source, other: Source) -> bool:
    """Return True if two sources are one file; several parts of a file have names of their own."""
    assert source.path is not None
    assert other.path is not None
    if Path(source.path) == Path(other.path):
        return source.name == other.name
    if any(isinstance(each, Log) and each.format.is_folder for each in (source, other)):
        return False  # the files beside it tell a run from another
    return cmp(source.path, other.path, shallow=False)


def find_repeats(
    sources: Sequence[Source], field_map: Mapping[str, str], *, has_ids: bool
) -> RepeatedRows | None:
    """Return the rows that record a run a second time; None where there are none."""
    if not all(map(_can_be_read_again, sources)):
        return None
    every = dict.fromkeys(name for source in sources for name in source.columns())
    columns = [name for name in every if not _UNPAIRED.search(name)]
    inside = [name for source in sources for name in _list_inside(source, columns, field_map)]
    telling = list_telling((*columns, *field_map, *inside))
    if not has_ids:  # rows of other tasks may have the same answer, at the same time
        telling = [name for name in telling if _is_request(name)]
    if not telling:
        return None
    own = [name for name in IDENTITY_FIELDS if name in columns or name in field_map]
    narrow = list(dict.fromkeys((*own, *telling)))
    names = [source.name for source in sources]
    rows = _look(sources, narrow, telling, field_map)
    if _count_repeats(rows, telling, names) is None:
        return None
    alike = _Alike(tuple(narrow), rows[_SAME].filter(rows[_SAME].is_duplicated()).unique())
    whole = list(dict.fromkeys((*narrow, *columns)))
    return _count_repeats(_look(sources, whole, telling, field_map, alike), telling, names)


def _list_inside(
    source: Source, columns: Sequence[str], field_map: Mapping[str, str]
) -> Iterator[str]:
    """Yield the paths into the objects of the first rows, such as `meta.request_id`."""
    wanted = Wanted(tuple(columns), field_map, keys=tuple(columns))
    chunk = next(iter(source.chunks(wanted)), None)
    if chunk is None:
        return
    rows = _read_chunk(chunk).select(pl.col(pl.String))
    for name in rows.columns:
        texts = rows[name].alias("text")
        for text in texts.filter(texts.str.starts_with("{")).head(_PEEKED):
            yield from _list_paths(name, load_json(text))


def _list_paths(path: str, value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from _list_paths(f"{path}.{key}", part)
    elif value is not None:
        yield path


def _can_be_read_again(source: Source) -> bool:
    if getattr(source, "is_of_spark", False):
        return False
    return source.path is not None or isinstance(source, RowList | SourceTable)


def list_telling(columns: Iterable[str]) -> list[str]:
    """Return the fields in which two runs of a task would differ, by their names.

    >>> list_telling(["id", "run", "createdAt", "latency_ms", "time_limit", "meta.request_id"])
    ['run', 'createdAt', 'latency_ms', 'meta.request_id']
    """
    return [name for name in dict.fromkeys(columns) if _is_telling(name)]


def _split_words(name: str) -> list[str]:
    return [word.lower() for word in _WORDS.findall(name.rpartition(".")[2])]


def _is_telling(name: str) -> bool:
    words = _split_words(name)
    distinct = {*words}
    if not words or distinct & _OF_THE_TASK:
        return False
    is_run = words[0] in _RUNS and distinct - _NUMBERS == {words[0]}
    is_call = words[-1] in ("id", "at") and (words[-1] == "at" or bool(distinct & _CALLS))
    is_time = words == ["created"] or bool(distinct & (_TIMES | _DURATIONS))
    return is_run or is_time or (is_call and len(words) > 1)


def _is_request(name: str) -> bool:
    words = _split_words(name)
    return bool({"uuid", "guid"} & {*words}) or (words[-1] == "id" and bool(_REQUESTS & {*words}))


def _is_duration(name: str) -> bool:
    return not _DURATIONS.isdisjoint(_split_words(name))


def _is_of_calls(name: str) -> bool:
    """Return True if it is a time or an id, which might be the task's and not the run's."""
    return not _is_duration(name) and _split_words(name)[0] not in _RUNS


@dataclass(frozen=True, slots=True)
class _Alike:
    """Rows that are equal in some columns, by their hashes: those that may be equal in all."""

    columns: tuple[str, ...]
    hashes: pl.Series

    def write_objects(self, texts: pl.DataFrame) -> pl.DataFrame:
        """Return the texts, with the objects in these rows written in one way."""
        marked = texts.with_columns(hash_texts(*self.columns).is_in(self.hashes).alias(_SAME))
        is_object = pl.col(_SAME) & pl.col(pl.String).str.contains(r"^\s*[\[{]")
        objects = pl.when(is_object).then(pl.col(pl.String))
        written = objects.map_elements(_write_object, pl.String).fill_null(pl.col(pl.String))
        return marked.with_columns(written).drop(_SAME)


def _write_object(text: str) -> str:
    """Return JSON in one way: whatever the order of its keys, with nulls or without."""
    try:
        return json.dumps(_drop_nulls(json.loads(text)), sort_keys=True)
    except (ValueError, RecursionError):
        return text


def _drop_nulls(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _drop_nulls(part) for key, part in value.items() if part is not None}
    if isinstance(value, list):
        return [_drop_nulls(part) for part in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _look(
    sources: Sequence[Source],
    columns: Sequence[str],
    telling: Sequence[str],
    field_map: Mapping[str, str],
    alike: _Alike | None = None,
) -> pl.DataFrame:
    """Return hashes of all rows that carry a telling value: of the columns, and of each value."""
    fields = tuple(dict.fromkeys((*IDENTITY_FIELDS, *columns)))
    wanted = Wanted(fields, field_map, keys=tuple(columns))
    frames: list[pl.DataFrame] = []
    for number, source in enumerate(sources):

        def read(chunk: Chunk, number: int = number) -> pl.DataFrame:
            return _hash_rows(_read_chunk(chunk), columns, telling, number, alike)

        frames += map_in_order(read, source.chunks(wanted), min(8, os.cpu_count() or 1))
    return pl.concat(frames) if frames else pl.DataFrame()


def _read_chunk(chunk: Chunk) -> pl.DataFrame:
    """Return the rows of a chunk; bad ones, which were reported before, are left out."""
    try:
        rows = chunk.lazy().collect(engine="in-memory")
        checks = [name for name in rows.columns if name.startswith(CHECK)]
        if chunk.is_trusted(rows.select(checks)):
            return rows.drop(checks)
    except (pl.exceptions.PolarsError, UnusualRows, ValueError):
        pass
    return chunk.exact().frame


def _hash_rows(
    rows: pl.DataFrame,
    columns: Sequence[str],
    telling: Sequence[str],
    source: int,
    alike: _Alike | None,
) -> pl.DataFrame:
    flags = [name for name, dtype in rows.schema.items() if dtype == pl.Boolean]
    texts = rows.select(_write_text(name, dtype) for name, dtype in rows.schema.items())
    if alike is not None:
        texts = alike.write_objects(texts)
    hashed = texts.select(
        pl.lit(source, pl.UInt32).alias(_SOURCE),
        hash_texts("id").alias(_ID),
        hash_texts("id", "model", "tier").alias(_CALL),
        hash_texts(*columns).alias(_SAME),
        *(_hash_told(name) for name in telling if name not in flags),
        *(pl.lit(None, pl.UInt64).alias(name) for name in telling if name in flags),
    )
    order = (_SOURCE, _ID, _CALL, _SAME, *telling)
    has_any = pl.any_horizontal(select_column(name).is_not_null() for name in telling)
    return hashed[list(order)].filter(has_any)  # by these very names: ^x$ is no pattern


def _write_text(name: str, dtype: pl.DataType) -> pl.Expr:
    if dtype.is_nested():
        return pl.struct(select_column(name)).struct.json_encode().alias(name)
    return select_column(name).cast(pl.String).str.strip_suffix(".0")  # 5 here may be 5.0 elsewhere


def _hash_told(name: str) -> pl.Expr:
    """Return a hash of a value in which runs would differ: no day, and no latency of 0."""
    text = select_column(name)
    is_told = ~text.str.contains(_WHOLE_DAY) & (text.str.strip_chars() != "")
    if _is_duration(name):
        is_told &= text.cast(pl.Float64, strict=False).fill_null(1.0) != 0
    return pl.when(is_told).then(text.hash()).alias(name)


def _count_repeats(
    rows: pl.DataFrame, telling: Sequence[str], names: Sequence[str]
) -> RepeatedRows | None:
    if not rows.height or rows[_SAME].n_unique() == rows.height:
        return None
    own = [name for name in telling if not _is_of_the_task(name, rows)]
    durations = [name for name in own if _is_duration(name)]
    sure = [name for name in own if name not in durations]
    is_sure = pl.any_horizontal(
        pl.lit(value=False), *(select_column(name).is_not_null() for name in sure)
    )
    timed = rows.filter(~is_sure) if sure else rows
    compared = rows.filter(is_sure) if _is_chance(timed, durations) else rows
    again = compared.filter(pl.col(_SAME).is_duplicated())
    if not again.height:
        return None
    carried = [name for name in own if again[name].null_count() < again.height]
    return RepeatedRows(
        rows=again.height - again[_SAME].n_unique(),
        fields=tuple(carried),
        sources=tuple(dict.fromkeys(names[at] for at in sorted(again[_SOURCE].unique()))),
    )


def _is_chance(rows: pl.DataFrame, durations: Sequence[str]) -> bool:
    """Return True if as many rows may well be equal by chance, if only durations tell runs apart.

    Two runs may take equally long, in whole milliseconds say. Where most rows of repeated calls are
    equal, or far more than durations of any two rows, they were written twice.
    """
    again, same = rows.height - rows[_CALL].n_unique(), rows.height - rows[_SAME].n_unique()
    if not same or not durations:
        return True
    if 2 * same > again:
        return False
    some = rows.sample(min(rows.height, _SAMPLE), seed=0)  # enough to see how often two agree
    hashed = some.select(pl.struct(map(select_column, durations)).hash()).to_series()
    share = _count_pairs(hashed) / comb(some.height, 2)
    chance = _ALIKE * share * _count_pairs(rows[_CALL])
    return same <= chance + 3 * sqrt(chance)


def _count_pairs(hashes: pl.Series) -> int:
    """Return how many pairs of rows have the same hash."""
    sizes = hashes.value_counts()["count"].cast(pl.Int64)
    return int((sizes * (sizes - 1) // 2).sum())


def _is_of_the_task(name: str, rows: pl.DataFrame) -> bool:
    """Return True if a time or an id is the task's: the same in all its runs, another in others."""
    if not _is_of_calls(name):
        return False
    known = rows.drop_nulls(name).unique([_ID, _SAME])
    several = known.filter(pl.col(_ID).is_duplicated())
    if not several.height or known[name].n_unique() == 1:
        return False
    return bool(several.group_by(_ID).agg(select_column(name).n_unique() == 1)[name].all())

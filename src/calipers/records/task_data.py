"""A suite's data: tasks as systems are given them, and as records keep them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from math import isfinite, isnan
from pathlib import Path
from typing import Any

from calipers.records.batch import BadRow, Source, Wanted
from calipers.records.column_hints import list_paths, suggest_fields, write_map
from calipers.records.derived_fields import SYNONYMS, TRACE_PARTS
from calipers.records.fields import (
    FIELDS,
    REPORTED,
    Author,
    BadValue,
    Kind,
    Number,
    find_field,
    load_json,
)
from calipers.records.logs.log import log_notices
from calipers.records.readers.lines import JsonLines
from calipers.records.readers.tables import SourceTable, list_parts
from calipers.records.rows import check_field, load_row, read_numbered_lines
from calipers.records.sources import has_records, open_sources
from calipers.support.config import read_config
from calipers.support.errors import DataError, EmptyError, UsageError, nearest
from calipers.support.field_paths import look_up, split_root

Task = Mapping[str, Any]

RUN_NAMES = ("model", "tier", "variant", "run", "prompt")
GIVEN_FIELDS = frozenset(
    (
        *(name for name, field in FIELDS.items() if field.author is Author.TASK),
        *(*RUN_NAMES, "weight", "turns"),
    )
)
"""Fields that only the task or the run gives: a reply cannot change them."""

_TASK_OR_REPLY = ("messages", "checks", "passages")  # a task may come with them
RUN_FIELDS = (
    *(
        n
        for n, field in FIELDS.items()
        if field.author is not Author.TASK and n not in _TASK_OR_REPLY
    ),
    *(*SYNONYMS.values(), *TRACE_PARTS, REPORTED, "simulated_user", "cached"),
)
"""Fields that a run fills: those in the data are from an earlier run."""

_NOT_KEPT = frozenset(RUN_FIELDS)
TASK = "task"
"""The field in which a record keeps columns of the data that the run itself writes."""

_ASKED = ("input", "target")
_LOOKED_AT = 100  # tasks, for the names in a message
_SUFFIXES = (".yaml", ".yml")
_EXAMPLE = "a scenario is a mapping, for example {input: Where is order 1001?, category: edge_case}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tasks:
    """The tasks of a suite, each with an id of its own."""

    tasks: Sequence[Task]
    sha256: str  # of all the data
    notices: tuple[str, ...] = ()
    drawn_from: int | None = None  # how many there were, where these are a sample

    def __len__(self) -> int:
        return len(self.tasks)

    @property
    def own_fields(self) -> frozenset[str]:
        """The fields of the data's own that any task has, and those in which their paths begin."""
        names = {name for task in self.tasks for name, value in task.items() if value is not None}
        own = names.difference(FIELDS, _NOT_KEPT)
        return frozenset((*own, *(split_root(name)[0] for name in own)))

    def keep(self, at: int) -> dict[str, Any]:
        """Return what a record keeps of a task: columns that the run writes as `task.NAME`."""
        task = self.tasks[at]
        kept = {name: value for name, value in task.items() if name not in _NOT_KEPT}
        written = {name: value for name, value in task.items() if name in _NOT_KEPT}
        return {**({TASK: written} if written else {}), **kept}


def read_tasks(path: str | Path, field_map: Mapping[str, str] | None = None) -> Tasks:
    """Return the tasks in a file of records, in any format that is read.

    A folder or glob is several files; a folder of YAML files has a scenario in each. An address
    such as `hf://datasets/…` is read from there. The data's own names of fields, in `field_map`,
    stay in the tasks beside the fields.
    """
    field_map = field_map or {}
    if isinstance(path, Path) and (scenarios := _list_scenarios(path)):
        tasks = [_read_scenario(scenario, field_map) for scenario in scenarios]
        _refuse_unmapped(path, tasks, field_map)
        return _number_tasks(path, tasks, (), _hash_files(scenarios, path))
    sources = open_sources(path) if isinstance(path, Path) else _download(path)
    tasks = [
        _check_task(row, number, source.name)
        for source in sources
        for number, row in _read_rows(source, field_map)
    ]
    if not tasks:
        raise EmptyError(f"{path}: no tasks in it", fix="a record per line, with id and input")
    _refuse_unmapped(path, tasks, field_map)
    return _number_tasks(path, tasks, log_notices(sources), _hash_data(path, sources, tasks))


def _download(address: str) -> list[Source]:
    """Return the sources at an address, whose tables are read from there once."""
    return [
        SourceTable(source.frame().lazy(), source.name)
        if isinstance(source, SourceTable)
        else source
        for source in open_sources(address)
    ]


def _list_scenarios(folder: Path) -> list[Path]:
    """Return the YAML files in a folder of scenarios and in those below it, sorted by path."""
    if not folder.is_dir() or has_records(folder):
        return []
    paths = (path for path in folder.rglob("*") if path.suffix.lower() in _SUFFIXES)
    return sorted(path for path in paths if path.is_file())


def _refuse_unmapped(path: str | Path, tasks: Sequence[Task], field_map: Mapping[str, str]) -> None:
    """Raise UsageError if a name of the data that a field is read from is in no task."""
    for name, theirs in field_map.items():
        if all(task.get(name) is None for task in tasks):
            known = {path for task in tasks[:_LOOKED_AT] for path in list_paths(task)}
            raise UsageError(
                f"map: {name}: no task in {path} has a value in {theirs}",
                fix=nearest(theirs, known - {theirs}),
            )


def _map_fields(row: Any, field_map: Mapping[str, str]) -> Any:
    """Return a row that also has the fields which it gives under other names."""
    if not isinstance(row, Mapping) or not field_map:
        return row
    return {**row, **{name: look_up(row, theirs) for name, theirs in field_map.items()}}


def _read_scenario(path: Path, field_map: Mapping[str, str]) -> Task:
    """Return the scenario in a file, whose name is the id if it gives none; dates become texts."""
    value = read_config(path, example=_EXAMPLE).value
    if not isinstance(value, dict):
        raise DataError(f"{path}: not the fields of one scenario", fix=_EXAMPLE)
    try:
        line = json.dumps({"id": path.stem, **value}, default=str, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise DataError(f"{path}: {error}", fix=_EXAMPLE) from error
    return _check_task(_map_fields(load_row(line.encode())[1], field_map), None, str(path))


def _number_tasks(
    path: str | Path, tasks: list[Task], notices_before: Iterable[str], digest: str
) -> Tasks:
    """Return the tasks, which have an id each, or get a number each."""
    notices = [*notices_before, *_note_dropped(tasks)]
    with_id = sum(task.get("id") is not None for task in tasks)
    if not with_id:
        notices.append("no task has an id: they are numbered in the order of the data")
        tasks = [{"id": str(number), **task} for number, task in enumerate(tasks, 1)]
    elif with_id < len(tasks):
        raise DataError(
            f"{path}: {len(tasks) - with_id} of {len(tasks)} tasks have no id, the others have one",
            fix="give every task an id, or none",
        )
    _refuse_duplicate_ids(tasks, path)
    return Tasks(tasks=tasks, sha256=digest, notices=tuple(notices))


def read_records(
    path: str | Path, *, on_bad: Callable[[DataError], None] | None = None
) -> Iterator[dict[str, Any]]:
    """Yield the records of a file or a glob, one after the other, unchanged.

    A bad row raises, or is left out if `on_bad` is given.
    """
    for source in open_sources(path):
        for number, row in _read_rows(source, {}):
            try:
                _check_task(row, number, source.name)
            except DataError as error:
                if on_bad is None:
                    raise
                on_bad(error)
            else:
                yield {name: _as_python(value, strict=True) for name, value in row.items()}


def _read_rows(source: Source, field_map: Mapping[str, str]) -> Iterator[tuple[int, Any]]:
    if not isinstance(source, JsonLines):
        yield from _read_table_rows(source, field_map)
        return
    source.columns()  # says what is wrong with a file that is none of JSON lines
    for block, _ in source.blocks():
        for number, _, row in read_numbered_lines(block.data, block.first + 1):
            yield number, _map_fields(row, field_map)


def _hash_data(path: str | Path, sources: Sequence[Source], tasks: Sequence[Task]) -> str:
    """Return the hash of the file, of several their names and hashes, of an address its tasks."""
    if isinstance(path, str):
        content = json.dumps(tasks, sort_keys=True, default=str)
        return sha256(content.encode()).hexdigest()
    if path.is_file():
        return sha256(path.read_bytes()).hexdigest()
    files = list_parts(path) if path.is_dir() else []
    return _hash_files(files or [Path(source.name) for source in sources])


def _hash_files(files: Sequence[Path], base: Path | None = None) -> str:
    names = (file.relative_to(base).as_posix() if base else file.name for file in files)
    hashes = (sha256(file.read_bytes()).hexdigest() for file in files)
    lines = (f"{name} {digest}\n" for name, digest in zip(names, hashes, strict=True))
    return sha256("".join(lines).encode()).hexdigest()


_LISTED = (Kind.NAMES, Kind.NESTED, Kind.ITEMS)


def _decode(text: str) -> Any:
    return load_json(text, text) if text[:1] in ("[", "{") else text


def _read_table_rows(source: Any, field_map: Mapping[str, str]) -> Iterator[tuple[int, Any]]:
    number, names = 0, tuple(dict.fromkeys((*source.columns(), *field_map)))
    nested = [name for name in names if find_field(name).kind in _LISTED]
    for chunk in source.chunks(Wanted(names, field_map)):
        batch = chunk.exact()
        yield from ((bad.row, bad) for bad in batch.bad)
        for row in batch.frame.iter_rows(named=True):
            number += 1
            held = {name: _decode(row[name]) for name in nested if isinstance(row[name], str)}
            yield number, row | held


def _check_task(row: Any, number: int | None, path: str) -> Task:
    """Return a task whose fields are as in records; numbers in texts keep their spelling."""
    if isinstance(row, BadRow):
        raise row.make_error()
    if isinstance(row, BadValue):
        raise DataError(f"{path}:{number}: {row}", fix="a JSON object per line")
    place = path if number is None else f"{path}:{number}"
    task = {}
    for name, value in row.items():
        try:
            if name in RUN_FIELDS and name in FIELDS:
                FIELDS[name].read(value)
            else:
                check_field(name, value)
        except BadValue as problem:
            raise DataError(f"{place}: {name}: {problem}", fix="fix it, or remove it") from None
        if value is not None:
            is_text = name in FIELDS and FIELDS[name].kind is Kind.TEXT
            task[name] = str(value) if is_text and isinstance(value, Number) else _as_python(value)
    return task


def _as_python(value: Any, *, strict: bool = False) -> Any:
    """Return Python's own numbers, which systems and prompts can use.

    With `strict`, what JSON can hold: NaN as null, as in records, and infinities as text.
    """
    if isinstance(value, list):
        return [_as_python(part, strict=strict) for part in value]
    if isinstance(value, dict):
        return {key: _as_python(part, strict=strict) for key, part in value.items()}
    plain = json.loads(value) if isinstance(value, Number) else value
    if strict and isinstance(plain, float) and not isfinite(plain):
        return None if isnan(plain) else str(plain)
    return plain


def _note_dropped(tasks: Sequence[Task]) -> Iterator[str]:
    dropped = [name for name in RUN_FIELDS if any(name in task for task in tasks)]
    if dropped:
        kept = ", ".join(f"{TASK}.{name}" for name in dropped)
        yield f"the data's {', '.join(dropped)}: the run writes it; yours is kept as {kept}"


def suggest_target(tasks: Sequence[Task]) -> str:
    """Return how a suite says which of the data's columns holds what an answer should be."""
    columns = list(dict.fromkeys(path for task in tasks[:_LOOKED_AT] for path in list_paths(task)))
    like = suggest_fields(columns)
    if "target" not in like and (answer := "answer" if "answer" in columns else like.get("answer")):
        like["target"] = answer
    if "target" not in like:
        return "map: {target: COLUMN} in the suite names the column"
    return f"{write_map({name: like[name] for name in _ASKED if name in like})} reads it"


def _refuse_duplicate_ids(tasks: Sequence[Task], path: str | Path) -> None:
    seen: dict[str, int] = {}
    for number, task in enumerate(tasks, 1):
        if (first := seen.setdefault(str(task["id"]), number)) != number:
            raise DataError(
                f"{path}: the tasks {first} and {number} have the same id: {task['id']}",
                fix="give each an id of its own; `runs` in the suite repeats tasks",
            )

"""A suite's data: tasks as systems are given them, and as records keep them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from math import isfinite, isnan
from pathlib import Path
from typing import Any

from calipers.records.fields import FIELDS, BadValue, Kind, Number, find_field
from calipers.records.files import has_records
from calipers.records.jsonl import JsonLines
from calipers.records.logs import log_notices
from calipers.records.rows import check_field, load_row, read_rows
from calipers.records.sources import BadRow, Source, Wanted, open_sources
from calipers.records.tables import SourceTable, list_parts
from calipers.support.config.files import read_config
from calipers.support.errors import DataError, EmptyError
from calipers.support.quick_dataclasses import dataclass

Task = Mapping[str, Any]

# Fields that a run fills: those in the data are from an earlier run.
FOUND_OUT = (
    *("model", "tier", "run", "answer", "cot", "prob_correct", "error", "trace", "judgments"),
    *("prompt_tokens", "completion_tokens", "cache_read_tokens", "cache_write_tokens"),
    *("cost_usd", "latency_ms", "duration_seconds", "correct", "passed", "impl_rate"),
    *("observed_behaviors", "violations", "predicted", "finish_reason", "reasoning_tokens"),
    *("usage", "start_time", "end_time", "input_tokens", "output_tokens", "tool_calls"),
    *("agent_interactions", "agent_tasks", "simulated_user"),
)
_NOT_KEPT = frozenset(FOUND_OUT)
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

    def keep(self, at: int) -> dict[str, Any]:
        """Return what a record keeps of a task."""
        return {name: value for name, value in self.tasks[at].items() if name not in _NOT_KEPT}


def read_tasks(path: str | Path) -> Tasks:
    """Return the tasks in a file of records, in any format that is read.

    A folder or glob is several files; a folder of YAML files has a scenario in each. An address
    such as `hf://datasets/…` is read from there.
    """
    if isinstance(path, Path) and (scenarios := _list_scenarios(path)):
        tasks = [_read_scenario(each) for each in scenarios]
        return _number_tasks(path, tasks, (), _hash_files(scenarios, path))
    sources = open_sources(path) if isinstance(path, Path) else _download(path)
    tasks = [
        _check_task(row, number, source.name)
        for source in sources
        for number, row in _read_rows(source)
    ]
    if not tasks:
        raise EmptyError(f"{path}: no tasks in it", fix="a record per line, with id and input")
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
    found = (path for path in folder.rglob("*") if path.suffix.lower() in _SUFFIXES)
    return sorted(path for path in found if path.is_file())


def _read_scenario(path: Path) -> Task:
    """Return the scenario in a file, whose name is the id if it gives none; dates become texts."""
    value = read_config(path, example=_EXAMPLE).value
    if not isinstance(value, dict):
        raise DataError(f"{path}: not the fields of one scenario", fix=_EXAMPLE)
    try:
        line = json.dumps({"id": path.stem, **value}, default=str, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise DataError(f"{path}: {error}", fix=_EXAMPLE) from error
    return _check_task(load_row(line.encode())[1], None, str(path))


def _number_tasks(path: str | Path, tasks: list[Task], told: Iterable[str], digest: str) -> Tasks:
    """Return the tasks, which have an id each, or get a number each."""
    notices = [*told, *_note_dropped(tasks)]
    with_id = sum(task.get("id") is not None for task in tasks)
    if not with_id:
        notices.append("no task has an id: they are numbered in the order of the data")
        tasks = [{"id": str(number), **task} for number, task in enumerate(tasks, 1)]
    elif with_id < len(tasks):
        raise DataError(
            f"{path}: {len(tasks) - with_id} of {len(tasks)} tasks have no id, the others have one",
            fix="give every task an id, or none",
        )
    _refuse_doubles(tasks, path)
    return Tasks(tasks=tasks, sha256=digest, notices=tuple(notices))


def read_records(
    path: str | Path, *, on_bad: Callable[[DataError], None] | None = None
) -> Iterator[dict[str, Any]]:
    """Yield the records of a file or a glob, one after the other, unchanged.

    A bad row raises, or is left out if `on_bad` is given.
    """
    for source in open_sources(path):
        for number, row in _read_rows(source):
            try:
                _check_task(row, number, source.name)
            except DataError as error:
                if on_bad is None:
                    raise
                on_bad(error)
            else:
                yield {name: _as_python(value, strict=True) for name, value in row.items()}


def _read_rows(source: Source) -> Iterator[tuple[int, Any]]:
    if not isinstance(source, JsonLines):
        yield from _read_table_rows(source)
        return
    source.columns()  # says what is wrong with a file that is none of JSON lines
    for block, _ in source.blocks():
        for number, _, row in read_rows(block.data, block.first + 1):
            yield number, row


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
    names = (each.relative_to(base).as_posix() if base else each.name for each in files)
    hashes = (sha256(each.read_bytes()).hexdigest() for each in files)
    lines = (f"{name} {digest}\n" for name, digest in zip(names, hashes, strict=True))
    return sha256("".join(lines).encode()).hexdigest()


def _read_table_rows(source: Any) -> Iterator[tuple[int, Any]]:
    number, names = 0, tuple(source.columns())
    nested = [name for name in names if find_field(name).kind in (Kind.NAMES, Kind.NESTED)]
    for chunk in source.chunks(Wanted(names)):
        batch = chunk.exact()
        yield from ((bad.row, bad) for bad in batch.bad)
        for row in batch.frame.iter_rows(named=True):
            number += 1
            held = {name: json.loads(row[name]) for name in nested if isinstance(row[name], str)}
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
            if name in FOUND_OUT and name in FIELDS:
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
        return [_as_python(each, strict=strict) for each in value]
    if isinstance(value, dict):
        return {key: _as_python(each, strict=strict) for key, each in value.items()}
    found = json.loads(value) if isinstance(value, Number) else value
    if strict and isinstance(found, float) and not isfinite(found):
        return None if isnan(found) else str(found)
    return found


def _note_dropped(tasks: Sequence[Task]) -> Iterator[str]:
    found = [name for name in FOUND_OUT if any(name in task for task in tasks)]
    if found:
        yield f"the data's {', '.join(found)} is left out of the records: the run finds it out"


def _refuse_doubles(tasks: Sequence[Task], path: str | Path) -> None:
    seen: dict[str, int] = {}
    for number, task in enumerate(tasks, 1):
        if (first := seen.setdefault(str(task["id"]), number)) != number:
            raise DataError(
                f"{path}: the tasks {first} and {number} have the same id: {task['id']}",
                fix="give each an id of its own; `runs` in the suite repeats tasks",
            )

"""A suite's data: tasks as systems are given them, and as records keep them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from math import isfinite, isnan
from pathlib import Path
from typing import Any

from calipers.records.fields import FIELDS, BadValue, Kind, Number, field_named
from calipers.records.jsonl import JsonLines, numbered_rows
from calipers.records.logs import log_notices
from calipers.records.parquet_folder import parquet_parts
from calipers.records.sources import BadRow, Source, Wanted, open_sources
from calipers.support.errors import DataError, EmptyError

Task = Mapping[str, Any]

# What a run finds out: what the data says of it is from another one.
FOUND_OUT = (
    *("model", "tier", "run", "answer", "cot", "prob_correct", "error", "trace", "judgments"),
    *("prompt_tokens", "completion_tokens", "cache_read_tokens", "cache_write_tokens"),
    *("cost_usd", "latency_ms", "duration_seconds", "correct", "passed", "impl_rate"),
    *("observed_behaviors", "violations", "predicted", "finish_reason", "reasoning_tokens"),
    *("usage", "start_time", "end_time", "input_tokens", "output_tokens", "tool_calls"),
    *("agent_interactions", "agent_tasks"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tasks:
    """The tasks of a suite, each with an id of its own."""

    tasks: Sequence[Task]
    sha256: str
    notices: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.tasks)

    def kept(self, at: int) -> dict[str, Any]:
        """What a record keeps of a task."""
        return {name: value for name, value in self.tasks[at].items() if name not in FOUND_OUT}


def read_tasks(path: Path) -> Tasks:
    """The tasks in a file of records, in any format that is read; a folder or glob is several."""
    sources = open_sources(path)
    tasks = [
        _checked(row, number, source.name) for source in sources for number, row in _rows(source)
    ]
    if not tasks:
        raise EmptyError(f"{path}: no tasks in it", fix="a record per line, with id and input")
    notices = [*log_notices(sources), *_stale(tasks)]
    with_id = sum(task.get("id") is not None for task in tasks)
    if not with_id:
        notices.append("no task has an id: they are numbered as they stand in the data")
        tasks = [{"id": str(number), **task} for number, task in enumerate(tasks, 1)]
    elif with_id < len(tasks):
        raise DataError(
            f"{path}: {len(tasks) - with_id} of {len(tasks)} tasks have no id, the others have one",
            fix="give every task an id, or none",
        )
    _refuse_doubles(tasks, path)
    return Tasks(tasks=tasks, sha256=_digest(path, sources), notices=tuple(notices))


def read_records(
    path: str | Path, *, on_bad: Callable[[DataError], None] | None = None
) -> Iterator[dict[str, Any]]:
    """The records of a file or a glob, one after the other, as they are.

    A bad row stops, or is left out where somebody is there to be told of it.
    """
    for source in open_sources(path):
        for number, row in _rows(source):
            try:
                _checked(row, number, source.name)
            except DataError as error:
                if on_bad is None:
                    raise
                on_bad(error)
            else:
                yield {name: _strict(_plain(value)) for name, value in row.items()}


def _rows(source: Source) -> Iterator[tuple[int, Any]]:
    return _json_rows(source) if isinstance(source, JsonLines) else _table_rows(source)


def _digest(path: Path, sources: Sequence[Source]) -> str:
    """The hash of the file; of several, that of their names and hashes."""
    if path.is_file():
        return sha256(path.read_bytes()).hexdigest()
    files = parquet_parts(path) if path.is_dir() else []
    files = files or [Path(source.name) for source in sources]
    hashes = (f"{each.name} {sha256(each.read_bytes()).hexdigest()}\n" for each in files)
    return sha256("".join(hashes).encode()).hexdigest()


def _json_rows(source: JsonLines) -> Iterator[tuple[int, Any]]:
    source.columns()  # says what is wrong with a file that is none of JSON lines
    for block, _ in source._blocks():  # noqa: SLF001
        for number, _, row in numbered_rows(block.data, block.first + 1):
            yield number, row


def _table_rows(source: Any) -> Iterator[tuple[int, Any]]:
    number = 0
    for chunk in source.chunks(Wanted(tuple(source.columns()), {})):
        batch = chunk.exact()
        yield from ((bad.row, bad) for bad in batch.bad)
        for row in batch.frame.iter_rows(named=True):
            number += 1
            yield number, {name: _nested(name, value) for name, value in row.items()}


def _nested(name: str, value: Any) -> Any:
    """Lists and objects, which tables of records keep as JSON."""
    nested = field_named(name).kind in (Kind.NAMES, Kind.NESTED)
    return json.loads(value) if nested and isinstance(value, str) else value


def _checked(row: Any, number: int, path: str) -> Task:
    """A task whose fields are as records have them; numbers in texts keep their spelling."""
    if isinstance(row, BadRow):
        raise row.error()
    if isinstance(row, BadValue):
        raise DataError(f"{path}:{number}: {row}", fix="a JSON object per line")
    task = {}
    for name, value in row.items():
        try:
            if name in FIELDS:
                FIELDS[name].read(value)
        except BadValue as problem:
            raise DataError(
                f"{path}:{number}: {name}: {problem}", fix="fix it, or remove it"
            ) from None
        if value is not None:
            is_text = name in FIELDS and FIELDS[name].kind is Kind.TEXT
            task[name] = str(value) if is_text and isinstance(value, Number) else _plain(value)
    return task


def _plain(value: Any) -> Any:
    """Python's own numbers, which systems and prompts can use."""
    if isinstance(value, Number):
        return json.loads(value)
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    return value


def _strict(value: Any) -> Any:
    """What JSON can hold: NaN is a null, as records have it, and what is infinite a text."""
    if isinstance(value, float) and not isfinite(value):
        return None if isnan(value) else str(value)
    if isinstance(value, list):
        return [_strict(each) for each in value]
    if isinstance(value, dict):
        return {key: _strict(each) for key, each in value.items()}
    return value


def _stale(tasks: Sequence[Task]) -> Iterator[str]:
    found = [name for name in FOUND_OUT if any(name in task for task in tasks)]
    if found:
        yield f"the data's {', '.join(found)} is left out of the records: the run finds it out"


def _refuse_doubles(tasks: Sequence[Task], path: Path) -> None:
    seen: dict[str, int] = {}
    for number, task in enumerate(tasks, 1):
        if (first := seen.setdefault(str(task["id"]), number)) != number:
            raise DataError(
                f"{path}: the tasks {first} and {number} have the same id: {task['id']}",
                fix="give each an id of its own; `runs` in the suite repeats tasks",
            )

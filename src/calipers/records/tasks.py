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
from calipers.records.sources import BadRow, Wanted, open_sources
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
    """The tasks in a file of records."""
    source = open_sources(path)[0]
    tasks = [_checked(row, number, path) for number, row in _rows(source, path)]
    if not tasks:
        raise EmptyError(f"{path}: no tasks in it", fix="a record per line, with id and input")
    notices = list(_stale(tasks))
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
    with path.open("rb") as file:
        digest = _digest(file.read())
    return Tasks(tasks=tasks, sha256=digest, notices=tuple(notices))


def read_records(
    path: str | Path, *, on_bad: Callable[[DataError], None] | None = None
) -> Iterator[dict[str, Any]]:
    """The records of a file or a glob, one after the other, as they are.

    A bad row stops, or is left out where somebody is there to be told of it.
    """
    for source in open_sources(path):
        where = Path(source.name)
        for number, row in _rows(source, where):
            try:
                _checked(row, number, where)
            except DataError as error:
                if on_bad is None:
                    raise
                on_bad(error)
            else:
                yield {name: _strict(_plain(value)) for name, value in row.items()}


def _rows(source: Any, path: Path) -> Iterator[tuple[int, Any]]:
    return _json_rows(path) if isinstance(source, JsonLines) else _table_rows(source)


def _digest(content: bytes) -> str:
    return sha256(content).hexdigest()


def _json_rows(path: Path) -> Iterator[tuple[int, Any]]:
    source = JsonLines(path)
    source.columns()  # says what is wrong with a file that is none of JSON lines
    first = 1
    for block, _ in source._blocks():  # noqa: SLF001
        content = block.data
        for number, _, row in numbered_rows(content, first):
            yield number, row
        first += content.count(b"\n")


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


def _checked(row: Any, number: int, path: Path) -> Task:
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

"""Failures become tests: records that fail, are flaky or are flagged, as tasks for a suite.

A task is what was asked and what counts as right: nothing that a system said is in it but its own
earlier turns of a conversation that has no user's turn after them, which are left out too. Records
that ask the same are one task: the same input, or messages, after compatibility forms, case, spaces
and marks at the end are made alike, and the same target and reference.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from unicodedata import normalize

import polars as pl

from calipers.engines.features import measure_records
from calipers.engines.plan import FAILED, Plan
from calipers.metrics import metric_named
from calipers.metrics.declare.settings import Settings
from calipers.metrics.families.answers import correct
from calipers.metrics.families.judged import flagged
from calipers.metrics.families.scenarios import passed
from calipers.records.batch import Source, Wanted
from calipers.records.convert import Converted, list_fields, look_through
from calipers.records.fields import FIELDS, Author, Kind, dump_json, load_json
from calipers.records.logs.log import log_notices
from calipers.records.reading_options import ReadingOptions
from calipers.records.sinks import check_table_place
from calipers.records.sources import open_sources
from calipers.support.errors import EmptyError, UsageError
from calipers.support.files import write_whole

Which = Literal["failing", "flaky", "flagged"]
Progress = Callable[[float], None]
Task = dict[str, Any]

_SUFFIX = ".jsonl"
_INPUT, _MESSAGES, _CHECKS, _TURNS = "input", "messages", "checks", "turns"
_RESULT = "held"  # what a result of a check has, and a check itself has not
_OF_TASKS = tuple(name for name, each in FIELDS.items() if each.author is Author.TASK)
_MORE = ("expected", "repository", _TURNS)  # that readers and suites give tasks beside the record's
_SYSTEM = ("model", "tier", "variant")
_GROUPED = (*_SYSTEM, "id")
_RAN = (*_SYSTEM, "run")
_USED = tuple(dict.fromkeys((*_OF_TASKS, *_MORE, *_RAN, _MESSAGES, _CHECKS, "judgments", "error")))
_VERDICT, _FLAGGED, _FILE = "_verdict", "_flagged_record", "_file"
_SPACE, _END = re.compile(r"\s+"), re.compile(r"[\s.?!:;]+$")
_NAMED = 5  # records in a notice
_JUDGED_BY = {"target", "reference", "expected", "expected_behaviors", "actual", "checks"}
_JSON = (Kind.NAMES, Kind.NESTED, Kind.ITEMS)
_NEEDS = {
    "failing": "no record is known to have failed: `passed` or `correct`, or an answer and a target"
    ", say so",
    "flaky": "no system passed and failed one task: runs of a task have one id",
    "flagged": "no record has a judgment with flags",
}


def write_tasks(
    data: Any, output: Path, which: Which, asked: ReadingOptions, progress: Progress
) -> Converted:
    """Write the tasks of the records that fail, are flaky or are flagged, as lines of JSON.

    Raises:
        UsageError: The file is not to end in .jsonl, or a cluster is asked for.
        EmptyError: No record is such a one, or none of them says what was asked.
    """
    check_table_place(output, "-o")
    if output.suffix != _SUFFIX:
        raise UsageError(f"-o {output}: tasks are lines of JSON", fix=f"-o tasks{_SUFFIX}")
    if asked.engine == "spark":
        raise UsageError("--tasks: not on a cluster", fix="leave --engine spark out")
    sources = look_through(open_sources(data))
    rows, skipped = _read_rows(sources, asked, progress)
    kept = _choose(rows, which)
    if not kept.height:
        raise EmptyError(f"--tasks {which}: {_NEEDS[which]}", fix="calipers score FILES shows them")
    made = _Tasks()
    for row in kept.iter_rows(named=True):
        made.add(row)
    if not made.tasks:
        raise EmptyError(
            f"--tasks {which}: {made.describe_lacking(which)}",
            fix="name the field that was asked: --map input=NAME, or --join the tasks",
        )
    lines = (json.dumps(task, ensure_ascii=False) for task in made.tasks.values())
    write_whole(output, "".join(f"{line}\n" for line in lines).encode("utf-8", "replace"))
    columns = dict.fromkeys(name for task in made.tasks.values() for name in task)
    return Converted(
        path=output,
        records=len(made.tasks),
        skipped=skipped,
        columns=tuple(columns),
        notices=(*log_notices(sources), *made.list_notices(which, rows)),
    )


def _read_rows(
    sources: Sequence[Source], asked: ReadingOptions, progress: Progress
) -> tuple[pl.DataFrame, int]:
    """Return of all records what tasks are made of and whether each passed, and the bad rows."""
    plan = Plan((metric_named("accuracy"), metric_named("pass_rate")), (), Settings())
    frames, skipped = [], 0
    for place, source in enumerate(sources):
        there = {*list_fields(source, asked.map)}
        used = [name for name in _USED if name in there or name in FIELDS]
        wanted = Wanted(tuple(dict.fromkeys((*plan.fields, *used))), asked.map)
        for chunk in source.chunks(wanted):
            batch = chunk.exact()
            if batch.bad and asked.on_bad == "stop":
                raise batch.bad[0].make_error()
            skipped += len(batch.bad)
            frames.append(_narrow(batch.frame, plan, used, source.name))
            progress((place + chunk.done) / len(sources))
    return pl.concat(frames, how="diagonal_relaxed"), skipped


def _narrow(records: pl.DataFrame, plan: Plan, used: Sequence[str], name: str) -> pl.DataFrame:
    measured = measure_records(plan, records).collect(engine="in-memory")
    verdict = pl.when(~pl.col(FAILED)).then(pl.coalesce(passed.name, correct.name))
    flags = records.select(flagged.expression(plan.settings)).to_series()
    return records.select(used).with_columns(
        measured.select(verdict.alias(_VERDICT)).to_series(),
        flags.cast(pl.Boolean).alias(_FLAGGED),
        pl.lit(name).alias(_FILE),
    )


def _choose(rows: pl.DataFrame, which: Which) -> pl.DataFrame:
    """Return the records that make tasks; of a flaky task those that failed."""
    if which == "flagged":
        return rows.filter(_FLAGGED)
    failed = rows.filter(~pl.col(_VERDICT))
    if which == "failing":
        return failed
    good = rows.filter(pl.col(_VERDICT) & pl.col("id").is_not_null()).select(_GROUPED).unique()
    return failed.join(good, on=_GROUPED, how="semi", nulls_equal=True, maintain_order="left")


@dataclass
class _Tasks:
    """The tasks that records make, by what they ask."""

    tasks: dict[str, Task] = field(default_factory=dict)
    lacking: list[str] = field(default_factory=list)  # the ids of records without an input
    ids: Counter[str] = field(default_factory=Counter)
    again: int = 0

    def add(self, row: Mapping[str, Any]) -> None:
        """Take a record; one that asks what another did is the same task."""
        about = {name: _read_value(name, row.get(name)) for name in (*_OF_TASKS, *_MORE)}
        asked = _read_asked(row, about.pop(_TURNS))
        name = str(row["id"]) if row.get("id") is not None else None
        if not asked:
            self.lacking.append(name or "(no id)")
            return
        key = _make_key(asked, about)
        if key in self.tasks:
            self.again += 1
            return
        ran = {part: _read_whole(row.get(part)) for part in ("model", "variant", "run")}
        source = {"file": row[_FILE], "id": name, **ran}
        checks = _read_checks(row.get(_CHECKS))
        task = {
            "id": self._number(name),
            **asked,
            **{name: value for name, value in about.items() if name not in ("id", _INPUT)},
            **({_CHECKS: checks} if checks else {}),
            "source": {part: value for part, value in source.items() if value is not None},
        }
        self.tasks[key] = {part: value for part, value in task.items() if value is not None}

    def _number(self, name: str | None) -> str:
        """Return an id that no other task has."""
        given = name or f"task {len(self.tasks) + 1}"
        self.ids[given] += 1
        made = given
        while self.ids[made] > 1:
            made = f"{given} ({self.ids[given]})"
            self.ids[given] += made in self.ids
            self.ids[made] += 1
        return made

    def describe_lacking(self, which: Which) -> str:
        """Say which records have no input."""
        count = f"{len(self.lacking):,} {which} record{'s' if self.lacking[1:] else ''}"
        return f"{count} without an input or messages: {_name_some(self.lacking)}"

    def list_notices(self, which: Which, rows: pl.DataFrame) -> Iterator[str]:
        """Yield what became of the records that are no tasks of their own, and what tasks lack."""
        open_ended = [each["id"] for each in self.tasks.values() if not _JUDGED_BY & each.keys()]
        if open_ended:
            yield (
                f"nothing to judge an answer by in {len(open_ended):,} "
                f"task{'s' if open_ended[1:] else ''}: {_name_some(open_ended)}: give them a "
                "target, a reference or checks, or the suite checks: or a judge"
            )
        if self.lacking:
            yield f"left out: {self.describe_lacking(which)}"
        if self.again:
            yield f"{self.again:,} records ask what another does, and are the same task"
        broken = int(rows["error"].is_not_null().sum())
        if which != "flagged" and broken:
            yield f"{broken:,} failed calls say nothing of their tasks, and make none"


def _name_some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _read_value(name: str, value: Any) -> Any:
    if value is None or name not in FIELDS:
        return load_json(value, value) if name == _TURNS and isinstance(value, str) else value
    kind = FIELDS[name].kind
    if kind in _JSON and isinstance(value, str):
        return load_json(value, value)
    texts = load_json(value) if kind is Kind.TEXTS and value.startswith("[") else None
    is_list = isinstance(texts, list) and all(isinstance(text, str) for text in texts)
    return texts if is_list else value


def _read_whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _read_asked(row: Mapping[str, Any], turns: Any) -> Task:
    """Return what was asked: the input, else the conversation up to the user's first turn.

    What the user said later are `turns`; what the system said between is left out.
    """
    given = row.get(_MESSAGES)
    messages = load_json(given) if isinstance(given, str) else None
    said = [each for each in messages or () if isinstance(each, dict)]
    users = [at for at, each in enumerate(said) if each.get("role") == "user"]
    later = [text for at in users[1:] if (text := _read_content(said[at]))]
    further = turns if isinstance(turns, list) and turns else later
    more = {_TURNS: further} if further else {}
    if isinstance(row.get(_INPUT), str) and row[_INPUT].strip():
        return {_INPUT: row[_INPUT], **more}
    if not users or not _read_content(said[users[0]]):
        return {}
    before = [each for each in said[: users[0]] if each.get("role") in ("system", "developer")]
    return {_MESSAGES: [*before, said[users[0]]], **more}


def _read_content(message: Mapping[str, Any]) -> str | None:
    content = message.get("content")
    if isinstance(content, str):
        return content.strip() or None
    parts = [each.get("text") for each in content or () if isinstance(each, dict)]
    return "\n".join(part for part in parts if isinstance(part, str)) or None


def _read_checks(value: Any) -> list[Any] | None:
    """Return the checks of a task: results of checks, which a run writes, are none."""
    found = load_json(value) if isinstance(value, str) else None
    checks = found if isinstance(found, list) else []
    own = [each for each in checks if isinstance(each, dict) and {"expect", "forbid"} & each.keys()]
    return [each for each in own if _RESULT not in each] or None


def _make_key(asked: Task, about: Mapping[str, Any]) -> str:
    """Return what is the same for two tasks that ask and expect the same."""
    expected = [about.get(name) for name in ("target", "reference", "expected")]
    texts = [*asked.values(), *expected]
    return dump_json(
        [fold(each if isinstance(each, str) else dump_json(each)) for each in texts if each]
    )


def fold(text: str) -> str:
    """Return a text whose near-duplicates have the same.

    >>> fold("What is  2 + 2 ?") == fold("what is 2 + 2")
    True
    >>> fold("2 + 2?") == fold("2 - 2?")
    False
    """
    return _END.sub("", _SPACE.sub(" ", normalize("NFKC", text).casefold())).strip()

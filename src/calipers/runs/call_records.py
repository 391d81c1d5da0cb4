"""The record of a call: the fields that a reply gives, and the results of its checks.

A system's own word decides nothing unless the suite trusts it: what it reports of itself is kept
apart, under `reported`. Checks run on each record as it comes in, and again if they have changed; a
result has `reported` if the record reports the same, so that results can be removed again.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calipers.judges.judge_spec import JudgeSpec
from calipers.metrics.checks.check import NamedCheck
from calipers.metrics.checks.checks import (
    EXPECTED,
    LISTS,
    OBSERVED,
    RESULTS,
    SELF_REPORTED,
    VIOLATED,
    Checks,
    list_overruled,
    read_checks,
)
from calipers.metrics.checks.kinds.external import Judged, Python
from calipers.metrics.declare.settings import Settings
from calipers.records.batch import Wanted
from calipers.records.derived_fields import (
    DERIVED,
    SYNONYMS,
    TIMES,
    TRACE,
    TRACE_PARTS,
    complete_row,
)
from calipers.records.fields import FIELDS, REPORTED, Author, BadValue, Kind
from calipers.records.rows import check_field, check_rows, classify_scalar, find_scalar_types
from calipers.records.task_data import GIVEN_FIELDS, RUN_FIELDS, TASK, Task, Tasks
from calipers.runs.plan import require_field
from calipers.runs.suite import Suite
from calipers.support.errors import DataError, UsageError, nearest
from calipers.support.field_paths import look_up, split_root
from calipers.support.user_code import LocalImports
from calipers.systems.calls import KINDS, Call, Fault, Reply
from calipers.systems.conversations import SIMULATED_USER
from calipers.systems.http import MOST_BYTES
from calipers.systems.journal import CACHED, encode_record
from calipers.systems.reply_text import (
    AnswerRule,
    average_confidence,
    read_confidence,
    split_thought,
)

if TYPE_CHECKING:
    from calipers.runs.prepare import Prepared

# What a system cannot say of itself: it is kept as reported. All else that it says is its own.
_VERDICTS = frozenset(
    (
        *(
            name
            for name, field in FIELDS.items()
            if field.author in (Author.HARNESS, Author.VERDICT)
        ),
        *(REPORTED, SIMULATED_USER, CACHED, TASK, "attempts"),
    )
) - {"error"}
_FOUND_OUT = frozenset(RUN_FIELDS)
_GIVES_OTHERS = frozenset((TRACE, *TRACE_PARTS, *TIMES, *SYNONYMS.values()))
_MOST_FIELDS = 1000  # each may become a column of a table
_SHOWN_NAMES = 8  # names in a notice
_SHORT = 1000  # characters
_LARGE = 1 << 53
_DEEPEST = 100  # levels of lists and objects in a field


class ReplyReader:
    """Turns the replies of a suite's systems into fields of records.

    A system's own word decides nothing unless the suite trusts it: verdicts, times, and fields of
    the user's own that metrics, rules or checks read (`deciding`) are kept as reported. So is what
    tasks have (`given`), even where this task has none: a system cannot add to its own task.
    """

    def __init__(
        self,
        suite: Suite,
        deciding: Collection[str] = (),
        given: Collection[str] = (),
        predicted: type | None = None,
    ) -> None:
        answer = suite.answer
        self._rule = AnswerRule() if answer is None else AnswerRule(answer.after, answer.regex)
        self._asks = suite.confidence is not None and suite.confidence.ask
        self._weighs = suite.confidence is not None and suite.confidence.logprobs
        self._splits = suite.split_thinking
        own_word = (name for name, field in FIELDS.items() if field.author is Author.SYSTEM)
        self._reported = _VERDICTS.union(deciding).difference(own_word, suite.trust).union(given)
        self._predicted = predicted  # the type of what was predicted first

    def read_fields(self, call: Call, reply: Reply) -> dict[str, Any]:
        """Return the fields that a reply gives, as `score` will read them.

        Raises a Fault for a reply that reports an error, and a `bad_response` for one that `score`
        would refuse, so that it spoils its own record and no other.
        """
        given, reported = self._split_fields(call, reply.fields)
        fields = _check_fields(given)
        if (error := fields.pop("error", None)) not in (None, "", False):
            raise _make_fault(str(error))
        if reported:
            fields[REPORTED] = _check_reported(reported)
        self._check_prediction(fields.get("predicted"))
        if reply.messages and "messages" not in fields:
            fields["messages"] = list(reply.messages)
        if reply.text is None:
            return fields
        _refuse_too_long(reply.text)
        return {**self._read_text(reply.text, reply), **fields}

    def _split_fields(
        self, call: Call, given: Mapping[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the fields of a reply that count, and those that are only reported.

        Raises a Fault for one that is the task's and says something else.
        """
        if len(given) > _MOST_FIELDS:
            raise Fault("bad_response", f"more than {_MOST_FIELDS:,} fields")
        counted, reported = {}, {}
        for name, value in given.items():
            if _is_given(name, value, call):
                if value is not None and value != call.record.get(name):
                    raise Fault(
                        "bad_response", f"{name} is not what was given, but {value!r}", most=200
                    )
            elif not self._is_reported(name) or (name == SIMULATED_USER and call.user is not None):
                counted[name] = value
            elif value is not None:
                reported[name] = value
        return counted, reported

    def _is_reported(self, name: str) -> bool:
        """Return True if a field decides nothing; `order.id` would hide what is inside `order`."""
        root, path = split_root(name)
        return name in self._reported or (path != "" and root in (self._reported | GIVEN_FIELDS))

    def _check_prediction(self, predicted: Any) -> None:
        """Refuse a prediction of another type than the first: a column has one type."""
        kind = classify_scalar(predicted)
        self._predicted = self._predicted or kind
        if kind is not None and kind is not self._predicted:
            raise Fault("bad_response", "predicted: of another type than in the replies before")

    def _read_text(self, text: str, reply: Reply) -> dict[str, Any]:
        """Return what the text contains: answer, chain of thought, confidence."""
        probability, thought = None, reply.reasoning
        if self._splits:
            text, aloud = split_thought(text)
            thought = aloud if thought is None else thought
        if self._asks:
            text, probability = read_confidence(text)
        answer, cot = self._rule.read(text)
        fields: dict[str, Any] = {"answer": answer}
        if thought is not None and cot:
            fields["output"] = text  # the cot is the provider's, and the text must not be lost
        if (cot := cot if thought is None else thought) is not None:
            fields["cot"] = cot
        if self._weighs:
            probability = average_confidence(answer, reply.logprobs)
        if probability is not None:
            fields["prob_correct"] = probability
        return fields


def note_reported(of: Prepared, counts: Mapping[str, int]) -> Iterator[str]:
    """Yield what systems have reported of themselves, and how to let it count where it may."""
    names = sorted(name for name, count in counts.items() if count > 0)
    if names:
        shown, more = names[:_SHOWN_NAMES], len(names) - _SHOWN_NAMES
        quoted = ", ".join(f"`{name}`" for name in shown) + (
            f" and {more} more" if more > 0 else ""
        )
        trusting = next((name for name in names if of.find_distrust(name) is None), None)
        how = f"; `trust: [{trusting}]` in the suite lets it count" if trusting else ""
        yield (
            f"systems reported {quoted} of themselves: kept as `{REPORTED}.NAME`, counts for "
            f"nothing{how}"
        )


def _check_fields(given: Mapping[str, Any]) -> dict[str, Any]:
    fields = {}
    for name, value in given.items():
        if _is_plain(name, value):
            fields[name] = value
            continue
        try:
            _refuse_deep(value)
            check_field(name, value)
        except BadValue as problem:
            raise Fault("bad_response", f"{name}: {problem}") from None
        except (ValueError, TypeError, OverflowError, RecursionError) as problem:
            raise Fault("bad_response", f"{name}: {problem}") from None
        if not _is_nan(value):
            fields[name] = value
    _check_derived(fields)
    _check_json(fields)
    return fields


def _check_reported(reported: dict[str, Any]) -> dict[str, Any]:
    """Return what a system reports of itself; raise a Fault for what no record can hold."""
    try:
        _refuse_deep(reported)
    except (BadValue, RecursionError) as problem:
        raise Fault("bad_response", f"{', '.join(reported)}: {problem}", most=200) from None
    reported = {str(name): value for name, value in reported.items() if not _is_nan(value)}
    _check_json(reported)
    return reported


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _check_derived(fields: Mapping[str, Any]) -> None:
    """Raise a Fault for fields that give others, such as a trace, which are then wrong."""
    if fields.keys().isdisjoint(_GIVES_OTHERS):
        return
    try:
        check_field(TRACE, complete_row(fields, DERIVED).get(TRACE))
    except BadValue as problem:
        raise Fault("bad_response", str(problem)) from None


def _check_json(fields: Mapping[str, Any]) -> None:
    """Raise a Fault for fields that are no JSON, or too long."""
    if all(map(_is_small, fields.values())):
        return
    try:
        line = encode_record(fields)
    except (ValueError, TypeError, RecursionError) as problem:
        raise Fault("bad_response", f"no JSON: {problem}") from None
    _refuse_too_long(line)


def _is_plain(name: str, value: Any) -> bool:
    """Return True if a field holds a usual value, which needs no further check."""
    field = FIELDS.get(name)
    if field is None:
        return False
    if field.kind is Kind.NUMBER:
        return type(value) is int and max(field.low, -_LARGE) <= value <= min(field.high, _LARGE)
    return field.kind is Kind.TEXT and type(value) is str


def _is_small(value: Any) -> bool:
    """Return True if a value is a short text or a count, which are JSON for certain."""
    if type(value) is str:
        return len(value) < _SHORT and value.isascii()
    return type(value) is int and abs(value) < _LARGE


def _is_given(name: str, value: Any, call: Call) -> bool:
    """Return True if a field is the task's: by its name, or because the task has it."""
    given = call.record.get(name)
    if name == "messages" and isinstance(given, list) and isinstance(value, list):
        return value[: len(given)] != given  # a conversation may go on
    return name in GIVEN_FIELDS or (name not in _FOUND_OUT and given is not None)


def _refuse_deep(value: Any, level: int = 0) -> None:
    if level > _DEEPEST:
        raise BadValue("nested too deep")
    if isinstance(value, Mapping):
        value = value.values()
    elif not isinstance(value, list | tuple):
        return
    for part in value:
        _refuse_deep(part, level + 1)


def _refuse_too_long(text: str) -> None:
    """Raise a Fault for a text longer than a server or command may send."""
    if len(text) > MOST_BYTES:
        raise Fault("bad_response", f"a reply of more than {MOST_BYTES >> 20} MiB")


def _make_fault(error: str) -> Fault:
    kind, colon, message = error.partition(":")
    if colon and kind in KINDS:
        return Fault(kind, message.strip())  # type: ignore[arg-type]
    return Fault("exception", error)


Record = dict[str, Any]


class RecordChecks:
    """The checks of a suite and of its tasks."""

    def __init__(self, suite: Suite, tasks: Tasks, base: Path) -> None:
        self._of_suite = Checks(tuple(suite.checks))
        self._tasks = {str(task["id"]): task for task in tasks.tasks}
        self._of_tasks = {
            name: read_checks(
                task[RESULTS], base=base, source=f"{suite.data}: task {task['id']}: checks"
            )
            for name, task in self._tasks.items()
            if task.get(RESULTS)
        }
        self._base = base
        self._refuse_unknown_judges(suite.judges)
        self._refuse_unknown_fields(tasks)

    def __bool__(self) -> bool:
        return bool(self._of_suite or self._of_tasks)

    def __call__(self, record: Record) -> Record:
        """Return a record with the lists that its checks fill, and their results."""
        name = str(record["id"])
        plain = _drop_results(record, self._tasks.get(name, {}))
        checks = self._of_suite + self._of_tasks.get(name, Checks(()))
        if not checks or record.get("error") is not None:
            return plain
        checked = apply_checks(checks, plain)
        own = {name for key in (OBSERVED, VIOLATED) for name in plain.get(key) or ()}
        for result in checked[RESULTS]:
            if result["name"] in own:
                result[SELF_REPORTED] = True
        return {**plain, **checked}

    def hash(self) -> str | None:
        """Return a hash of the suite's checks and of the code that they call."""
        if not self._of_suite:
            return None
        written = json.dumps([check.written for check in self._of_suite.checks])
        files = sorted(path for path in self._list_files() if path.is_file())
        hashes = (sha256(path.read_bytes()).hexdigest() for path in files)
        return sha256("\n".join((written, *hashes)).encode()).hexdigest()

    def _list_files(self) -> Iterator[Path]:
        """Yield the files that the checks depend on: functions with what they import, schemas."""
        for check in self._of_suite.checks:
            if isinstance(check.test, Python):
                file = (self._base / check.test.reference.rpartition(":")[0]).resolve()
                yield from LocalImports((file.parent, self._base.resolve())).find_reached(file)
            named = json.loads(check.written).get(check.test.key)
            if check.test.key == "json_schema" and isinstance(named, str):
                yield self._base / named

    def _refuse_unknown_judges(self, judges: list[JudgeSpec]) -> None:
        known = {name for judge in judges for name in (judge.name, judge.rubric)}
        for checks in (self._of_suite, *self._of_tasks.values()):
            for check in checks.checks:
                if isinstance(check.test, Judged) and (rubric := check.test.rubric) not in known:
                    none = "judges: [{name: …, model: …, rubric: …}]"
                    raise UsageError(
                        f"the check {check.name}: no judge of the suite has the rubric {rubric}",
                        fix=nearest(rubric, known) if known else none,
                    )

    def _refuse_unknown_fields(self, tasks: Tasks) -> None:
        """Refuse a check that names a field which no task has, before anything is paid for."""
        for check in self._of_suite.checks:
            _require_in_any(check, tasks.tasks)
        for name, checks in self._of_tasks.items():
            for check in checks.checks:
                _require_in_any(check, [self._tasks[name]])


def _require_in_any(check: NamedCheck, tasks: Sequence[Task]) -> None:
    """Raise UsageError if a check names a field that none of the tasks has."""
    for name in Checks((check,)).task_fields:
        of_task = name.removeprefix(f"{TASK}.")
        names = (name, of_task)
        if not any(look_up(task, given) is not None for task in tasks for given in names):
            require_field(tasks[0], name, f"the check {check.name}")


def apply_checks(checks: Checks, record: Mapping[str, Any]) -> Record:
    """Return the lists that checks fill for a record, read as `score` reads it, and all results.

    Raises:
        DataError: A field of the record is not what its name says.
    """
    checks = checks.restrict(tuple(record))
    wanted = Wanted(tuple(dict.fromkeys((*checks.fields, RESULTS))))
    batch = check_rows([(1, "", record)], wanted, "record", find_scalar_types([record], wanted))
    if batch.bad:
        raise DataError(f"a record cannot be checked: {batch.bad[0].problem}", fix="fix the system")
    row = checks.apply(batch.frame, Settings(), details=True).row(0, named=True)
    return {name: json.loads(row[name]) for name in (*LISTS, RESULTS) if row.get(name) is not None}


def _drop_results(record: Record, task: Mapping[str, Any]) -> Record:
    """Return a record as its system gave it, without the results of earlier checks."""
    results = [result for result in record.get(RESULTS) or () if "held" in result]
    ours = {result["name"] for result in results if not result.get(SELF_REPORTED)}
    rest = {name: value for name, value in record.items() if name not in (RESULTS, EXPECTED)}
    lists = {OBSERVED: list_overruled(results), VIOLATED: []} if results else {}
    for name, overruled in lists.items():
        kept = [name_ for name_ in record.get(name) or () if name_ not in ours]
        rest.pop(name, None)
        if kept or overruled:
            rest[name] = list(dict.fromkeys((*kept, *overruled)))
    if (expected := task.get(EXPECTED)) is not None:
        rest[EXPECTED] = expected
    return rest

"""Checks of a run: each record is checked as it comes in, and again if the checks have changed.

What the system under test reports itself is kept apart: a result has `reported` if the record
reports the same, so that results of checks can be removed from a record again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from calipers.judges.spec import JudgeSpec
from calipers.metrics.checks.checks import Checks, read_checks
from calipers.metrics.checks.combining import EXPECTED, LISTS, OBSERVED, REPORTED, RESULTS, VIOLATED
from calipers.metrics.checks.kinds.own import Judged, Python
from calipers.metrics.declare.settings import Settings
from calipers.records.batch import Wanted
from calipers.records.fields import FIELDS
from calipers.records.rows import check_rows, find_scalar_types
from calipers.records.tasks import Tasks
from calipers.runs.plan import require_field
from calipers.runs.suite import Suite
from calipers.support.errors import DataError, UsageError, nearest
from calipers.support.local_imports import LocalImports

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
        if all(system.model for system in suite.systems):
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
        found = apply_checks(checks, plain)
        own = {name for each in (OBSERVED, VIOLATED) for name in plain.get(each) or ()}
        for each in found[RESULTS]:
            if each["name"] in own:
                each[REPORTED] = True
        return {**plain, **found}

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
        """Refuse a check that names a field which a task lacks, before anything is paid for."""
        for check in self._of_suite.checks:
            for name in check.fields:
                for task in () if name in FIELDS or isinstance(check.test, Python) else tasks.tasks:
                    require_field(task, name, f"the check {check.name}")


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
    results = [each for each in record.get(RESULTS) or () if "held" in each]
    ours = {each["name"] for each in results if not each.get(REPORTED)}
    found = {name: value for name, value in record.items() if name not in (RESULTS, EXPECTED)}
    for name in (OBSERVED, VIOLATED) if results else ():
        kept = [each for each in record.get(name) or () if each not in ours]
        found.pop(name, None)
        if kept:
            found[name] = kept
    if (expected := task.get(EXPECTED)) is not None:
        found[EXPECTED] = expected
    return found

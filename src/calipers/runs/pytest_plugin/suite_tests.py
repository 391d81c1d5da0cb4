"""Suite files as tests: one test per scenario, and one for the suite's policy.

A suite's calls are made once in a session. Workers of xdist share a folder: the first that needs a
suite makes the calls and leaves the results there; the others wait, and read them.
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from calipers.gates.policy import read_policy
from calipers.gates.result import GateResult
from calipers.records.result_folder import RECORDS
from calipers.runs.missing_answers import INTERRUPTED
from calipers.runs.prepare import Prepared, choose_tasks, prepare_file, read_suite_options
from calipers.runs.pytest_plugin import MARKER, NOTE, PASSED, RESULTS, is_named, session_folder
from calipers.runs.pytest_plugin.fixture import list_failures
from calipers.runs.run import run_suite, start_folder
from calipers.scores.score import score_data
from calipers.support.errors import CalipersError, UsageError
from calipers.support.files import write_whole

Record = Mapping[str, Any]
_MOST_SHOWN = 500  # characters of a text
_METRICS = ("pass_rate", "accuracy")
_SAY = ("passed", "correct")  # `correct` where `passed` is unknown
_ENDED = "the suite was run in another process of this session, which ended without results"
_READ_FIRST_FAILURE = "see the first failure of this suite; its calls are not made twice"
_UNDECIDED = "nothing decides whether it passed: no check, target, judge or `passed`"


@dataclass(frozen=True, slots=True)
class Scenario:
    """A task, asked of one system in one tier."""

    name: str  # of its test
    task: str
    keywords: tuple[str, ...]  # that `pytest -k` finds it by


class SuiteRun:
    """A suite that is read when tests are collected, and called when the first is run."""

    def __init__(self, path: Path, config: pytest.Config) -> None:
        self._ready = prepare_file(path)
        suite = self._ready.suite
        policy = None if suite.policy is None else read_policy(self._ready.base / suite.policy)
        rules = () if policy is None else policy.rules
        self._required = {
            scenario for rule in rules if not rule.only_warns for scenario in rule.scenarios
        }
        self.has_policy = policy is not None
        self._config = config
        self._key = sha256(str(path.resolve()).encode()).hexdigest()[:16]
        self._found: dict[str, Any] | None = None
        self._error: BaseException | None = None
        self.has_told = False  # its notices, by one of its tests

    @property
    def scenarios(self) -> Iterator[Scenario]:
        """Yield the scenarios, in the order of the tasks."""
        suite = self._ready.suite
        for task in self._ready.plan.tasks.tasks:
            tags = task.get("tags") or ()
            tags = tags if isinstance(tags, list | tuple) else (tags,)
            labels = (task.get("category"), task.get("capability"), *tags)
            keywords = tuple(str(label) for label in labels if label is not None)
            for system in suite.systems:
                for tier in self._ready.plan.tiers:
                    names = (system.name, None if tier is None else tier.name)
                    yield Scenario(
                        _name_scenario(task["id"], *names, self._ready), str(task["id"]), keywords
                    )

    def results(self, tasks: Collection[str] | None) -> dict[str, Any]:
        """Return the outcome of every scenario, after the calls that these tasks (None: all) need.

        The suite is run once in a session, however that ends: calls cost money.

        Raises:
            CalipersError: The suite cannot be run; each of its tests says so.
            BaseException: Whatever else ended the run, again for each of its tests.
        """
        if self._error is not None:
            raise self._error.with_traceback(None)
        if self._found is None:
            try:
                self._found = self._run_once(tasks)
            except BaseException as error:
                self._error = error
                raise
        return self._found

    def _run_once(self, tasks: Collection[str] | None) -> dict[str, Any]:
        """Return what the run of this session has found, whichever of its processes ran it."""
        shared = session_folder(self._config)
        kept, begun = shared / f"{self._key}.json", shared / f"{self._key}.begun"
        with _hold_lock(shared / f"{self._key}.lock"):
            if not kept.exists():
                if begun.exists():
                    raise UsageError(_ENDED, fix=_READ_FIRST_FAILURE)
                begun.touch()
                write_whole(kept, json.dumps(self._run(tasks)), private=True)
            results: dict[str, Any] = json.loads(kept.read_bytes())
        return results

    def _run(self, tasks: Collection[str] | None) -> dict[str, Any]:
        ready = self._ready if tasks is None else choose_tasks(self._ready, tasks)
        folder = start_folder(ready.suite)
        result = run_suite(ready, folder, lambda _: nullcontext(), report=False)
        if result.stopped == INTERRUPTED:
            raise KeyboardInterrupt
        scenarios = {
            _name_scenario(outcome.id, outcome.model, outcome.tier, ready): {
                "passed": outcome.passed,
                "head": outcome.head,
                "text": outcome.text,
                # Where the policy is tested too, a scenario fails only if the policy requires it.
                "excused": result.gate is not None and outcome.id not in self._required,
            }
            for outcome in _read_outcomes(ready, folder)
        }
        return {
            "scenarios": scenarios,
            "policy": None if result.gate is None else _describe_verdict(result.gate),
            "folder": str(folder),
            "stopped": result.stopped,
            "notices": list(result.notices),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioOutcome:
    """The runs of one task by one system in one tier."""

    id: str
    model: str
    tier: str | None
    runs: Sequence[tuple[Record, bool | None]]  # each with whether it passed

    @property
    def passed(self) -> bool:
        """Return True if every run passed."""
        return all(passed for _, passed in self.runs)

    @property
    def head(self) -> str:
        """Return how many runs passed."""
        count = sum(bool(passed) for _, passed in self.runs)
        return f"passed in {count} of {len(self.runs)} runs" if len(self.runs) > 1 else "failed"

    @property
    def text(self) -> str:
        """Return what went wrong in each run that did not pass."""
        lines = [f"{self.id}: {self.head}"]
        for record, passed in self.runs:
            if not passed:
                lines += [f"run {record.get('run')}:"] if len(self.runs) > 1 else []
                lines += [f"  {line}" for line in _describe_failure(record, passed)]
        return "\n".join(lines)


def _read_outcomes(ready: Prepared, folder: Path) -> Iterator[ScenarioOutcome]:
    records = _read_lines(folder / RECORDS)
    verdicts = _read_verdicts(ready, folder / RECORDS, len(records))
    outcomes: dict[tuple[str, str, str | None], list[tuple[Record, bool | None]]] = {}
    for record, passed in zip(records, verdicts, strict=True):
        key = (str(record["id"]), record["model"], record.get(ready.suite.condition_field))
        outcomes.setdefault(key, []).append((record, passed))
    for (task, model, tier), runs in outcomes.items():
        runs.sort(key=lambda outcome: outcome[0].get("run") or 0)
        yield ScenarioOutcome(id=task, model=model, tier=tier, runs=runs)


def _read_verdicts(ready: Prepared, records: Path, count: int) -> list[bool | None]:
    """Return whether each record passed or, where nothing says so, whether it is right."""
    with TemporaryDirectory(prefix="calipers-") as folder:
        rows = Path(folder) / "rows.jsonl"
        options = read_suite_options(ready.suite, ready.base, metrics=_METRICS)
        score_data(str(records), replace(options, per_sample=rows))
        scored = _read_lines(rows)
    assert len(scored) == count
    return [next((row[name] for name in _SAY if row.get(name) is not None), None) for row in scored]


def _read_lines(path: Path) -> list[Record]:
    """Return the records of a file; a line ends at a line feed, and not at U+2028 in a text."""
    return [json.loads(line) for line in path.read_bytes().split(b"\n") if line]


def _describe_failure(record: Record, passed: bool | None) -> Iterator[str]:  # noqa: FBT001
    """Yield the lines that say what was asked, what came back, and what was looked for."""
    for name in ("input", "error", "answer", "target"):
        if record.get(name) is not None:
            yield f"{name}: {_format_text(record[name])}"
    yield from list_failures(record.get("checks") or ())
    if passed is None and record.get("error") is None:
        yield _UNDECIDED


def _format_text(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"


def _describe_verdict(gate: GateResult) -> dict[str, Any]:
    failed = [check.name for check in gate.checks if check.blocks]
    why = "; ".join((*gate.incomplete, *failed))
    line = f"the gate says {gate.verdict}" + (f": {why}" if why else "")
    return {"passed": gate.passed, "line": line, "text": f"{line}\n{gate}"}


def _name_scenario(task: Any, system: str, tier: str | None, ready: Prepared) -> str:
    """Return the name of a scenario's test, with system and tier where there are several."""
    several = (len(ready.suite.systems) > 1, len(ready.plan.tiers) > 1)
    given = [name for name, is_needed in zip((system, tier), several, strict=True) if is_needed]
    return f"{task}[{'-'.join(str(value) for value in given)}]" if given else str(task)


@contextmanager
def _hold_lock(lock: Path) -> Iterator[None]:
    """Wait until no other worker of this session holds the lock."""
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


POLICY = "policy"  # the test that the whole suite has to pass
_LARGEST = 1 << 20  # bytes of a suite


def collect_suite(
    path: Path, parent: pytest.Collector, patterns: Sequence[str]
) -> SuiteFile | None:
    """Return the suite in a file; None for a file that nobody has named as one.

    A file that the command line names has to look like a suite, so that other plug-ins keep theirs.
    """
    root = parent.config.rootpath
    place = path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)
    is_listed = any(fnmatch(place, pattern) for pattern in patterns)
    if is_listed or (is_named(path, parent.config) and _is_like_a_suite(path)):
        return SuiteFile.from_parent(parent, path=path)
    return None


def _is_like_a_suite(path: Path) -> bool:
    from calipers.support.config import read_config  # noqa: PLC0415 (loads YAML)

    try:
        document = path.stat().st_size <= _LARGEST and read_config(path, example="").value
    except (CalipersError, OSError):
        return False
    return isinstance(document, dict) and {"data", "systems"} <= document.keys()


class SuiteFile(pytest.File):
    """A suite; its scenarios are called together, when the first of them is run."""

    run: SuiteRun

    def collect(self) -> Iterator[pytest.Item]:
        """Yield a test per scenario and system, and one for the policy."""
        try:
            self.run = SuiteRun(self.path, self.config)
        except CalipersError as error:
            raise self.CollectError(f"{error.message}\n{error.fix}") from error
        for scenario in self.run.scenarios:
            item = ScenarioItem.from_parent(self, name=scenario.name)
            item.extra_keyword_matches.update(scenario.keywords)
            item.task = scenario.task
            yield item
        if self.run.has_policy:
            yield PolicyItem.from_parent(self, name=POLICY)


class _SuiteItem(pytest.Item):
    """A test of a suite."""

    parent: SuiteFile
    task: str | None = None  # whose calls it needs; None: those of all

    def reportinfo(self) -> tuple[Path, int | None, str]:
        return self.path, None, f"{self.path.name}: {self.name}"

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Return the message of a failure; with a traceback only for a bug."""
        if isinstance(excinfo.value, CalipersError):
            return f"{excinfo.value.message}\n{excinfo.value.fix}"
        if isinstance(excinfo.value, AssertionError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def _call_chosen(self) -> dict[str, Any]:
        """Return the results of the tests that were chosen, after calling what they need."""
        chosen = [
            item
            for item in self.session.items
            if isinstance(item, _SuiteItem) and item.parent is self.parent
        ]
        tasks = {item.task for item in chosen if item.task is not None}
        run = self.parent.run
        results = run.results(None if any(item.task is None for item in chosen) else tasks)
        if not run.has_told:
            self.user_properties += [(NOTE, result) for result in results["notices"]]
            run.has_told = True
        return results


class ScenarioItem(_SuiteItem):
    """A scenario: it passes if all runs of it do."""

    def runtest(self) -> None:
        """Fail where a run did not pass, or nothing decides whether it did."""
        results = self._call_chosen()
        result = results["scenarios"].get(self.name)
        if result is None:
            raise AssertionError(f"{self.name}: not called: {results['stopped']}")
        passed = "yes" if result["passed"] else "no"
        self.user_properties += [(PASSED, passed), (RESULTS, results["folder"])]
        if result["passed"]:
            return
        if result["excused"]:
            pytest.xfail(f"{result['head']}; the policy decides")
        raise AssertionError(result["text"])


class PolicyItem(_SuiteItem):
    """The policy of a suite: it passes if the gate does."""

    def runtest(self) -> None:
        """Fail unless the verdict is `pass`."""
        result = self._call_chosen()["policy"]
        self.user_properties.append((MARKER, result["line"]))
        if not result["passed"]:
            raise AssertionError(result["text"])

"""A suite's calls, made once in a session, and how each scenario came out.

Workers of xdist share a folder for the session: the first that needs a suite makes the calls and
leaves the results there; the others wait, and read them.
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from calipers.gates.policy import read_policy
from calipers.gates.result import GateResult
from calipers.records.result_folder import RECORDS
from calipers.runs.making import INTERRUPTED
from calipers.runs.metric_settings import read_options
from calipers.runs.preparing import Prepared, choose_tasks, prepare_file
from calipers.runs.pytest_plugin import session_folder
from calipers.runs.pytest_plugin.answers import list_failures
from calipers.runs.running import run_suite, start_folder
from calipers.scores.score import score_data
from calipers.support.errors import CalipersError
from calipers.support.quick_dataclasses import dataclass
from calipers.support.whole_files import write_whole

Record = Mapping[str, Any]
_MOST_SHOWN = 500  # characters of a text
_METRICS = ("pass_rate", "accuracy")
_SAY = ("passed", "correct")  # `correct` where `passed` is unknown
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
        self._required = {each for rule in rules if not rule.only_warns for each in rule.scenarios}
        self.has_policy = policy is not None
        self._config = config
        self._key = sha256(str(path.resolve()).encode()).hexdigest()[:16]
        self._found: dict[str, Any] | None = None
        self._error: CalipersError | None = None
        self.has_told = False  # its notices, by one of its tests

    @property
    def scenarios(self) -> Iterator[Scenario]:
        """Yield the scenarios, in the order of the tasks."""
        suite = self._ready.suite
        for task in self._ready.plan.tasks.tasks:
            labels = (task.get("category"), task.get("capability"), *(task.get("tags") or ()))
            keywords = tuple(str(each) for each in labels if each is not None)
            for system in suite.systems:
                for tier in self._ready.plan.tiers:
                    names = (system.name, None if tier is None else tier.name)
                    yield Scenario(
                        _name(task["id"], *names, self._ready), str(task["id"]), keywords
                    )

    def results(self, tasks: Collection[str] | None) -> dict[str, Any]:
        """Return how every scenario came out, after calling what these tasks need; None: all.

        Raises:
            CalipersError: The suite cannot be run; each of its tests says so.
        """
        if self._error is not None:
            raise self._error
        if self._found is None:
            shared = session_folder(self._config)
            kept = shared / f"{self._key}.json"
            with _hold(shared / f"{self._key}.lock"):
                try:
                    if not kept.exists():
                        write_whole(kept, json.dumps(self._run(tasks)), private=True)
                except CalipersError as error:
                    self._error = error
                    raise
                self._found = json.loads(kept.read_bytes())
        return self._found

    def _run(self, tasks: Collection[str] | None) -> dict[str, Any]:
        ready = self._ready if tasks is None else choose_tasks(self._ready, tasks)
        folder = start_folder(ready.suite)
        result = run_suite(ready, folder, lambda _: nullcontext(), report=False)
        if result.stopped == INTERRUPTED:
            raise KeyboardInterrupt
        scenarios = {
            _name(each.id, each.model, each.tier, ready): {
                "passed": each.passed,
                "head": each.head,
                "text": each.text,
                # Where the policy is tested too, a scenario fails only if the policy requires it.
                "excused": result.gate is not None and each.id not in self._required,
            }
            for each in _read_outcomes(ready, folder)
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
        """Say whether every run passed."""
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
                lines += [f"  {line}" for line in _describe(record, passed)]
        return "\n".join(lines)


def _read_outcomes(ready: Prepared, folder: Path) -> Iterator[ScenarioOutcome]:
    lines = (folder / RECORDS).read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    verdicts = _read_verdicts(ready, folder / RECORDS, len(records))
    found: dict[tuple[str, str, str | None], list[tuple[Record, bool | None]]] = {}
    for record, passed in zip(records, verdicts, strict=True):
        key = (str(record["id"]), record["model"], record.get("tier"))
        found.setdefault(key, []).append((record, passed))
    for (task, model, tier), runs in found.items():
        runs.sort(key=lambda each: each[0].get("run") or 0)
        yield ScenarioOutcome(id=task, model=model, tier=tier, runs=runs)


def _read_verdicts(ready: Prepared, records: Path, count: int) -> list[bool | None]:
    """Return whether each record passed or, where nothing says so, whether it is right."""
    with TemporaryDirectory(prefix="calipers-") as folder:
        rows = Path(folder) / "rows.jsonl"
        options = read_options(ready.suite, ready.base, metrics=_METRICS)
        score_data(str(records), replace(options, per_sample=rows))
        each = [json.loads(line) for line in rows.read_text(encoding="utf-8").splitlines()]
    assert len(each) == count
    return [next((row[name] for name in _SAY if row.get(name) is not None), None) for row in each]


def _describe(record: Record, passed: bool | None) -> Iterator[str]:  # noqa: FBT001
    """Yield the lines that say what was asked, what came back, and what was looked for."""
    for name in ("input", "error", "answer", "target"):
        if record.get(name) is not None:
            yield f"{name}: {_show(record[name])}"
    yield from list_failures(record.get("checks") or ())
    if passed is None and record.get("error") is None:
        yield _UNDECIDED


def _show(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"


def _describe_verdict(gate: GateResult) -> dict[str, Any]:
    failed = [check.name for check in gate.checks if check.blocks]
    why = "; ".join((*gate.incomplete, *failed))
    line = f"the gate says {gate.verdict}" + (f": {why}" if why else "")
    return {"passed": gate.passed, "line": line, "text": f"{line}\n{gate}"}


def _name(task: Any, system: str, tier: str | None, ready: Prepared) -> str:
    """Return the name of a scenario's test, with system and tier where there are several."""
    several = (len(ready.suite.systems) > 1, len(ready.plan.tiers) > 1)
    given = [name for name, is_needed in zip((system, tier), several, strict=True) if is_needed]
    return f"{task}[{'-'.join(str(each) for each in given)}]" if given else str(task)


@contextmanager
def _hold(lock: Path) -> Iterator[None]:
    """Wait until no other worker of this session holds the lock."""
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield

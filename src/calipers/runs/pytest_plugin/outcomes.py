"""The outcome of each scenario of a run, and the messages for those that did not pass."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from calipers.records.result_folder import RECORDS
from calipers.runs.metric_settings import read_options
from calipers.runs.preparing import Prepared
from calipers.runs.pytest_plugin.answers import list_failures
from calipers.scores.score import score_data
from calipers.support.quick_dataclasses import dataclass

Record = Mapping[str, Any]
_MOST_SHOWN = 500  # characters of a text
_METRICS = ("pass_rate", "accuracy")
_SAY = ("passed", "correct")  # `correct` where `passed` is unknown
_UNDECIDED = "nothing decides whether it passed: no check, target, judge or `passed`"


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


def read_outcomes(ready: Prepared, folder: Path) -> Iterator[ScenarioOutcome]:
    """Yield the outcome of every scenario whose calls were made."""
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

"""Suites to run in tests: a folder with tasks, a suite file, and a model server on loopback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import Result

from tests import commands
from tests.files import write_lines

ROOT = Path(__file__).resolve().parents[2]
ANSWER = {"after": "ANSWER:"}


@dataclass(frozen=True)
class SuiteFolder:
    """A suite in a folder, and its results beside it."""

    path: Path
    suite: dict[str, Any]

    @property
    def results(self) -> Path:
        return self.path / "out"

    def write(self, **changed: Any) -> SuiteFolder:
        suite = {**self.suite, **changed}
        (self.path / "suite.yaml").write_text(
            yaml.safe_dump(suite, sort_keys=False, allow_unicode=True), encoding="utf-8"
        )
        return SuiteFolder(self.path, suite)

    def run(self, *options: str, report: bool = False) -> Result:
        """Run the suite; a page takes longer than all else, and few tests look at it."""
        arguments = ["run", str(self.path / "suite.yaml"), "-o", str(self.results), *options]
        return commands.run(*arguments, *(() if report else ("--no-report",)))

    def start(self, *, before: Callable[[], None] | None = None) -> subprocess.Popen[str]:
        """The same in a process of its own, which can be killed."""
        return subprocess.Popen(
            [
                *(sys.executable, "-m", "calipers", "run", str(self.path / "suite.yaml")),
                *("-o", str(self.results), "--no-report"),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # Under a limit on the size of files, bytecode would be cut off and kept for the next.
            env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONDONTWRITEBYTECODE": "1"},
            preexec_fn=before,  # noqa: PLW1509 (sets a limit, and no thread is at work)
        )

    def records(self) -> list[dict[str, Any]]:
        """Return the records by task and run; the file has them as the calls ended."""
        text = (self.results / "records.jsonl").read_text(encoding="utf-8")
        records = [json.loads(line) for line in text.split("\n") if line]
        return sorted(records, key=lambda each: (str(each.get("id")), each.get("run") or 0))

    def errors(self) -> dict[str, str | None]:
        return {record["id"]: record.get("error") for record in self.records()}

    def json(self, name: str) -> Any:
        return json.loads((self.results / name).read_text(encoding="utf-8"))


def suite_folder(
    path: Path,
    tasks: Sequence[Mapping[str, Any]],
    systems: Sequence[Mapping[str, Any]],
    **more: Any,
) -> SuiteFolder:
    write_lines(path / "tasks.jsonl", tasks)
    suite = {"name": "test", "data": "tasks.jsonl", "systems": [dict(each) for each in systems]}
    return SuiteFolder(path, {**suite, **more}).write()


def chat(url: str, name: str = "mini", **more: Any) -> dict[str, Any]:
    return {"name": name, "model": "openai:tiny", "base_url": url, **more}


def sums(count: int, orders: str = "") -> list[dict[str, Any]]:
    """Tasks that the model server answers rightly."""
    return [
        {"id": f"t{n}", "input": f"{n} + 1{orders}", "target": str(n + 1), "category": "sum"}
        for n in range(count)
    ]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retries without the wait."""
    monkeypatch.setattr("calipers.systems.pace.FIRST_BACKOFF", 0.01)
    monkeypatch.setattr("calipers.systems.pace._PAUSES", (0.02, 0.04))

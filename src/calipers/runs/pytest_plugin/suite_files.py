"""Suite files as tests: one per scenario, and one for the suite's policy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from calipers.runs.pytest_plugin import MARKER, NOTE, PASSED, RESULTS, is_named
from calipers.support.errors import CalipersError

if TYPE_CHECKING:
    from calipers.runs.pytest_plugin.suite_runs import SuiteRun

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
    from calipers.support.config.files import read_config  # noqa: PLC0415 (loads YAML)

    try:
        found = path.stat().st_size <= _LARGEST and read_config(path, example="").value
    except (CalipersError, OSError):
        return False
    return isinstance(found, dict) and {"data", "systems"} <= found.keys()


class SuiteFile(pytest.File):
    """A suite; its scenarios are called together, when the first of them is run."""

    run: SuiteRun

    def collect(self) -> Iterator[pytest.Item]:
        """Yield a test per scenario and system, and one for the policy."""
        from calipers.runs.pytest_plugin.suite_runs import SuiteRun  # noqa: PLC0415 (loads Polars)

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
        """Return what a person needs to know of a failure; only of a bug, where it happened."""
        if isinstance(excinfo.value, CalipersError):
            return f"{excinfo.value.message}\n{excinfo.value.fix}"
        if isinstance(excinfo.value, AssertionError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def _call_chosen(self) -> dict[str, Any]:
        """Return the results of the tests that were chosen, after calling what they need."""
        chosen = [
            each
            for each in self.session.items
            if isinstance(each, _SuiteItem) and each.parent is self.parent
        ]
        tasks = {each.task for each in chosen if each.task is not None}
        run = self.parent.run
        results = run.results(None if any(each.task is None for each in chosen) else tasks)
        if not run.has_told:
            self.user_properties += [(NOTE, each) for each in results["notices"]]
            run.has_told = True
        return results


class ScenarioItem(_SuiteItem):
    """A scenario: it passes if all runs of it do."""

    def runtest(self) -> None:
        """Fail where a run did not pass, or nothing decides whether it did."""
        results = self._call_chosen()
        found = results["scenarios"].get(self.name)
        if found is None:
            raise AssertionError(f"{self.name}: not called: {results['stopped']}")
        passed = "yes" if found["passed"] else "no"
        self.user_properties += [(PASSED, passed), (RESULTS, results["folder"])]
        if found["passed"]:
            return
        if found["excused"]:
            pytest.xfail(f"{found['head']}; the policy decides")
        raise AssertionError(found["text"])


class PolicyItem(_SuiteItem):
    """The policy of a suite: it passes if the gate does."""

    def runtest(self) -> None:
        """Fail unless the verdict is `pass`."""
        found = self._call_chosen()["policy"]
        self.user_properties.append((MARKER, found["line"]))
        if not found["passed"]:
            raise AssertionError(found["text"])

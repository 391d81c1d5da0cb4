"""A test that is run several times, and one decision on all of its runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args

import pytest
from _pytest.runner import runtestprotocol

from calipers.runs.pytest_plugin import MARKER
from calipers.support.quick_dataclasses import dataclass

Evidence = Literal["point", "interval"]
_KNOWN = ("runs", "at_least", "evidence")
_EXAMPLE = "for example @pytest.mark.calipers(runs=5, at_least=0.8)"

Reports = list[pytest.TestReport]


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedRepeats:
    """How often a test is run, and which share of the runs has to pass."""

    runs: int
    at_least: float = 1.0
    evidence: Evidence = "point"


def read_marker(marker: pytest.Mark) -> AskedRepeats:
    """Return what a marker asks for.

    Raises:
        ValueError: It has a mistake; the message says how to write it.
    """
    if marker.args:
        raise ValueError(f"calipers: {marker.args[0]!r} has no name: {_EXAMPLE}")
    for name in marker.kwargs:
        if name not in _KNOWN:
            raise ValueError(f"calipers: {name} is not known: one of {', '.join(_KNOWN)}")
    found = AskedRepeats(**{"runs": 1, **marker.kwargs})
    if isinstance(found.runs, bool) or not isinstance(found.runs, int) or found.runs < 1:
        raise ValueError(f"calipers: runs is {found.runs!r}, not a whole number from 1: {_EXAMPLE}")
    is_number = isinstance(found.at_least, int | float) and not isinstance(found.at_least, bool)
    if not is_number or not 0 < found.at_least <= 1:
        raise ValueError(
            f"calipers: at_least is {found.at_least!r}, not a share above 0 and up to 1: {_EXAMPLE}"
        )
    if found.evidence not in get_args(Evidence):
        raise ValueError(f"calipers: evidence is {found.evidence!r}: either point or interval")
    return found


def repeat_test(item: pytest.Item, nextitem: pytest.Item | None, asked: AskedRepeats) -> bool:
    """Run a test several times and report it once; return True, since it has been run.

    Every run has its own setup and teardown: what lives as long as a function is made again, what
    lives longer is kept. A run that is skipped, or whose setup or teardown fails, is the last.
    """
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    done: list[Reports] = []
    for run in range(1, asked.runs + 1):
        is_last = run == asked.runs
        _forget_run(item)
        # Torn down to the parent, only what is the test's own goes.
        until: Any = nextitem if is_last else item.parent
        done.append(runtestprotocol(item, log=False, nextitem=until))
        if _is_broken(done[-1]):
            if not is_last:
                done[-1][-1] = _tear_down(item, nextitem, done[-1][-1])
            break
    for report in _merge(item, done, asked):
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def _forget_run(item: pytest.Item) -> None:
    """Remove what the previous run has left: its output, and the instance of its class."""
    item._report_sections.clear()  # noqa: SLF001 (pytest keeps it for one run)
    if isinstance(item, pytest.Function) and item.cls is not None:
        for name in ("_instance", "_obj"):
            item.__dict__.pop(name, None)


def _is_broken(reports: Reports) -> bool:
    """Say whether a run was skipped, or failed in setup or teardown."""
    return any(not report.passed for report in reports if report.when != "call") or any(
        _is_skipped(report) for report in reports
    )


def _is_skipped(report: pytest.TestReport) -> bool:
    return report.skipped and not hasattr(report, "wasxfail")


def _tear_down(
    item: pytest.Item, nextitem: pytest.Item | None, before: pytest.TestReport
) -> pytest.TestReport:
    """Tear down what the next test does not need; return the report that has more to say."""
    call = pytest.CallInfo.from_call(
        lambda: item.session._setupstate.teardown_exact(nextitem),  # noqa: SLF001
        when="teardown",
        reraise=(pytest.exit.Exception, KeyboardInterrupt),
    )
    if before.failed or call.excinfo is None:
        return before
    report: pytest.TestReport = item.ihook.pytest_runtest_makereport(item=item, call=call)
    return report


def _merge(item: pytest.Item, done: Sequence[Reports], asked: AskedRepeats) -> Reports:
    """Return the reports of all runs as those of one test."""
    last = done[-1]
    if _is_broken(last):
        for report in last:
            report.sections.append((MARKER, f"run {len(done)} of {asked.runs}"))
        return last
    calls = [report for reports in done for report in reports if report.when == "call"]
    call, line = _decide(calls, asked)
    item.user_properties.append((MARKER, line))
    merged = [call if report.when == "call" else report for report in last]
    for report in merged:
        every = (each for reports in done for each in reports if each.when == report.when)
        report.duration = sum(each.duration for each in every)
        report.user_properties = list(item.user_properties)
    return merged


def _decide(calls: Reports, asked: AskedRepeats) -> tuple[pytest.TestReport, str]:
    """Return the report that stands for all, with the verdict, and the line of the summary."""
    from calipers.runs.pytest_plugin.evidence import decide_runs  # noqa: PLC0415 (loads Polars)

    passed = [report for report in calls if report.passed]
    failed = [report for report in calls if not report.passed]
    is_enough, line = decide_runs(len(passed), len(calls), asked.at_least, asked.evidence)
    if is_enough:
        passed[-1].longrepr = None
        return passed[-1], line
    report = (failed or passed)[-1]
    if not hasattr(report, "wasxfail"):
        report.outcome = "failed"
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is None:
        report.longrepr = line
    else:
        crash.message = f"{line}; last: {crash.message}"
        report.sections.append((MARKER, line))
    return report, line

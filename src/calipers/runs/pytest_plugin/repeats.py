"""A test that is run several times, and one decision on all of its runs, as a gate decides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import pytest
from _pytest.runner import runtestprotocol

from calipers.gates.decide import gate
from calipers.gates.result import Check
from calipers.gates.threshold_test import describe_doubt, format_value
from calipers.runs.pytest_plugin import MARKER
from calipers.support.user_code import fail_on_exit


def decide_repeats(passed: int, runs: int, at_least: float, evidence: str) -> tuple[bool, str]:
    """Compare the share of runs that passed with the share that must pass, and say it in a line.

    >>> decide_repeats(40, 40, 0.8, "interval")
    (True, 'passed in 40 of 40 runs: 100 % [91.2 %, 100 %], required ≥ 80 %; passes')
    """
    records = [{"id": f"run {number}", "passed": number < passed} for number in range(runs)]
    policy = {
        "evidence": evidence,
        "thresholds": {"blocking": {"pass_rate": f">= {float(at_least)}"}},
    }
    check = gate(records, policy=policy).checks[0]
    return check.verdict == "pass", f"passed in {passed} of {runs} runs: {_describe_check(check)}"


def _describe_check(check: Check) -> str:
    assert check.threshold is not None
    assert check.value is not None
    scale = check.threshold.scale
    bounds = (format_value(bound, scale) for bound in (check.low, check.high) if bound is not None)
    value = format_value(check.value, scale, check.threshold)
    verdict = {"pass": "passes", "fail": "fails"}.get(check.verdict, check.verdict)
    line = f"{value} [{', '.join(bounds)}], required {check.threshold}; {verdict}"
    if not check.thin:
        return line
    between, likely = check.further_range, check.further_scenarios
    further = None if between is None or likely is None else (between[0], likely, between[1])
    return f"{line}; {describe_doubt(further, thin=True, confidence=0.95, of='run')}"


Evidence = Literal["point", "interval"]
_KNOWN = ("runs", "at_least", "evidence")
_EXAMPLE = "for example @pytest.mark.calipers(runs=5, at_least=0.8)"

Reports = list[pytest.TestReport]  # of one run: setup, call, teardown
Outcome = Literal["passed", "failed", "expected", "skipped"]  # expected: to fail, by xfail


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedRepeats:
    """The number of runs of a test, and the share of them that has to pass."""

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
    asked = AskedRepeats(**{"runs": 1, **marker.kwargs})
    if isinstance(asked.runs, bool) or not isinstance(asked.runs, int) or asked.runs < 1:
        raise ValueError(f"calipers: runs is {asked.runs!r}, not a whole number from 1: {_EXAMPLE}")
    is_number = isinstance(asked.at_least, int | float) and not isinstance(asked.at_least, bool)
    if not is_number or not 0 < asked.at_least <= 1:
        raise ValueError(
            f"calipers: at_least is {asked.at_least!r}, not a share above 0 and up to 1: {_EXAMPLE}"
        )
    if asked.evidence not in get_args(Evidence):
        raise ValueError(f"calipers: evidence is {asked.evidence!r}: either point or interval")
    return asked


def repeat_test(item: pytest.Item, nextitem: pytest.Item | None, asked: AskedRepeats) -> bool:
    """Run a test several times and report it once; return True, since it has been run.

    Every run has its own setup and teardown: what lives as long as a function is made again, what
    lives longer is kept. A run whose setup or teardown fails is the last.
    """
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    done: list[Reports] = []
    for run in range(1, asked.runs + 1):
        is_last = run == asked.runs
        _forget_run(item)
        # Torn down to the parent, only what is the test's own goes.
        until: Any = nextitem if is_last else item.parent
        with fail_on_exit():
            done.append(runtestprotocol(item, log=False, nextitem=until))
        if _is_broken(done[-1]):
            if not is_last:
                done[-1][-1] = _tear_down(item, nextitem, done[-1][-1])
            break
    for report in _merge_reports(item, done, asked):
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
    """Return True if setup or teardown failed, in a way that nobody expects."""
    return any(report.failed for report in reports if report.when != "call")


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


def _merge_reports(item: pytest.Item, done: Sequence[Reports], asked: AskedRepeats) -> Reports:
    """Return the reports of all runs as those of one test."""
    outcomes = [_read_outcome(reports) for reports in done]
    if _is_broken(done[-1]) or set(outcomes) == {"skipped"}:
        for report in done[-1]:
            report.sections.append((MARKER, f"run {len(done)} of {asked.runs}"))
        return done[-1]
    chosen, line = _decide(done, outcomes, asked)
    item.user_properties.append((MARKER, line))
    for report in chosen:
        same = [member for reports in done for member in reports if member.when == report.when]
        report.duration = sum(report_.duration for report_ in same)
        report.user_properties = list(item.user_properties)
    return chosen


def _read_outcome(reports: Reports) -> Outcome:
    """Return how a run ended whose setup and teardown did not fail unexpectedly."""
    if any(report.failed for report in reports):
        return "failed"
    if any(report.skipped and hasattr(report, "wasxfail") for report in reports):
        return "expected"
    return "skipped" if any(report.skipped for report in reports) else "passed"


def _decide(
    done: Sequence[Reports], outcomes: Sequence[Outcome], asked: AskedRepeats
) -> tuple[Reports, str]:
    """Return the reports that stand for all runs, with the verdict, and the line of the summary.

    A run that was skipped has not passed. Where too few have passed, a failure that nobody
    expected stands for all; without one, a failure that was expected.
    """
    last = {outcome: reports for reports, outcome in zip(done, outcomes, strict=True)}
    is_enough, line = decide_repeats(
        outcomes.count("passed"), len(outcomes), asked.at_least, asked.evidence
    )
    if skipped := outcomes.count("skipped"):
        line = f"{line}; {skipped} skipped: a skipped run has not passed"
    if is_enough:
        return last["passed"], line
    chosen = last.get("failed") or last.get("expected") or last["passed"]
    report = next((candidate for candidate in chosen if not candidate.passed), chosen[-2])
    if not hasattr(report, "wasxfail"):
        report.outcome = "failed"
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is None:
        report.longrepr = line if report.longrepr is None else f"{line}\n{report.longrepr}"
    else:
        crash.message = f"{line}; last: {crash.message}"
        report.sections.append((MARKER, line))
    return chosen, line

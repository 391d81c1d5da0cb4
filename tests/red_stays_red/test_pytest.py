"""pytest: skips, expected failures, crashes, and suites that are run once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.examples import first_of
from tests.runs.pytest_at_hand import PLUGIN, Run, libraries_stay_loaded, run

__all__ = ["libraries_stay_loaded", "run"]  # fixtures

OUTCOMES = """
    import pytest

    runs = iter({runs!r}.split())

    @pytest.fixture
    def database():
        run = next(runs)
        if run.startswith("setup-"):
            end(run.removeprefix("setup-"))
        yield run
        if run.startswith("teardown-"):
            end(run.removeprefix("teardown-"))

    def end(how):
        if how == "fails":
            raise AssertionError("the agent is broken")
        if how == "crashes":
            raise RuntimeError("nobody expects this")
        if how == "expected":
            raise ValueError("known")
        if how == "skips":
            pytest.skip("rate limited")
        if how == "xfails":
            pytest.xfail("known")

    {mark}
    @pytest.mark.calipers(runs={count}, at_least={at_least})
    def test_agent(database):
        end(database)
    """


def outcome_of(
    pytester: pytest.Pytester,
    run: Run,
    runs: str,
    *,
    at_least: float = 1.0,
    mark: str = "",
    reruns: bool = False,
) -> dict[str, int]:
    text = OUTCOMES.format(runs=runs, count=len(runs.split()), at_least=at_least, mark=mark)
    pytester.makepyfile(text)
    more = ("-p", "pytest_rerunfailures", "--reruns", "2") if reruns else ()
    done = run(*more)
    counts = done.parseoutcomes()
    assert (done.ret == 0) == ("failed" not in counts and "errors" not in counts)
    return counts


@pytest.mark.parametrize(
    ("runs", "at_least"),
    [
        ("fails fails fails fails skips", 0.8),
        ("skips fails fails fails fails", 0.8),
        ("setup-skips fails fails fails fails", 0.8),
        ("fails fails fails fails setup-skips", 0.8),
        ("passes fails skips fails skips", 0.5),
        ("fails skips", 1.0),
        ("fails xfails xfails", 1.0),
        ("fails teardown-skips", 1.0),
    ],
)
def test_a_skip_or_an_expected_failure_does_not_hide_failures(
    pytester: pytest.Pytester, run: Run, runs: str, at_least: float
) -> None:
    assert outcome_of(pytester, run, runs, at_least=at_least) == {"failed": 1}


def test_a_run_that_was_skipped_has_not_passed(pytester: pytest.Pytester, run: Run) -> None:
    runs = "passes passes passes skips skips"
    assert outcome_of(pytester, run, runs, at_least=0.8) == {"failed": 1}
    assert outcome_of(pytester, run, runs, at_least=0.6) == {"passed": 1}
    assert outcome_of(pytester, run, "skips setup-skips") == {"skipped": 1}


EXPECTED = '@pytest.mark.xfail(raises=ValueError, reason="known")'
STRICT = '@pytest.mark.xfail(strict=True, reason="known")'


@pytest.mark.parametrize(
    ("mark", "runs", "counts"),
    [
        (EXPECTED, "crashes expected expected", {"failed": 1}),
        (EXPECTED, "expected crashes expected", {"failed": 1}),
        (EXPECTED, "crashes expected skips", {"failed": 1}),
        (EXPECTED, "crashes setup-expected", {"failed": 1}),
        (EXPECTED, "crashes teardown-expected", {"failed": 1}),
        (EXPECTED, "expected setup-crashes expected", {"errors": 1}),
        (EXPECTED, "expected teardown-crashes expected", {"errors": 1, "xpassed": 1}),
        (EXPECTED, "expected expected setup-expected", {"xfailed": 1}),
        (STRICT, "expected passes expected", {"failed": 1}),
        (STRICT, "passes skips expected", {"failed": 1}),
        (STRICT, "expected crashes expected", {"xfailed": 1}),
    ],
)
def test_an_unexpected_error_does_not_hide_behind_expected_ones(
    pytester: pytest.Pytester, run: Run, mark: str, runs: str, counts: dict[str, int]
) -> None:
    assert outcome_of(pytester, run, runs, mark=mark) == counts


@pytest.mark.parametrize(
    ("runs", "counts"),
    [
        ("passes setup-fails passes", {"errors": 1}),
        ("passes teardown-crashes passes", {"errors": 1, "passed": 1}),
        ("fails teardown-crashes", {"errors": 1, "passed": 1}),
    ],
)
def test_a_fixture_that_fails_in_one_run_is_an_error(
    pytester: pytest.Pytester, run: Run, runs: str, counts: dict[str, int]
) -> None:
    assert outcome_of(pytester, run, runs, at_least=0.1) == counts


def test_reruns_do_not_wash_failures_away(pytester: pytest.Pytester, run: Run) -> None:
    runs = "fails fails passes passes passes passes"
    assert outcome_of(pytester, run, runs, at_least=0.8, reruns=True) == {"failed": 1}


TASKS = [{"id": f"order-{number}", "input": str(number), "target": "yes"} for number in range(5)]


def write_suite(folder: Path, body: str) -> None:
    """A suite of five tasks, whose agent counts its calls."""
    text = "".join(f"{json.dumps(task)}\n" for task in TASKS)
    folder.joinpath("tasks.jsonl").write_text(text, encoding="utf-8")
    folder.joinpath("agent.py").write_text(
        "import os, pathlib\n"
        "def answer(record):\n"
        "    with pathlib.Path(__file__).with_name('paid.log').open('a') as file:\n"
        "        file.write(record['id'] + '\\n')\n"
        f"    {body}\n",
        encoding="utf-8",
    )
    folder.joinpath("suite.yaml").write_text(
        "name: orders\ndata: tasks.jsonl\nconcurrency: 1\n"
        "systems: [{name: gpt-4o-mini, python: 'agent.py:answer'}]\n",
        encoding="utf-8",
    )


def count_paid(folder: Path) -> int:
    return len(folder.joinpath("paid.log").read_text(encoding="utf-8").split("\n")) - 1


@pytest.mark.parametrize("end", ["\u2028", "\u2029", "\x85", "\x0b", "\x1c", "\r"])
def test_a_line_end_in_a_reply_buys_nothing_twice(
    pytester: pytest.Pytester, run: Run, end: str
) -> None:
    said = f"'first{end}second'" if end != "\r" else r"'first\rsecond'"
    write_suite(pytester.path, f"return {said} if record['id'] == 'order-3' else 'yes'")
    run("suite.yaml").assert_outcomes(passed=4, failed=1)
    assert count_paid(pytester.path) == 5


@pytest.mark.parametrize(
    "error", first_of([SystemExit, ValueError, OSError, AssertionError, MemoryError])
)
def test_a_suite_whose_run_breaks_is_run_once(
    pytester: pytest.Pytester, run: Run, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    def break_down(*_: object) -> None:
        raise error("the results cannot be read")

    monkeypatch.setattr("calipers.runs.pytest_plugin.suite_tests._read_outcomes", break_down)
    write_suite(pytester.path, "return 'yes'")
    run("suite.yaml").assert_outcomes(failed=5)
    assert count_paid(pytester.path) == 5
    run("suite.yaml", "-p", "pytest_rerunfailures", "--reruns", "2").assert_outcomes(failed=5)
    assert count_paid(pytester.path) == 10


@pytest.mark.parametrize("error", [KeyboardInterrupt, pytest.exit.Exception])
@pytest.mark.usefixtures("run")
def test_an_interrupted_suite_stops_the_session(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    def stop(*_: object) -> None:
        raise error("stop")

    monkeypatch.setattr("calipers.runs.pytest_plugin.suite_tests._read_outcomes", stop)
    write_suite(pytester.path, "return 'yes'")
    pytester.makepyfile("def test_after(): pass")
    files = ("suite.yaml", "test_an_interrupted_suite_stops_the_session.py")
    done = pytester.runpytest_inprocess("-p", PLUGIN, *files, no_reraise_ctrlc=True)
    assert done.ret == pytest.ExitCode.INTERRUPTED
    assert "passed" not in done.parseoutcomes()


def test_the_first_failure_of_a_suite_stops_the_session(
    pytester: pytest.Pytester, run: Run
) -> None:
    write_suite(pytester.path, "return 'yes' if record['id'] == 'order-0' else 'no'")
    done = run("suite.yaml", "-x")
    done.assert_outcomes(passed=1, failed=1)
    assert done.ret == pytest.ExitCode.TESTS_FAILED


def test_an_agent_that_ends_the_interpreter_is_no_pass(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    write_suite(pytester.path, "os._exit(0)")
    pytester.makepyfile(
        """
        import os, pytest

        @pytest.mark.calipers(runs=3)
        def test_agent():
            os._exit(0)
        """
    )
    assert pytester.runpytest_subprocess("-p", PLUGIN, "suite.yaml").ret != 0
    assert pytester.runpytest_subprocess("-p", PLUGIN).ret != 0


@pytest.mark.long
@pytest.mark.parametrize("more", [[], ["-x"], ["-p", "pytest_rerunfailures", "--reruns", "2"]])
@pytest.mark.parametrize("body", ["os._exit(0)", "return '\\u2028'", "raise SystemExit(0)"])
def test_workers_leave_the_build_red_and_pay_once(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, more: list[str], body: str
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    write_suite(pytester.path, body)
    done = pytester.runpytest_subprocess("-p", PLUGIN, "-p", "xdist", "-n2", *more, "suite.yaml")
    assert done.ret not in (0, pytest.ExitCode.NO_TESTS_COLLECTED)
    counts = done.parseoutcomes()
    assert "-x" in more or counts["failed"] == 5
    assert "passed" not in counts
    assert count_paid(pytester.path) == (1 if "_exit" in body else 5)

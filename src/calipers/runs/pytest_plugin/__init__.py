"""The pytest plug-in: suites as tests, a fixture, and tests that are run several times.

pytest imports this file at every start, wherever calipers is installed. Until something of it is
used, nothing else is imported and nothing is printed.
"""

from __future__ import annotations

from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from calipers.runs.pytest_plugin.fixture import CalipersFixture
    from calipers.runs.pytest_plugin.suite_tests import SuiteFile

MARKER = "calipers"
SUITES = "calipers_suites"
NOTE = "calipers_note"  # of a suite, with one of its tests
PASSED, RESULTS = "calipers_passed", "calipers_results"  # properties of a scenario's test
_SHARED = pytest.StashKey[str]()  # a folder of this session
_WORKER = "calipers_session"  # under which xdist's controller names it to its workers
_SUFFIXES = (".yaml", ".yml", ".json")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the option that names the suites."""
    parser.addini(
        SUITES,
        "Suite files that are collected as tests, a test per scenario: patterns relative to the "
        "root folder, such as suites/*.yaml.",
        type="args",
        default=[],
    )


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker, and collect what tests report."""
    config.addinivalue_line(
        "markers",
        f"{MARKER}(runs, at_least=1.0, evidence='point'): run the test so many times, each with "
        "fixtures of its own; it passes if at least this share of the runs does.",
    )
    config.pluginmanager.register(TerminalSummary(), "calipers_summary")


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker of xdist the folder that all of them share."""
    node.workerinput[_WORKER] = str(session_folder(node.config))


def session_folder(config: pytest.Config) -> Path:
    """Return a folder for what the processes of this session share; it is removed at the end."""
    shared = getattr(config, "workerinput", {}).get(_WORKER)
    if shared is None:
        if _SHARED not in config.stash:
            config.stash[_SHARED] = mkdtemp(prefix="calipers-pytest-")
        shared = config.stash[_SHARED]
    return Path(shared)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove the folder of this session."""
    if (folder := config.stash.get(_SHARED, None)) is not None:
        rmtree(folder, ignore_errors=True)


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> SuiteFile | None:
    """Collect a suite that the settings name, or the command line. No other file is opened."""
    if file_path.suffix not in _SUFFIXES:
        return None
    patterns = parent.config.getini(SUITES)
    if not patterns and not is_named(file_path, parent.config):
        return None
    from calipers.runs.pytest_plugin.suite_tests import collect_suite  # noqa: PLC0415

    return collect_suite(file_path, parent, patterns)


def is_named(path: Path, config: pytest.Config) -> bool:
    """Return True if the command line names this very file, and not only a folder above it."""
    start = config.invocation_params.dir
    return any((start / arg.partition("::")[0]).resolve() == path for arg in config.args)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Report a marker with a mistake as an error of its test."""
    if (marker := item.get_closest_marker(MARKER)) is not None:
        from calipers.runs.pytest_plugin.repeats import read_marker  # noqa: PLC0415

        try:
            read_marker(marker)
        except ValueError as error:
            message = str(error)
        else:
            return
        pytest.fail(message, pytrace=False)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Run a marked test as often as its marker says; leave every other test alone."""
    marker = item.get_closest_marker(MARKER)
    if marker is None or item.config.getoption("setuponly", default=False):
        return None
    from calipers.runs.pytest_plugin.repeats import read_marker, repeat_test  # noqa: PLC0415

    try:
        asked = read_marker(marker)
    except ValueError:
        return None  # its setup says what is wrong
    return repeat_test(item, nextitem, asked)


@pytest.fixture
def calipers(request: pytest.FixtureRequest) -> CalipersFixture:
    """Check answers and score records: `calipers.check(answer, contains="17")`."""
    from calipers.runs.pytest_plugin.fixture import CalipersFixture  # noqa: PLC0415

    return CalipersFixture(request.node)


class TerminalSummary:
    """What was measured, test by test; from xdist's workers it comes with their reports."""

    def __init__(self) -> None:
        self._lines: dict[str, list[str]] = {}
        self._suites: dict[str, list[tuple[bool, str]]] = {}  # of each scenario: passed, and where
        self._notes: dict[str, None] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep what a test that has ended says."""
        if report.when != "teardown":
            return
        for name, value in report.user_properties:
            if name == MARKER:
                self._lines.setdefault(report.nodeid, []).append(str(value))
            elif name == NOTE:
                self._notes[str(value)] = None
        properties = {name: str(value) for name, value in report.user_properties}
        if RESULTS in properties:
            suite = report.nodeid.partition("::")[0]
            self._suites.setdefault(suite, []).append(
                (properties[PASSED] == "yes", properties[RESULTS])
            )

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print it, where there is anything."""
        if self._lines or self._suites:
            terminalreporter.write_sep("=", MARKER)
        for suite, scenarios in sorted(self._suites.items()):
            count = sum(passed for passed, _ in scenarios)
            folder = scenarios[0][1]
            terminalreporter.write_line(
                f"{suite}: {count} of {len(scenarios)} scenarios passed; results in {folder}"
            )
        for note in sorted(self._notes):
            terminalreporter.write_line(f"note: {note}")
        for test, lines in sorted(self._lines.items()):
            for line in lines:
                terminalreporter.write_line(f"{test}: {line}")

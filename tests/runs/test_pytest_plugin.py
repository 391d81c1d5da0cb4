"""The pytest plug-in: tests run several times, the fixture, suites as tests, with xdist too."""

import json
import re
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from _pytest import pytester as of_pytest

ROOT = Path(__file__).resolve().parents[2]
PLUGIN = "calipers.runs.pytest_plugin"
Run = Callable[..., pytest.RunResult]


@pytest.fixture(autouse=True)
def _libraries_stay_loaded(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keep what a session in this process imports, but for its tests: NumPy loads only once."""
    inner = str(tmp_path_factory.getbasetemp())

    def stays(name: str) -> bool:
        return not str(getattr(sys.modules[name], "__file__", None)).startswith(inner)

    snapshot = of_pytest.SysModulesSnapshot
    monkeypatch.setattr(of_pytest, "SysModulesSnapshot", lambda preserve: snapshot(stays))  # noqa: ARG005


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run pytest in this process, with this plug-in and no other that happens to be installed."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    return lambda *arguments: pytester.runpytest_inprocess("-p", PLUGIN, *arguments)


def test_it_is_what_the_package_announces() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["entry-points"]["pytest11"] == {"calipers": PLUGIN}


def test_a_session_that_uses_nothing_of_it_shows_nothing_of_it(
    pytester: pytest.Pytester, run: Run
) -> None:
    pytester.makepyfile("def test_a(): pass")
    pytester.path.joinpath("settings.yaml").write_text("data: [1\n", encoding="utf-8")  # no YAML
    done = run()
    done.assert_outcomes(passed=1)
    assert "= calipers =" not in done.stdout.str()


# --- a test that is run several times ---

REPEATED = """
    import pytest

    made = []

    @pytest.fixture(scope="module")
    def house():
        made.append("house")
        yield
        made.append("house gone")

    @pytest.fixture
    def room(tmp_path):
        made.append("room")
        assert not list(tmp_path.iterdir())
        tmp_path.joinpath("chair").write_text("")
        yield made.count("room")
        made.append("room gone")

    @pytest.mark.calipers(runs=5, at_least=0.8)
    def test_is_mostly_right(house, room):
        print(f"this is run {room}")
        assert room != 2

    @pytest.mark.calipers(runs=3)
    class TestAll:
        def test_starts_anew(self, house):
            assert not vars(self)
            self.used = True

    def test_house_and_rooms():
        assert made == ["house", *["room", "room gone"] * 5]
    """


def test_each_run_has_its_own_setup_and_teardown(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(REPEATED)
    done = run("-v")
    done.assert_outcomes(passed=3)
    done.stdout.fnmatch_lines(
        [
            "*::test_is_mostly_right PASSED*",
            "*= calipers =*",
            "*::TestAll::test_starts_anew: passed in 3 of 3 runs: 100 % [[]*], required ≥ 100 %; passes",
            "*::test_is_mostly_right: passed in 4 of 5 runs: 80 % [[]*], required ≥ 80 %; passes; *",
        ]
    )


def test_too_few_runs_that_pass_fail_with_the_last_failure(
    pytester: pytest.Pytester, run: Run
) -> None:
    pytester.makepyfile(
        test_f="""
        import itertools, pytest
        number = itertools.count(1)

        @pytest.mark.calipers(runs=5, at_least=0.8)
        def test_flaky():
            at = next(number)
            print(f"this is run {at}")
            assert at % 2 == 0, "odd"
        """
    )
    done = run("--junitxml=out.xml")
    done.assert_outcomes(failed=1)
    told = done.stdout.str()
    assert "this is run 5" in told
    assert "this is run 4" not in told
    done.stdout.fnmatch_lines(["*AssertionError: odd*"])
    done.stdout.fnmatch_lines(["FAILED test_f.py::test_flaky - passed in 2 of 5 runs: 40 %*"])
    assert "passed in 2 of 5 runs: 40 % " in Path("out.xml").read_text(encoding="utf-8")


def test_the_interval_decides_where_it_is_asked_to(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(
        """
        import pytest
        interval = {"at_least": 0.8, "evidence": "interval"}

        @pytest.mark.calipers(runs=5, **interval)
        def test_few(): pass

        @pytest.mark.calipers(runs=40, **interval)
        def test_many(): pass

        @pytest.mark.calipers(runs=10, **interval)
        def test_wrong(): assert False
        """
    )
    done = run()
    done.assert_outcomes(passed=1, failed=2)
    done.stdout.fnmatch_lines(
        [
            "*::test_few: passed in 5 of 5 *; inconclusive; *about * more runs would decide it*",
            "*::test_many: passed in 40 of 40 runs: *, required ≥ 80 %; passes",
            "*::test_wrong: passed in 0 of 10 runs: *, required ≥ 80 %; fails",
        ]
    )


@pytest.mark.parametrize(
    ("body", "outcome"),
    [
        ("pytest.skip('not here')", {"skipped": 1}),
        ("pytest.xfail('known')", {"xfailed": 1}),
        ("raise KeyError", {"failed": 1}),
    ],
)
def test_runs_that_do_not_pass_are_reported_once(
    pytester: pytest.Pytester, run: Run, body: str, outcome: dict[str, int]
) -> None:
    pytester.makepyfile(
        f"""
        import pytest

        @pytest.mark.calipers(runs=3)
        def test_once():
            {body}

        def test_after():
            pass
        """
    )
    run().assert_outcomes(passed=1, **outcome)


@pytest.mark.parametrize("where", ["setup", "teardown"])
def test_a_fixture_that_fails_is_an_error_and_no_evidence(
    pytester: pytest.Pytester, run: Run, where: str
) -> None:
    pytester.makepyfile(
        f"""
        import pytest
        made = []

        @pytest.fixture(scope="module")
        def house():
            yield
            made.append("house gone")

        @pytest.fixture
        def room(house):
            made.append("room")
            assert "{where}" != "setup" or len(made) < 2
            yield
            assert "{where}" != "teardown" or len(made) < 2

        @pytest.mark.calipers(runs=5, at_least=0.2)
        def test_in_it(room):
            pass
        """
    )
    pytester.makepyfile(
        test_other="""
        import sys

        def test_after():
            made = sys.modules["test_a_fixture_that_fails_is_an_error_and_no_evidence"].made
            assert made == ["room", "room", "house gone"]
        """
    )
    done = run()
    done.assert_outcomes(errors=1, passed=1 if where == "setup" else 2)
    done.stdout.fnmatch_lines(["run 2 of 5"])


@pytest.mark.parametrize(
    ("marker", "message"),
    [
        ("5", "5 has no name"),
        ("runs=0", "runs is 0, not a whole number from 1"),
        ("runs=2, at_least=80", "at_least is 80, not a share above 0 and up to 1"),
        ("runs=2, atleast=0.8", "atleast is not known: one of runs, at_least, evidence"),
        ("runs=2, evidence='gut'", "evidence is 'gut': either point or interval"),
    ],
)
def test_a_mistake_in_a_marker_is_told(
    pytester: pytest.Pytester, run: Run, marker: str, message: str
) -> None:
    pytester.makepyfile(
        f"""
        import pytest

        @pytest.mark.calipers({marker})
        def test_a():
            pass
        """
    )
    done = run()
    done.assert_outcomes(errors=1)
    assert f"calipers: {message}" in done.stdout.str()


# --- the fixture ---


def test_the_fixture_says_what_was_looked_for_and_what_was_there(
    pytester: pytest.Pytester, run: Run
) -> None:
    pytester.makepyfile(
        """
        def test_holds(calipers):
            answer = "Order 17 is on its way."
            calipers.check(answer, contains="17", length={"at_most": 10}, forbid={"pii": True})
            record = {"answer": answer, "order": 17, "latency_ms": 40}
            calipers.check(record, contains="{order}", max_latency_ms=50)
            calipers.check(answer, checks=[{"expect": "is polite", "icontains": "ORDER"}])

        def test_does_not(calipers):
            calipers.check("Ask jo@example.org.", contains="17", forbid={"pii": ["email"]})

        def test_cannot_be_decided(calipers):
            calipers.check("quick", max_latency_ms=50)

        def test_unknown(calipers):
            calipers.check("quick", contain="q")
        """
    )
    done = run()
    done.assert_outcomes(passed=1, failed=3)
    told = done.stdout.str()
    for line in (
        "AssertionError: expected: contains='17': contains \"17\"",
        "forbidden: pii=['email']: email: jo@example.org",
        "answer: Ask jo@example.org.",
        "cannot be decided: max_latency_ms=50: the record has no latency_ms",
        "check(): contain is not a known test",
    ):
        assert line in told


def test_scores_stand_in_the_summary(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(
        """
        def test_accuracy(calipers):
            records = [{"answer": "4", "target": "4"}] * 9 + [{"answer": "5", "target": "4"}]
            assert calipers.score(records, metrics=["accuracy"])["accuracy"].value == 0.9
        """
    )
    done = run()
    done.assert_outcomes(passed=1)
    done.stdout.fnmatch_lines(["*::test_accuracy:*", "*accuracy*0.90*"])


# --- suites ---

TASKS = [
    {
        "id": "a",
        "input": "say yes",
        "category": "easy",
        "checks": [{"expect": "agrees", "contains": "yes"}],
    },
    {"id": "b", "input": "say no", "checks": [{"forbid": "refuses", "contains": "no"}]},
    {"id": "c", "input": "2 + 2", "target": "4"},
]


def write_suite(folder: Path, *, policy: dict[str, Any] | None = None, **changes: Any) -> None:
    lines = "".join(f"{json.dumps(task)}\n" for task in TASKS)
    folder.joinpath("tasks.jsonl").write_text(lines, encoding="utf-8")
    folder.joinpath("echo.py").write_text(
        "def answer(record):\n"
        "    with open('calls.txt', 'a') as file: file.write(record['id'] + '\\n')\n"
        "    return '4' if record.get('target') else record['input']\n",
        encoding="utf-8",
    )
    system = {"name": "echo", "python": "echo.py:answer"}
    suite = {"name": "small", "data": "tasks.jsonl", "systems": [system], **changes}
    if policy is not None:
        suite["policy"] = "policy.yaml"
        folder.joinpath("policy.yaml").write_text(json.dumps(policy), encoding="utf-8")
    folder.joinpath("suite.yaml").write_text(json.dumps(suite), encoding="utf-8")


def calls() -> list[str]:
    return sorted(Path("calls.txt").read_text(encoding="utf-8").split())


def test_a_suite_is_a_test_per_scenario(pytester: pytest.Pytester, run: Run) -> None:
    write_suite(pytester.path, runs=2)
    assert run().ret == pytest.ExitCode.NO_TESTS_COLLECTED  # nobody has named it
    done = run("suite.yaml", "-v")
    done.assert_outcomes(passed=2, failed=1)
    done.stdout.fnmatch_lines(
        [
            "suite.yaml::a PASSED*",
            "suite.yaml::b FAILED*",
            "suite.yaml::c PASSED*",
            "b: passed in 0 of 2 runs",
            "run 1:",
            "*input: say no",
            "*answer: say no",
            '*forbidden: refuses: contains "no"',
            "suite.yaml: 2 of 3 scenarios passed; results in results/small/*",
        ]
    )
    assert calls() == ["a", "a", "b", "b", "c", "c"]
    folder = re.findall(r"results in (\S+)", done.stdout.str())[0]
    assert len(Path(folder, "records.jsonl").read_text(encoding="utf-8").splitlines()) == 6


def test_only_what_is_chosen_is_called(pytester: pytest.Pytester, run: Run) -> None:
    write_suite(pytester.path)
    pytester.makeini("[pytest]\ncalipers_suites = *suite.yaml")
    run("-k", "easy or c").assert_outcomes(passed=2, deselected=1)
    assert calls() == ["a", "c"]
    run("--collect-only", "-q").stdout.fnmatch_lines(["suite.yaml::a", "suite.yaml::b"])
    assert calls() == ["a", "c"]
    run("suite.yaml::b").assert_outcomes(failed=1)
    assert calls() == ["a", "b", "c"]
    write_suite(pytester.path, sample={"n": 1})
    run().stdout.fnmatch_lines(["note: sample: 1 of 3 tasks are run; *"])


def test_a_policy_decides_on_scenarios_that_it_does_not_require(
    pytester: pytest.Pytester, run: Run
) -> None:
    rule: dict[str, Any] = {"thresholds": {"blocking": {"pass_rate": 40}}, "undecided": "ignore"}
    write_suite(pytester.path, policy=rule)
    done = run("suite.yaml", "-rx")
    done.assert_outcomes(passed=3, xfailed=1)
    done.stdout.fnmatch_lines(["XFAIL suite.yaml::b - failed; the policy decides"])
    done.stdout.fnmatch_lines(["suite.yaml::policy: the gate says pass"])
    write_suite(pytester.path, policy={**rule, "required_scenarios": {"ids": ["b"]}})
    done = run("suite.yaml")
    done.assert_outcomes(passed=2, failed=2)
    done.stdout.fnmatch_lines(["FAILED suite.yaml::policy - the gate says fail: b"])
    run("suite.yaml::b").assert_outcomes(failed=1)


def test_several_systems_and_tiers_are_told_apart(pytester: pytest.Pytester, run: Run) -> None:
    systems = [{"name": name, "python": "echo.py:answer"} for name in ("one", "two")]
    tiers = [{"name": "T0"}, {"name": "T1"}]
    write_suite(pytester.path, systems=systems, tiers=tiers)
    done = run("suite.yaml", "-v")
    done.assert_outcomes(passed=8, failed=4)
    done.stdout.fnmatch_lines(["suite.yaml::a?one-T0? PASSED*", "suite.yaml::a?two-T1? PASSED*"])


def test_mistakes_in_a_suite_and_calls_that_fail_are_told(
    pytester: pytest.Pytester, run: Run
) -> None:
    write_suite(pytester.path, run=3)
    done = run("suite.yaml")
    done.assert_outcomes(errors=1)
    done.stdout.fnmatch_lines(["*suite.yaml*run*"])
    write_suite(pytester.path)
    pytester.path.joinpath("echo.py").write_text("def answer(record): 1 / 0\n", encoding="utf-8")
    done = run("suite.yaml")
    done.assert_outcomes(failed=3)
    done.stdout.fnmatch_lines(["*error: exception: ZeroDivisionError*"])
    write_suite(pytester.path, budget_calls=1, concurrency=1)
    run("suite.yaml").stdout.fnmatch_lines(["b: not called: the budget is spent"])
    pytester.path.joinpath("other.yaml").write_text("data: 1\n", encoding="utf-8")
    done = run("other.yaml")  # left to whoever knows it
    assert done.ret == pytest.ExitCode.USAGE_ERROR


@pytest.mark.long
def test_what_workers_of_xdist_find_reaches_the_summary(
    pytester: pytest.Pytester, run: Run
) -> None:
    rule = {"thresholds": {"blocking": {"pass_rate": 40}}, "undecided": "ignore"}
    write_suite(pytester.path, policy=rule)
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.calipers(runs=3)
        @pytest.mark.parametrize("number", range(4))
        def test_number(number, calipers):
            calipers.check(str(number), number={"value": number})
        """
    )
    done = run("-p", "xdist", "-n", "2", "suite.yaml", ".")
    done.assert_outcomes(passed=3 + 4, xfailed=1)
    told = done.stdout.str()
    assert len(re.findall(r"test_number\[\d\]: passed in 3 of 3 runs", told)) == 4
    done.stdout.fnmatch_lines(["suite.yaml: 2 of 3 scenarios passed; results in *"])
    assert calls() == ["a", "b", "c"]  # by one worker, for both

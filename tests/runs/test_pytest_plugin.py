"""The pytest plug-in: tests run several times, and the fixture."""

import tomllib
from pathlib import Path

import pytest

from tests.runs.pytest_at_hand import PLUGIN, ROOT, Run, libraries_stay_loaded, run

__all__ = ["libraries_stay_loaded", "run"]  # fixtures


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
    done.stdout.fnmatch_lines(["*::test_accuracy:*", "*accuracy*90 %*"])

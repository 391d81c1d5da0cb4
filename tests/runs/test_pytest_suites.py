"""The pytest plug-in: suites as tests, a test per scenario, with xdist too."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.runs.pytest_at_hand import Run, libraries_stay_loaded, run

__all__ = ["libraries_stay_loaded", "run"]  # fixtures


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

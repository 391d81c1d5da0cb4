"""Which folder a run goes to, what it reuses, and what makes answers stale."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

import calipers as cal
from benchmarks.model_server import ModelServer
from calipers.dashboard.catalog import Catalog
from calipers.records.result_folder import find_folder
from tests.commands import run as calipers
from tests.files import write_lines
from tests.judges.test_rubrics import rubric_file
from tests.judges.test_suites import judge_in
from tests.runs.suites_at_hand import ANSWER, SuiteFolder, chat, suite_folder, sums

SOLVER = """
import os
from helper import LIFT

def answer(record):
    with open(os.path.join(os.path.dirname(__file__), "calls"), "a") as log:
        log.write("x")
    return str(int(record["input"].split()[0]) + LIFT)
"""


@pytest.fixture
def solver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SuiteFolder:
    """A suite in the current folder whose function imports a module."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "solver.py").write_text(SOLVER)
    (tmp_path / "helper.py").write_text("LIFT = 1\n")
    (tmp_path / "policy.yaml").write_text("thresholds: {blocking: {accuracy: 90}}\n")
    system = {"name": "s", "python": "solver.py:answer"}
    return suite_folder(tmp_path, sums(3), [system], policy="policy.yaml")


def run(*options: str) -> Result:
    return calipers("run", "suite.yaml", "--no-report", *options)


def runs() -> list[Path]:
    return sorted(Path("results/test").iterdir())


def calls() -> int:
    return Path("calls").stat().st_size


def verdict(folder: Path) -> str:
    return str(json.loads((folder / "gate.json").read_text())["verdict"])


@pytest.mark.usefixtures("solver")
class TestTheDefaultFolder:
    """results/NAME/TIMESTAMP."""

    def test_a_complete_run_is_scored_again_and_says_so(self) -> None:
        assert run().exit_code == 0
        again = run()
        assert again.exit_code == 0
        assert "nothing new to call: 3 answers reused; --fresh calls again" in again.stderr
        (folder,) = runs()
        assert json.loads((folder / "manifest.json").read_text())["answers"] == {
            "new": 0,
            "reused": 3,
        }
        assert calls() == 3

    def test_an_incomplete_run_is_finished(self) -> None:
        assert run().exit_code == 0
        (folder,) = runs()
        journal = folder / "records.jsonl"
        journal.write_bytes(journal.read_bytes().split(b"\n")[0] + b"\n")
        again = run()
        assert "3 of 3 calls, 2 answers new, 1 reused" in again.stderr
        assert (runs(), calls()) == ([folder], 5)

    def test_fresh_calls_everything_again_in_a_new_folder(self) -> None:
        assert run().exit_code == 0
        assert run("--fresh").exit_code == 0
        assert (len(runs()), calls()) == (2, 6)
        assert all(verdict(folder) == "pass" for folder in runs())

    @pytest.mark.parametrize(
        ("change", "told"),
        [
            (lambda: Path("solver.py").write_text(SOLVER + "\n"), "solver.py has changed"),
            (lambda: Path("helper.py").write_text("LIFT = 2\n"), "helper.py has changed"),
            (lambda: write_lines(Path("tasks.jsonl"), sums(3)[::-1]), "tasks.jsonl has other"),
        ],
    )
    def test_what_has_changed_is_called_again_in_a_new_folder(
        self, change: Callable[[], object], told: str
    ) -> None:
        assert run().exit_code == 0
        before = [(each, each.read_bytes()) for each in runs()[0].iterdir()]
        change()
        again = run()
        assert f"since {runs()[0].name}, {told}" in again.stderr
        assert (len(runs()), calls()) == (2, 6)
        assert again.exit_code == (1 if "helper" in told else 0)
        assert [(each, each.read_bytes()) for each, _ in before] == before

    def test_a_changed_suite_begins_a_new_folder(self, solver: SuiteFolder) -> None:
        assert run().exit_code == 0
        solver.write(answer=ANSWER)
        assert 'answer was not there, is {"after": "ANSWER:"' in run().stderr
        solver.write(answer=ANSWER, concurrency=2, retries=0, timeout_seconds=9)
        assert "3 reused" in run().stderr
        assert len(runs()) == 2

    def test_a_changed_policy_decides_anew_on_the_same_answers(self) -> None:
        assert run().exit_code == 0
        Path("policy.yaml").write_text("thresholds: {blocking: {latency_p95: '< 0.000001ms'}}\n")
        again = run()
        assert again.exit_code == 1
        assert "policy.yaml has changed: the answers that are there are decided on" in again.stderr
        assert (len(runs()), calls()) == (1, 3)

    def test_a_policy_that_decided_which_calls_were_made_must_stay(self) -> None:
        assert run("--until-decided", "-o", "out").exit_code == 0
        Path("policy.yaml").write_text("thresholds: {blocking: {accuracy: 10}}\n")
        refused = run("--until-decided", "-o", "out")
        assert refused.exit_code == 2
        assert "policy.yaml has changed" in refused.stderr

    def test_a_run_that_is_at_work_is_waited_for(self) -> None:
        assert run().exit_code == 0
        with (runs()[0] / ".lock").open("w") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            refused = run()
        assert refused.exit_code == 2
        assert "another run is at work in this folder" in refused.stderr
        assert len(runs()) == 1

    def test_a_root_that_is_a_file_is_told(self) -> None:
        Path("results").write_text("a file")
        refused = run()
        assert refused.exit_code == 2
        assert "-o FOLDER" in refused.stderr

    def test_an_empty_folder_of_a_run_that_never_began_is_used(self) -> None:
        Path("results/test/2026-01-01T000000Z").mkdir(parents=True)
        assert run().exit_code == 0
        assert len(runs()) == 1

    def test_a_clock_that_was_set_back_does_not_bring_back_old_answers(self) -> None:
        assert run().exit_code == 0
        runs()[0].rename("results/test/2999-01-01T000000Z")
        Path("helper.py").write_text("LIFT = 2\n")
        assert run().exit_code == 1
        assert runs()[-1].name == "2999-01-01T000001Z"
        again = run()
        assert again.exit_code == 1
        assert "3 reused" in again.stderr

    def test_a_folder_that_cannot_be_read_is_left_alone(self) -> None:
        assert run().exit_code == 0
        (runs()[0] / "manifest.json").write_text('{"schema": "calipers.run/1"}')
        assert run().exit_code == 0
        assert (len(runs()), calls()) == (2, 6)

    def test_reports_and_python_take_the_newest(self) -> None:
        first = cal.run("suite.yaml", report=False)
        Path("helper.py").write_text("LIFT = 2\n")
        second = cal.run("suite.yaml", report=False)
        assert (first.new, first.reused, second.new, second.reused) == (3, 0, 3, 0)
        report = cal.report("results/test")
        assert report.gate is not None
        assert report.gate.verdict == "fail"
        assert report.facts["Answers"] == "3 new in the last run, 0 reused"
        assert calipers("report", "results/test").exit_code == 0
        assert (runs()[-1] / "report.html").exists()


@pytest.mark.usefixtures("solver")
def test_runs_of_before_there_were_folders_for_each_stay_in_the_list() -> None:
    root = Path("results/test")
    assert run("-o", str(root)).exit_code == 0
    assert run().exit_code == 0
    names = {entry.name for entry in Catalog(Path("results")).list_entries()}
    newest = find_folder(root)
    assert newest is not None
    assert names == {"test", f"test/{newest.name}"}


class TestANamedFolder:
    """-o FOLDER."""

    def test_changed_code_is_refused_until_it_is_begun_anew(self, solver: SuiteFolder) -> None:
        assert solver.run().exit_code == 0
        Path("helper.py").write_text("LIFT = 2\n")
        refused = solver.run()
        assert (refused.exit_code, calls()) == (2, 3)
        assert "helper.py has changed" in refused.stderr
        assert "--fresh" in refused.stderr
        again = solver.run("--fresh")
        assert (again.exit_code, calls()) == (1, 6)
        (kept,) = (each for each in solver.path.iterdir() if each.name.startswith("out."))
        assert str(kept) in again.stderr
        assert (verdict(kept), verdict(solver.results)) == ("pass", "fail")
        assert len((kept / "records.jsonl").read_text().splitlines()) == 3

    def test_fresh_in_a_folder_that_is_not_there_or_not_ours(self, solver: SuiteFolder) -> None:
        assert solver.run("--fresh").exit_code == 0
        (solver.results / "manifest.json").write_text("{}")
        assert solver.run("--fresh").exit_code == 2

    def test_another_environment_is_another_server(
        self, solver: SuiteFolder, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        system = {"name": "m", "model": "ollama:tiny", "price": {"input": 1, "output": 1}}
        suite = solver.write(systems=[system], policy=None)
        with ModelServer().in_thread() as one, ModelServer().in_thread() as two:
            monkeypatch.setenv("OLLAMA_BASE_URL", one)
            assert suite.run().exit_code == 0
            monkeypatch.setenv("OLLAMA_BASE_URL", two)
            refused = suite.run()
        assert refused.exit_code == 2
        assert "the environment variable OLLAMA_BASE_URL has another value" in refused.stderr
        assert one not in (suite.results / "manifest.json").read_text()

    def test_a_changed_price_list_is_told(
        self, solver: SuiteFolder, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert solver.run().exit_code == 0
        path = solver.results / "manifest.json"
        manifest = json.loads(path.read_text())
        listed = {"usd_per_million": {"input": 1.0}, "source": "list 1"}
        path.write_text(json.dumps({**manifest, "prices": {"s": listed}}))
        newer = {"usd_per_million": {"input": 2.0}, "source": "list 2"}
        monkeypatch.setattr(
            "calipers.runs.run.make_manifest",
            lambda *_: {**manifest, "prices": {"s": newer}},
        )
        refused = solver.run()
        assert refused.exit_code == 2
        assert "the price of s has changed (list 1 then, list 2 now)" in refused.stderr

    def test_a_changed_rubric_is_refused(self, solver: SuiteFolder) -> None:
        rubric = rubric_file(solver.path)
        with ModelServer().in_thread() as url:
            suite = solver.write(judges=[judge_in(url, rubric="rubric.yaml")], policy=None)
            assert suite.run().exit_code == 0
            rubric.write_text(rubric.read_text().replace("It runs.", "It compiles."))
            refused = suite.run()
        assert refused.exit_code == 2
        assert "the rubric of good has other content" in refused.stderr


def test_fresh_takes_no_reply_from_a_cache(tmp_path: Path) -> None:
    server = ModelServer()
    with server.in_thread() as url:
        suite = suite_folder(tmp_path, sums(3), [chat(url)], answer=ANSWER, cache="cache")
        assert suite.run().exit_code == 0
        assert suite.run("--fresh").exit_code == 0
    assert sum(server.asked.values()) == 6


def test_old_verdicts_do_not_stand_beside_a_run_that_ends_badly(
    solver: SuiteFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert solver.run().exit_code == 0
    assert verdict(solver.results) == "pass"
    journal = solver.results / "records.jsonl"
    journal.write_bytes(journal.read_bytes().split(b"\n")[0] + b"\n")

    def breaks(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("calipers.runs.call.CallMaker.all", breaks)
    assert solver.run().exit_code == 3
    left = {each.name for each in solver.results.iterdir()}
    assert left.isdisjoint({"gate.json", "score.json", "report.html"})


@pytest.mark.usefixtures("solver")
def test_code_that_changes_during_the_run_is_told() -> None:
    edits = "Path(__file__).with_name('helper.py').write_text('LIFT = 2')"
    Path("solver.py").write_text(
        SOLVER.replace("    return", f"    {edits}\n    return").replace(
            "import os", "import os\nfrom pathlib import Path", 1
        )
    )
    first = run()
    assert "helper.py has changed during the run" in first.stderr
    assert "helper.py has changed" in run().stderr
    assert len(runs()) == 2


@pytest.mark.skipif(os.geteuid() == 0, reason="root may do anything")
def test_a_verdict_that_cannot_be_removed_stops_the_run(solver: SuiteFolder) -> None:
    assert solver.run().exit_code == 0
    solver.results.chmod(0o500)
    assert solver.run().exit_code == 2


@pytest.mark.usefixtures("solver")
def test_a_module_is_imported_as_it_is_now() -> None:
    """A second run in one process, as in a notebook, must not call what it imported before."""

    def accuracy() -> Any:
        score = cal.run("suite.yaml", report=False).score
        assert score is not None
        return score.groups[0].metrics["accuracy"].value

    found = []
    for lift in (1, 2, 1):
        Path("helper.py").write_text(f"LIFT = {lift}\n")
        found.append(accuracy())
    assert found == [1.0, 0.0, 1.0]


def test_a_module_that_only_the_running_code_can_find_is_noted(solver: SuiteFolder) -> None:
    """Agents often put a folder on sys.path themselves."""
    Path("lib").mkdir()
    Path("lib/far_away.py").write_text("LIFT = 1\n")
    finds = "import os, sys\nsys.path.append(os.path.join(os.path.dirname(__file__), 'lib'))\n"
    Path("solver.py").write_text(finds + SOLVER.replace("from helper", "from far_away"))
    assert solver.run().exit_code == 0
    assert list(solver.json("manifest.json")["imported"]) == ["lib/far_away.py"]
    assert "3 reused" in solver.run().stderr
    Path("lib/far_away.py").write_text("LIFT = 2\n")
    refused = solver.run()
    assert refused.exit_code == 2
    assert "lib/far_away.py has changed" in refused.stderr
    assert solver.run("--fresh").exit_code == 1


def test_modules_of_one_name_in_two_suites_are_told_apart(tmp_path: Path) -> None:
    for lift in (1, 2):
        folder = tmp_path / str(lift)
        folder.mkdir()
        (folder / "solver.py").write_text(SOLVER)
        (folder / "helper.py").write_text(f"LIFT = {lift}\n")
        suite = suite_folder(folder, sums(1), [{"name": "s", "python": "solver.py:answer"}])
        assert suite.run().exit_code == 0
        assert suite.records()[0]["answer"] == str(lift)

"""`calipers report`: where it writes, what it refuses, and what a run leaves behind."""

from __future__ import annotations

import sys
from pathlib import Path
from shutil import copytree

import pytest
from click.testing import CliRunner, Result

import calipers as cal
from calipers.cli import app
from tests.examples import first_of
from tests.files import write_lines
from tests.reports.pages_at_hand import page_of, records
from tests.runs.suites_at_hand import SuiteFolder, suite_folder

pytest.importorskip("jinja2", reason="Jinja is not installed (extra `report`)")
pytest.importorskip("vl_convert", reason="vl-convert is not installed (extra `report`)")

SOLVER = "def answer(record):\n    return {'answer': '4', 'prob_correct': 0.9}\n"


def run(*args: object) -> Result:
    result = CliRunner().invoke(app, [str(arg) for arg in args])
    assert not result.exception or isinstance(result.exception, SystemExit)
    return result


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write_lines(tmp_path / "records.jsonl", records())


@pytest.fixture
def ran(tmp_path: Path, ran_once: SuiteFolder) -> SuiteFolder:
    copytree(ran_once.path, tmp_path, dirs_exist_ok=True)
    return SuiteFolder(tmp_path, ran_once.suite)


@pytest.fixture(scope="module")
def ran_once(tmp_path_factory: pytest.TempPathFactory) -> SuiteFolder:
    tmp_path = tmp_path_factory.mktemp("suite")
    (tmp_path / "solver.py").write_text(SOLVER, encoding="utf-8")
    (tmp_path / "policy.yaml").write_text(
        "thresholds: {blocking: {accuracy: '>= 90%'}}\nweights: {by_category: {hard: 3}}\n",
        encoding="utf-8",
    )
    tasks = [
        {"id": "a", "input": "2 + 2", "target": "4", "category": "easy"},
        {"id": "b", "input": "2 + 3", "target": "5", "category": "hard"},
    ]
    system = {"name": "four", "python": "solver.py:answer"}
    suite = suite_folder(tmp_path, tasks, [system], policy="policy.yaml")
    assert suite.run(report=True).exit_code == 1
    return suite


def test_a_page_is_written_where_it_is_asked_for(data: Path, tmp_path: Path) -> None:
    place = tmp_path / "x.html"
    result = run("report", data, "-o", place)
    assert result.exit_code == 0
    assert result.stdout == ""
    assert f"{place}: 120 records" in result.stderr
    assert place.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_without_a_name_it_is_report_html_here(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("report", data.name).exit_code == 0
    assert (tmp_path / "report.html").exists()


def test_markdown_by_format_and_by_name(data: Path, tmp_path: Path) -> None:
    told = run("report", data, "--format", "markdown", "-o", "-")
    assert told.exit_code == 0
    assert told.stdout.startswith("# alpha and beta on 30 tasks\n")
    run("report", data, "-o", tmp_path / "r.md")
    assert (tmp_path / "r.md").read_text(encoding="utf-8") == told.stdout


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files without pictures, where only the files matter: to draw takes longer than all else."""
    monkeypatch.setattr("calipers.reports.charts.chart.Chart.render", lambda *_: b"x")


@pytest.mark.usefixtures("undrawn")
def test_figures_for_a_paper(data: Path, tmp_path: Path) -> None:
    folder = tmp_path / "figures"
    assert run("report", data, "-o", tmp_path / "r.md", "--figures", folder).exit_code == 0
    names = {path.name for path in folder.iterdir()}
    assert {"reliability.svg", "reliability.png", "latency.svg", "cost_pass_rate.svg"} <= names
    assert {"ranking.svg", "ranking.pdf", "ranking.png"} <= names


@pytest.mark.usefixtures("undrawn")
def test_a_bundle_for_a_paper(data: Path, tmp_path: Path) -> None:
    folder = tmp_path / "paper"
    done = run("report", data, "-o", tmp_path / "r.md", "--bundle", folder)
    assert done.exit_code == 0
    written = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert f"{folder}: {len(written)} files" in done.stderr
    assert {
        f"tables/{name}.tex" for name in ("leaderboard", "pairs", "metrics", "tasks")
    } <= written
    assert {"tables/by-category.csv", "figures/ranking.pdf", "methods.tex"} <= written
    tables = {path for path in written if path.startswith("tables/")}
    assert {path.rpartition(".")[0] + ".csv" for path in tables} <= tables
    assert "\\toprule" in (folder / "tables/leaderboard.tex").read_text(encoding="utf-8")
    paragraph = (folder / "methods.md").read_text(encoding="utf-8")
    for said in ("120 records of 2 systems on 30 tasks", "Wilson", "common to all", "seed 0"):
        assert said in paragraph
    pairs = (folder / "tables/pairs.csv").read_text(encoding="utf-8").splitlines()
    assert pairs[0].startswith("a − b,difference,difference low,difference high,p,")
    again = cal.report(str(data), bundle=tmp_path / "again").to_html()
    assert (tmp_path / "again/report.html").read_text(encoding="utf-8") == again
    for name in written:
        assert (tmp_path / "again" / name).read_bytes() == (folder / name).read_bytes()


def test_a_bundle_needs_a_folder(data: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    assert (
        run("report", data, "-o", tmp_path / "r.md", "--bundle", tmp_path / "file").exit_code == 2
    )


def test_a_run_leaves_a_report_with_its_verdict(ran: SuiteFolder) -> None:
    page = page_of((ran.results / "report.html").read_text(encoding="utf-8"))
    assert "Fail" in page.text
    assert "50 %, required ≥ 90 %" in page.text
    assert "four (solver.py:answer)" in page.text


def test_a_run_leaves_none_where_none_is_wanted(ran: SuiteFolder) -> None:
    again = ran.run(report=False)
    assert again.exit_code == 1
    assert not (ran.results / "report.html").exists()
    assert "calipers report" in again.stderr


def _read_checks(text: str) -> str:
    return text.partition("required")[2].partition("Read from")[0]


def test_a_result_folder_has_its_own_verdict_and_numbers(ran: SuiteFolder) -> None:
    written = page_of((ran.results / "report.html").read_text(encoding="utf-8"))
    (ran.results / "report.html").unlink()
    assert run("report", ran.results).exit_code == 0
    again = page_of((ran.results / "report.html").read_text(encoding="utf-8"))
    assert again.specs() == written.specs()
    assert _read_checks(again.text) == _read_checks(written.text)


def test_a_policy_decides_anew(ran: SuiteFolder, tmp_path: Path) -> None:
    easy = tmp_path / "easy.yaml"
    easy.write_text("thresholds: {blocking: {accuracy: '>= 10%'}}\n", encoding="utf-8")
    place = tmp_path / "r.md"
    assert run("report", ran.results, "--policy", easy, "-o", place).exit_code == 0
    assert "gate: pass" in place.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["gate.json", "manifest.json", "score.json"])
@pytest.mark.parametrize(
    "content",
    first_of([b'{"schema": 1, "settings": 3, "suite": []}', b"", b"[]", b"{", b"\xff\xfe"]),
)
def test_a_broken_file_in_the_folder_is_left_out(
    ran: SuiteFolder, name: str, content: bytes
) -> None:
    (ran.results / name).write_bytes(content)
    assert run("report", ran.results, "-o", ran.path / "r.md").exit_code == 0


def test_a_run_goes_on_without_the_extra(
    tmp_path: Path, ran: SuiteFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "calipers.support.errors.find_spec", lambda name: None if "jinja" in name else sys
    )
    again = ran.run(report=True)
    assert again.exit_code == 1
    assert "no report.html" in again.stderr
    assert "pip install 'calipers[report]'" in again.stderr
    assert not (ran.results / "report.html").exists()
    told = run("report", ran.results)
    assert told.exit_code == 2
    assert "pip install 'calipers[report]'" in told.stderr
    assert run("report", ran.results, "-o", tmp_path / "r.md").exit_code == 0


def test_a_run_goes_on_where_the_page_cannot_be_made(
    ran: SuiteFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> str:
        raise RuntimeError("no ink")

    monkeypatch.setattr("calipers.reports.pages.report_page.render_report_page", broken)
    again = ran.run(report=True)
    assert again.exit_code == 1
    assert "no report.html: RuntimeError: no ink" in again.stderr


def test_standard_input_is_read_once_and_suffices(data: Path) -> None:
    arguments = ["report", "-", "--format", "markdown", "-o", "-"]
    told = CliRunner().invoke(app, arguments, data.read_text())
    assert told.exit_code == 0
    assert "## What failed" in told.stdout


def test_mistakes_are_told_kindly(data: Path, tmp_path: Path) -> None:
    for arguments, message in (
        ([tmp_path / "nowhere.jsonl", "-o", tmp_path / "r.html"], "no such file"),
        ([data, "-o", tmp_path / "no" / "r.html"], "does not exist"),
        ([data, "-o", tmp_path], "a folder, not a file"),
        ([data, "-o", tmp_path / "r.html", "--by", "nobody"], "no record has a value in nobody"),
        ([data, "-o", tmp_path / "r.html", "--policy", tmp_path / "no.yaml"], "no.yaml"),
    ):
        told = run("report", *arguments)
        assert told.exit_code == 2
        assert message in told.stderr
        assert "Traceback" not in told.stderr
    assert not (tmp_path / "r.html").exists()


def test_no_record_no_report(tmp_path: Path) -> None:
    empty = write_lines(tmp_path / "empty.jsonl", [])
    told = run("report", empty, "-o", tmp_path / "r.html")
    assert told.exit_code == 3
    assert "empty: no records" in told.stderr
    assert not (tmp_path / "r.html").exists()


def test_a_run_that_was_stopped_is_incomplete(ran: SuiteFolder) -> None:
    records = ran.results / "records.jsonl"
    first = records.read_text(encoding="utf-8").splitlines(keepends=True)[0]
    records.write_text(first, encoding="utf-8")
    (ran.results / "gate.json").unlink()
    for name in ("r.md", "r.html"):
        assert run("report", ran.results, "-o", ran.path / name).exit_code == 0
        page = (ran.path / name).read_text(encoding="utf-8")
        assert "1 of 2 calls were made. Run the suite again to finish it." in page
        assert "Incomplete" in page

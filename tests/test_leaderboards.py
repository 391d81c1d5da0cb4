"""The boards of the documentation: the script's findings, and that the pages show what it writes now."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.files import write_lines
from tests.shared_data import needs_shared_data
from tools.leaderboards import PAGES, list_boards, list_pages, load_script, write_board

BOARD = load_script()


def write(folder: Path, *words: str) -> str:
    output = folder / "board.md"
    BOARD.main([*words, "--output", str(output)])
    return output.read_text(encoding="utf-8")


def totals(**passed: int) -> list[dict[str, Any]]:
    return [
        {"model": name, "n": 200, "good": count, "rate": count / 2, "usd": 0.02 * count}
        for name, count in passed.items()
    ]


OF_TOTALS = ("--by", "model", "--tasks", "n", "--passed", "good", "--rate", "rate", "--cost", "usd")


def test_totals_are_independent_samples_with_a_cost_of_pass(tmp_path: Path) -> None:
    rows = totals(llama3=180, qwen=176, mistral=90)
    rows[1]["usd"] = 0.0
    path = tmp_path / "totals.jsonl"
    write_lines(path, rows)
    page = write(tmp_path, str(path), *OF_TOTALS)
    assert "3 systems, 200 tasks each.** 2 of 3 pairs (67 %)" in page
    assert "llama3 cannot be told apart from qwen." in page
    assert "**Of the 2 steps down the list, 1 is sure**: qwen before mistral." in page
    assert re.search(r"\| 1: 90\.0 % \| llama3 \| 90\.0 % \[.*\] \| 1 to 2 \| a \| \$20 \[", page)
    assert re.search(r"\| 2: 88\.0 % \| qwen \|.*\| 1 to 2 \| a \| not known \|", page)
    assert re.search(r"\| 3: 45\.0 % \| mistral \|.*\| 3 \| b \| \$20", page)
    needed = re.search(r"2\.0 points apart: that takes about ([\d,]+) tasks", page)
    assert needed is not None
    assert 3_000 < int(needed[1].replace(",", "")) < 4_500  # 7.85 · 2 · pq / δ², p = .89


def test_where_all_differ_nothing_is_said_of_what_does_not(tmp_path: Path) -> None:
    path = tmp_path / "totals.jsonl"
    write_lines(path, totals(llama3=180, qwen=120, mistral=50))
    page = write(tmp_path, str(path), *OF_TOTALS)
    assert "3 of 3 pairs (100 %)" in page
    assert "**Sure places**: all." in page
    assert "Differences" not in page
    assert "2 are sure**: llama3 before qwen; qwen before mistral." in page


def test_a_published_rate_that_is_not_its_own_counts_is_named(tmp_path: Path) -> None:
    path = tmp_path / "totals.yml"
    rows = totals(llama3=180, qwen=176)
    rows[0]["rate"] = 91.0
    path.write_text(json.dumps(rows), encoding="utf-8")  # JSON is YAML
    page = write(tmp_path, str(path), *OF_TOTALS)
    assert "llama3: the published rate is 91 %, but 180 of 200 are 90.0 %." in page


def test_systems_of_one_name_are_told_apart_by_the_next_field(tmp_path: Path) -> None:
    path = tmp_path / "totals.jsonl"
    rows = totals(llama3=180, qwen=100)
    write_lines(path, [*(row | {"edit": "diff"} for row in rows), rows[1] | {"edit": "whole"}])
    page = write(tmp_path, str(path), *OF_TOTALS, "--by", "edit")
    assert "| llama3 |" in page
    assert "| qwen, diff |" in page
    assert "| qwen, whole |" in page


def test_the_list_is_of_all_answers_and_the_places_of_those_that_all_gave(tmp_path: Path) -> None:
    """A system that leaves the hard questions out leads the list, and no longer where all answer."""
    path = tmp_path / "answers.jsonl"
    rows = [
        {"id": f"q{n}", "model": model, "split": split, "correct": n % 10 < good}
        for split in ("dev", "test")
        for model, good, last in (("llama3", 7, 400), ("llama3:70b", 8, 380), ("qwen", 3, 400))
        for n in range(last)
        if not (model == "llama3" and n % 10 == 9)  # one that it would have got wrong
    ]
    write_lines(path, rows)
    page = write(tmp_path, str(path), "--by", "model", "--where", "split=test")
    assert "3 systems, 342 tasks.**" in page
    assert re.search(r"\| 1: 80\.0 % \| llama3:70b \| 88\.9 %", page)
    assert re.search(r"\| 2: 77\.8 % \| llama3 \| 77\.8 %", page)
    assert "**First place is sure**: llama3:70b" in page
    assert "**Sure places**: all." in page


def test_tasks_of_one_repository_depend_on_each_other(tmp_path: Path) -> None:
    """One solves all of 4 repositories of ten, the other all of 7: that is 7 against 4, not 70 against 40."""
    rows = [
        {"id": f"{repo}-{n}", "model": model, "repo": f"org/{repo}", "passed": repo < solved}
        for model, solved in (("llama3", 4), ("qwen", 7))
        for repo in range(10)
        for n in range(10)
    ]
    path = tmp_path / "trials.jsonl"
    write_lines(path, rows)
    assert "**First place is sure**" in write(tmp_path, str(path), "--by", "model")
    page = write(tmp_path, str(path), "--by", "model", "--cluster", "repo")
    assert "2 systems, 100 tasks by repo.**" in page
    assert "qwen cannot be told apart from llama3" in page


@needs_shared_data
@pytest.mark.parametrize(
    "line",
    [
        pytest.param(line, marks=() if "sat.svg" in line else pytest.mark.long, id=line[-9:])
        for page in list_pages()
        for line in list_boards(page)
    ],
)
def test_pages_show_the_boards_as_they_are_now(line: str, tmp_path: Path) -> None:
    found = next(page for page in list_pages() if line in list_boards(page))
    text = found.read_text(encoding="utf-8")
    shown = text.split(f"<!-- board: {line} -->\n\n")[1].split("<!-- end of board -->")[0]
    assert write_board(line, tmp_path) == shown, "write it again: python -m tools.leaderboards"
    figure = line.split("--figure ")[1]
    assert (tmp_path / figure).read_text(encoding="utf-8").startswith("<svg")
    assert (PAGES / figure).exists()


def test_the_overview_has_the_figures_of_the_boards() -> None:
    boards = "\n".join(page.read_text(encoding="utf-8") for page in list_pages())
    rows = re.findall(
        r"\| \[.*\]\(\w+\.md\) \| ([\d,]+) \| (\d+) \|.*\| (\d+) % \| shared by (\d+) \| (\d+) of (\d+) \|",
        (PAGES / "index.md").read_text(encoding="utf-8"),
    )
    assert len(rows) == sum(len(list_boards(page)) for page in list_pages())
    for tasks, systems, share, first, sure, steps in rows:
        board = re.search(
            rf"\*\*{systems} systems, {tasks} tasks.*?({share} %).*?end of board", boards, re.DOTALL
        )
        assert board is not None, tasks
        assert f"Of the {steps} steps down the list, {sure if sure != '0' else 'none'}" in board[0]
        groups = re.findall(r"^\| \d+: .* \| (a\w*) \|", board[0], re.MULTILINE)
        assert len(groups) == int(first)


def test_a_file_that_cannot_be_read_is_said_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        BOARD.main([str(tmp_path / "nope.jsonl"), "--by", "model"])
    assert stopped.value.code == 2
    assert "nope.jsonl" in capsys.readouterr().err

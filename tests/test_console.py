"""The console blocks of README and docs: every command runs, in order, and prints what is shown."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools.console import (
    File,
    Step,
    list_pages,
    prepare_folder,
    read_page,
    read_steps,
    refresh_page,
    run_steps,
)

ROOT = Path(__file__).resolve().parents[1]
QUICK = ("README.md", "docs/tutorial.md")
_WORD = re.compile(r"[^\W\d_][\w-]{2,}")
_ALIKE = (
    0.8  # of the words shown: numbers, digits and wording may change before `make pages` is run
)


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=() if page in QUICK else pytest.mark.long) for page in list_pages()],
)
def test_the_commands_of_a_page_print_what_it_shows(page: str, tmp_path: Path) -> None:
    prepare_folder(tmp_path)
    steps = read_page((ROOT / page).read_text(encoding="utf-8"))
    for step, ran in run_steps(steps, tmp_path):
        if step.command == "echo $?":
            assert ran.stdout.split() == step.shown, f"{page}: the exit code of the command before"
        assert_alike(step, ran.stdout, page)


def assert_alike(step: Step, printed: str, page: str) -> None:
    shown = set(_WORD.findall("\n".join(step.shown)))
    found = shown & set(_WORD.findall(printed))
    assert len(found) >= _ALIKE * len(shown), (
        f"{page}: $ {step.command}\n{printed}\nno longer shown: {sorted(shown - found)}; make pages"
    )


def test_a_page_is_read_and_written_anew(tmp_path: Path) -> None:
    page = (
        "`a.txt`:\n\n```text\nnew  \n```\n\n"
        "```console\n$ ls\nold\n$ cat \\\n    a.txt   # a comment\n$ mkdir b\n$ cat *.txt\nold\n```\n"
    )
    expected = page.replace("\nold\n", "\na.txt\n", 1).replace("\nold\n", "\nnew\n")
    assert refresh_page(page, tmp_path) == expected
    written, *steps = read_page(page)
    assert written == File("a.txt", "new  \n")
    commands = [["ls"], ["cat", "a.txt"], ["mkdir", "b"], ["cat", "*.txt"]]
    assert [step.words for step in steps if isinstance(step, Step)] == commands


def test_a_failing_command_must_show_its_exit_code(tmp_path: Path) -> None:
    failing = read_steps("$ cat nothing.txt\n$ ls\n")
    with pytest.raises(RuntimeError, match=r"nothing\.txt"):
        list(run_steps(failing, tmp_path))
    told = read_steps("$ cat nothing.txt\n$ echo $?\n1\n")
    assert [ran.stdout for _, ran in run_steps(told, tmp_path)] == ["", "1\n"]

"""Console blocks of pages: run as written, in order, and brought up to date.

    python -m tools.console                    every page that has some   (make pages)
    python -m tools.console README.md          these pages
    python -m tools.console --check README.md  run them, and write nothing (make test-package)

A page is run in an empty folder with a copy of `examples/`. A block below a line that consists of a
file's name (`policy.yaml`:) is written there first. What a command prints on standard output is
written below it where the page shows an output; a line `…` in it says that the output is cut, and
it is left as it is. `$ echo $?` shows the exit code of the command before, which is 0 everywhere
else. What cannot be run (it needs a key, a cluster, a server) is in `sh` blocks, and their first
line says why: `# needs a key`.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import chdir
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path

from click.testing import CliRunner

from calipers.cli import app

ROOT = Path(__file__).resolve().parents[1]
WIDTH = "100"
SHELL = ("cat", "cp", "grep", "head", "ls", "mkdir", "sed")
# What installs, or goes on until it is stopped: shown, and not run.
SKIPPED = ("docker", "git", "make", "pip", "pytest", "source")
_SHOW_CODE = "echo $?"
_JOINED = "2>&1"  # notes, on standard error, are shown too
_CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_BLOCK = re.compile(r"^(?:`([\w./-]+)`:\n\n)?```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@dataclass
class Step:
    """A command of a page, and what the page shows below it."""

    command: str
    shown: list[str] = field(default_factory=list)

    @property
    def words(self) -> list[str]:
        """The command as a shell reads it."""
        return shlex.split(self.command.replace("\\\n", " "), comments=True)

    @property
    def is_run(self) -> bool:
        """Whether the command can be run here."""
        words = self.words
        return bool(words) and words[0] not in SKIPPED and words[:2] != ["calipers", "view"]


@dataclass(frozen=True)
class File:
    """A file that a page shows, and that later commands read."""

    name: str
    text: str


@dataclass(frozen=True)
class Ran:
    """What a command printed, and its exit code."""

    stdout: str
    code: int
    everything: str


def read_steps(block: str) -> list[Step]:
    """Return the commands of a block with what it shows below each."""
    steps: list[Step] = []
    is_continued = False
    for line in block.splitlines():
        if line.startswith("$ "):
            steps.append(Step(line[2:]))
        elif is_continued:
            steps[-1].command += f"\n{line}"
        else:
            steps[-1].shown.append(line)
        is_continued = not steps[-1].shown and line.endswith("\\")
    return steps


def read_page(text: str) -> list[Step | File]:
    """Return all commands and files of a page, in order."""
    found: list[Step | File] = []
    for name, kind, block in _BLOCK.findall(text):
        if kind == "console":
            found += read_steps(block)
        elif name:
            found.append(File(name, block))
    return found


def list_pages() -> list[str]:
    """Return README and all pages of docs that have a console block."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [
        str(page.relative_to(ROOT))
        for page in pages
        if _CONSOLE.search(page.read_text(encoding="utf-8"))
    ]


def prepare_folder(folder: Path) -> None:
    """Put a copy of the examples into a folder."""
    unwanted = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "examples", folder / "examples", ignore=unwanted, dirs_exist_ok=True)


def run_steps(parts: Sequence[Step | File], folder: Path) -> Iterator[tuple[Step, Ran]]:
    """Run the commands of a page in a folder, and yield what each printed.

    RuntimeError where one fails and the page does not show its exit code.
    """
    last = Ran("", 0, "")
    run = [part for part in parts if isinstance(part, File) or part.is_run]
    with chdir(folder):
        for part, following in zip_longest(run, run[1:]):
            if isinstance(part, File):
                Path(part.name).write_text(part.text, encoding="utf-8")
                continue
            if part.command == _SHOW_CODE:
                yield part, Ran(f"{last.code}\n", 0, "")
                continue
            last = _run(part)
            is_code_shown = isinstance(following, Step) and following.command == _SHOW_CODE
            if last.code and not is_code_shown:
                raise RuntimeError(f"$ {part.command}\n{last.everything}\nexit code {last.code}")
            yield part, last


def _run(step: Step) -> Ran:
    name, *words = step.words
    is_joined = _JOINED in words
    arguments = [each for word in words if word != _JOINED for each in _expand(word)]
    if name == "calipers":
        result = CliRunner().invoke(app, arguments, env={"COLUMNS": WIDTH})
        shown = result.output if is_joined else result.stdout
        return Ran(shown, result.exit_code, result.output)
    if name == "python":
        command = [sys.executable, *arguments]
    elif name in SHELL:
        command = [name, *arguments]
    else:
        raise ValueError(f"a page says {step.command!r}: only {', '.join(SHELL)} are known")
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)  # noqa: S603
    return Ran(done.stdout, done.returncode, done.stdout + done.stderr)


def _expand(word: str) -> list[str]:
    """Return the files that a word with a `*` matches; the word itself where there are none."""
    found = sorted(map(str, Path().glob(word))) if "*" in word else []
    return found or [word]


def refresh_page(text: str, folder: Path) -> str:
    """Return the page with every output as the commands print it now."""
    parts = read_page(text)
    printed = {id(step): result for step, result in run_steps(parts, folder)}
    remaining = (part for part in parts if isinstance(part, Step))

    def rewrite(found: re.Match[str]) -> str:
        lines: list[str] = []
        for _ in read_steps(found[1]):
            step = next(remaining)
            lines.append(f"$ {step.command}")
            result = printed.get(id(step))
            is_kept = result is None or not step.shown or "…" in step.shown
            lines += step.shown if is_kept or result is None else _tidy(result.stdout)
        return "\n".join(("```console", *lines, "```"))

    return _CONSOLE.sub(rewrite, text)


def _tidy(text: str) -> list[str]:
    lines = "\n".join(line.rstrip() for line in text.splitlines()).strip("\n").splitlines()
    return [line for n, line in enumerate(lines) if line or (n and lines[n - 1])]


def check_page(text: str, folder: Path) -> None:
    """Run the commands of a page; RuntimeError where one ends otherwise than the page says."""
    for step, ran in run_steps(read_page(text), folder):
        if step.command == _SHOW_CODE and ran.stdout.split() != step.shown:
            raise RuntimeError(f"exit code {ran.stdout.strip()}, shown as {step.shown}")


def main() -> None:
    """Bring pages up to date, all or those named on the command line; or only run them: --check."""
    os.environ["COLUMNS"] = WIDTH
    names = [name for name in sys.argv[1:] if name != "--check"] or list_pages()
    for name in names:
        page = (ROOT / name).resolve()
        text = page.read_text(encoding="utf-8")
        with tempfile.TemporaryDirectory() as folder:
            prepare_folder(Path(folder))
            if "--check" in sys.argv:
                check_page(text, Path(folder))
            else:
                page.write_text(refresh_page(text, Path(folder)), encoding="utf-8")


if __name__ == "__main__":
    main()

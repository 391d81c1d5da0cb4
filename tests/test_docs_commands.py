"""Every command, option and Python name that the documentation mentions exists."""

from __future__ import annotations

import ast
import inspect
import re
import shlex
from functools import cache
from pathlib import Path

import click
import pytest

import calipers
from calipers.cli import app

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
_FENCE = re.compile(r"^ *```(\w+)\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
_SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_OPTION = re.compile(r"--?[a-z][\w-]*")
_COMMAND = re.compile(r"(?<![\w/.@:\-\[])(?<!install )calipers +(?!as )([a-z].*)")
_ENDS = frozenset({"|", "||", "&&", ";", ">", ">>", "&", ")"})
# Options of other programs that pages name.
FOREIGN = frozenset(
    "--dependency --log_samples --max-num-seqs --only --parallel --parsable --repeat --rm --served-model-name --timeout --wrap".split()
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_and_options_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    fences = [(kind, body) for kind, body in _FENCE.findall(text) if kind not in {"py", "python"}]
    prose = _FENCE.sub("", text)
    spans = [span.strip() for span in _SPAN.findall(prose)]
    for piece in (*(body for _, body in fences), *spans):
        for line in piece.replace("\\\n", " ").splitlines():
            check_line(line, page)
    known = list_all_options() | FOREIGN
    for span in spans:
        if span.startswith("--"):
            assert span.split()[0].split("=")[0] in known, f"{page}: `{span}`"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_is_not_run_says_why(page: Path) -> None:
    for kind, body in _FENCE.findall(page.read_text(encoding="utf-8")):
        if kind == "sh":
            assert re.match(r"(#!/bin/sh\n)?# needs ", body), (
                f"{page}: an sh block begins {body[:60]!r}"
            )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_python_that_is_not_run_names_what_there_is(page: Path) -> None:
    for kind, body in _FENCE.findall(page.read_text(encoding="utf-8")):
        if kind == "py":
            check_names(ast.parse(body), page)


def check_line(line: str, page: Path) -> None:
    """Check a command of ours within a line: its name, and the options after it."""
    found = _COMMAND.search(line)
    if not found:
        return
    lexer = shlex.shlex(found[1].replace("…", " "), posix=True, punctuation_chars="|&;>)")
    lexer.whitespace_split = True
    try:
        words = list(lexer)
    except ValueError:  # a quotation mark of the prose around
        words = found[1].split()
    command: click.Command = app
    context = click.Context(app)
    for word in words:
        if word in _ENDS:
            break
        if isinstance(command, click.Group) and (inner := command.get_command(context, word)):
            command = inner
        elif command is app:
            raise AssertionError(f"{page}: calipers {word} is no command: {line}")
        elif _OPTION.match(word):
            command = resolve_default(command)
            name = word.split("=")[0]
            assert name in list_options(command), f"{page}: {command.name} has no {name}: {line}"


def resolve_default(command: click.Command) -> click.Command:
    """Return the command that a group is where no subcommand is named."""
    default = getattr(command, "default", None)
    return command.commands[default] if isinstance(command, click.Group) and default else command


def check_names(tree: ast.Module, page: Path) -> None:
    """Check the names of ours that code uses, and the keywords of the functions that it calls."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and _is_package(node.value):
            assert hasattr(calipers, node.attr), f"{page}: calipers has no {node.attr}"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if not _is_package(node.func.value):
                continue
            parameters = inspect.signature(getattr(calipers, node.func.attr)).parameters
            is_open = any(each.kind is each.VAR_KEYWORD for each in parameters.values())
            for keyword in node.keywords:
                assert is_open or keyword.arg in parameters, f"{page}: {keyword.arg}="


def _is_package(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "cal"


@cache
def list_options(command: click.Command) -> frozenset[str]:
    """Return the options that a command takes."""
    found = {name for each in command.params for name in (*each.opts, *each.secondary_opts)}
    return frozenset(found | {"--help", "--help-all"})


@cache
def list_all_options() -> frozenset[str]:
    """Return the options of all commands."""
    found: set[str] = set()
    waiting: list[click.Command] = [app]
    while waiting:
        command = waiting.pop()
        found |= list_options(command)
        if isinstance(command, click.Group):
            context = click.Context(command)
            inner = (command.get_command(context, each) for each in command.list_commands(context))
            waiting += [each for each in inner if each]
    return frozenset(found)


def test_what_does_not_exist_is_noticed() -> None:
    check_line("$ calipers gate records.jsonl --policy p.yaml | head --lines 3", ROOT)
    check_line("sbatch --wrap 'calipers run --merge shards/*'", ROOT)
    for wrong in (
        "calipers gat x",
        "run: calipers gate x --polcy p",
        "calipers judge audit --rubric r",
    ):
        with pytest.raises(AssertionError):
            check_line(wrong, ROOT)
    with pytest.raises(AssertionError):
        check_names(ast.parse("cal.score(x, nothing=1)"), ROOT)

"""Workflow commands: GitHub's runner obeys lines of a step's log, whoever wrote what is in them.

It reads `::name::` at the start of a line and `##[name]` anywhere in it. On GitHub Actions both are
broken up in all that this process writes; names, answers and messages are no commands then. Spaces
do it: the runner ignores characters without width where it compares.

>>> _break_up("::error::x, ##[group]y")
': :error::x, ## [group]y'
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from io import TextIOWrapper
from threading import Lock
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from collections.abc import Callable

_COMMAND = re.compile(r"(?:^|(?<=\r))[^\S\r\n]*:(?=:)|##(?=\[)", re.MULTILINE)
_LINE_END = re.compile(r"[\r\n]")
_LOOKS_BACK = 2  # characters of a line begun that say whether the next ones are a command


@contextmanager
def escape_output() -> Iterator[None]:
    """Break up, inside the block, what GitHub Actions would take for a command in the output."""
    with ExitStack() as streams:
        if is_obeyed():
            for stream in (sys.stdout, sys.stderr):
                streams.enter_context(_escape_stream(stream))
        yield


def is_obeyed() -> bool:
    """Return True if this process runs on GitHub Actions."""
    return os.environ.get("GITHUB_ACTIONS") == "true"


def say_commands(lines: list[str]) -> None:
    """Write workflow commands of our own to stderr."""
    for line in lines:
        type(sys.stderr).write(sys.stderr, line)  # not the one of this instance
        sys.stderr.write("\n")
    sys.stderr.flush()


def keep_json(text: str) -> str:
    """Return equal JSON that contains no workflow command."""
    return text.replace("##[", r"#\u0023[") if is_obeyed() else text


@contextmanager
def _escape_stream(stream: TextIO) -> Iterator[None]:
    if isinstance(stream, TextIOWrapper):  # click would go round a stream of ASCII
        stream.reconfigure(encoding="utf-8", errors=stream.errors)
    plain: Callable[[str], int] = stream.write
    begun, lock = "", Lock()  # functions under test print from threads of their own

    def write(text: str) -> int:
        nonlocal begun
        with lock:
            plain(_break_up(begun + text)[len(_break_up(begun)) :])
            begun = _shorten_line(_LINE_END.split(begun + text)[-1])
        return len(text)

    stream.write = write  # type: ignore[method-assign]
    try:
        yield
    finally:
        stream.write = plain  # type: ignore[method-assign]


def _break_up(text: str) -> str:
    return _COMMAND.sub(r"\g<0> ", text)


def _shorten_line(begun: str) -> str:
    """Return the part of an unfinished line that decides whether a command follows."""
    shown = begun.lstrip()
    return shown if len(shown) <= _LOOKS_BACK else f".{shown[-_LOOKS_BACK:]}"

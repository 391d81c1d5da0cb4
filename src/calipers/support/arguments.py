"""Arguments of public functions: their types, and the shorthand they may be written in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from os import PathLike
from pathlib import Path
from types import UnionType
from typing import Any, ParamSpec, TypeVar

from calipers.support.errors import ArgumentTypeError

P = ParamSpec("P")
R = TypeVar("R")

RENAMED = {"rename": "map", "renames": "map"}  # keywords of earlier versions


def refuse_renamed(function: Callable[P, R]) -> Callable[P, R]:
    """Make a function name the present keyword when it is given one of an earlier version."""

    @wraps(function)
    def call(*args: P.args, **options: P.kwargs) -> R:
        for keyword in RENAMED.keys() & options.keys():
            raise ArgumentTypeError(
                f"{function.__name__}() has no option {keyword}",
                fix=f"use {RENAMED[keyword]} instead",
            )
        return function(*args, **options)

    return call


def require_type(
    what: str, given: object, kinds: type | UnionType, *, expected: str, fix: str
) -> None:
    """Raise ArgumentTypeError if an argument is of another type than the function takes.

    >>> require_type("run(suite)", 3, str, expected="a suite file", fix="calipers init writes one")
    Traceback (most recent call last):
    calipers.support.errors.ArgumentTypeError: run(suite): expected a suite file, not int
      calipers init writes one
    """
    if not isinstance(given, kinds):
        raise ArgumentTypeError(f"{what}: expected {expected}, not {type(given).__name__}", fix=fix)


def require_callable(what: str, given: object, *, fix: str) -> None:
    """Raise ArgumentTypeError if an argument cannot be called."""
    if not callable(given):
        raise ArgumentTypeError(f"{what}: expected a function, not {type(given).__name__}", fix=fix)


def as_names(what: str, given: str | Sequence[str], *, example: str) -> tuple[str, ...]:
    """Return one name, or several, as a tuple; raise ArgumentTypeError if it is neither."""
    found = [given] if isinstance(given, str) else given
    expected, fix = "a name or a list of names", f"for example {example}"
    require_type(what, found, list | tuple, expected=expected, fix=fix)
    for each in found:
        require_type(what, each, str, expected=expected, fix=fix)
    return tuple(found)


def as_path(what: str, path: str | PathLike[str]) -> Path:
    """Return a path given as text or as a `Path`; raise ArgumentTypeError for anything else."""
    require_type(what, path, str | PathLike, expected="a path", fix='for example "records.jsonl"')
    return Path(path)


def as_files(what: str, given: str | Path | Sequence[str | Path]) -> list[str | Path]:
    """Return one path or address, or several, as a list; raise ArgumentTypeError for others."""
    found: list[Any] = list(given) if isinstance(given, list | tuple) else [given]
    for each in found:
        expected, fix = "a path or a list of paths", f'for example "{what}.jsonl"'
        require_type(what, each, str | Path, expected=expected, fix=fix)
    return found


def as_path_if_any(what: str, path: str | PathLike[str] | None) -> Path | None:
    """Return a path as `as_path` does; None stays None."""
    return None if path is None else as_path(what, path)


def ignore_progress(share: float) -> None:
    """Ignore the share of work done, where no progress is shown."""
    del share

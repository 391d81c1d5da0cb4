"""Shorthand that notebooks may write for arguments, and what it stands for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import ParamSpec, TypeVar

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


def as_names(fields: str | Sequence[str]) -> tuple[str, ...]:
    """Return one name, or several, as a tuple.

    Raises:
        ArgumentTypeError: It is neither.
    """
    found = [fields] if isinstance(fields, str) else fields
    if not isinstance(found, list | tuple) or not all(isinstance(each, str) for each in found):
        raise ArgumentTypeError(
            f"{fields!r}: expected a name or a list of names, not {type(fields).__name__}",
            fix='for example ["human", "judge"]',
        )
    return tuple(found)


def as_path(path: str | Path | None) -> Path | None:
    """Return a path given as text or as a `Path`; None stays None."""
    return None if path is None else Path(path)


def ignore_progress(share: float) -> None:
    """Ignore the share of work done, where no progress is shown."""
    del share

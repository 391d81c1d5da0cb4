"""Choices of the user for reading files: a forced log reader, and tasks to join."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from functools import wraps
from pathlib import Path
from typing import ParamSpec, TypeVar

from calipers.records.options import ReadingOptions
from calipers.support.errors import UsageError
from calipers.support.options import read_options
from calipers.support.quick_dataclasses import dataclass

P = ParamSpec("P")
R = TypeVar("R")

KEYWORDS = ("source", "join", "on")


@dataclass(frozen=True, slots=True)
class ReadingChoices:
    """The log reader that is forced, and the file of tasks to join by a field."""

    source: str | None = None
    join: Path | None = None
    on: str | None = None

    def __post_init__(self) -> None:
        if self.on is not None and self.join is None:
            raise UsageError(f"--on {self.on} needs --join", fix="name the tasks: --join FILE")

    @contextmanager
    def apply(self) -> Iterator[None]:
        """Read the files that are opened inside, in this thread, in this way."""
        token = _CURRENT.set(self)
        try:
            yield
        finally:
            _CURRENT.reset(token)


AS_IT_IS = ReadingChoices()
_CURRENT: ContextVar[ReadingChoices] = ContextVar("reading", default=AS_IT_IS)


def get_reading() -> ReadingChoices:
    """Return how files that are opened now are read."""
    return _CURRENT.get()


def read_with(
    source: str | None = None, join: str | Path | None = None, on: str | None = None
) -> AbstractContextManager[None]:
    """Read the files that are opened inside by this reader, and join them with these tasks.

    Without arguments, files are read as what they are.
    """
    return ReadingChoices(source, None if join is None else Path(join), on).apply()


def take_reading(function: Callable[P, R]) -> Callable[P, R]:
    """Make a function read its files as its keywords `source`, `join` and `on` say."""

    @wraps(function)
    def call(*args: P.args, **options: P.kwargs) -> R:
        given = {name: options[name] for name in KEYWORDS if options.get(name) is not None}
        if not given:
            return function(*args, **options)
        known = read_options(ReadingOptions, "input")
        with read_with(**{name: known[name].check(value) for name, value in given.items()}):
            return function(*args, **options)

    return call

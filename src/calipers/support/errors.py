"""Errors: every message names what went wrong, where, and what to do."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

EXIT_PASS = 0
EXIT_FAILED = 1
EXIT_ERROR = 2
EXIT_INCOMPLETE = 3

_LONG_NAME, _SHOWN = 200, 40  # characters of a name in a message


class CalipersError(Exception):
    """An error shown to the user as `message` and, below it, the fix."""

    exit_code = EXIT_ERROR

    def __init__(self, message: str, *, fix: str) -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix

    def __str__(self) -> str:
        return f"{self.message}\n  {self.fix}"

    def __reduce__(self) -> tuple[object, ...]:
        # Keyword-only arguments do not survive the default pickling, which Spark workers use.
        return _rebuild, (type(self), self.message, self.fix)


class UsageError(CalipersError):
    """An option, a name or a combination that is invalid."""


class ArgumentTypeError(UsageError, TypeError):
    """An argument of another type than the function takes."""


class NotFoundError(UsageError, KeyError):
    """A name that does not exist."""


class DataError(CalipersError):
    """A record that cannot be read: the message names file, row and field."""


class EmptyError(CalipersError):
    """Nothing to measure: no record at all."""

    exit_code = EXIT_INCOMPLETE


class MissingExtraError(CalipersError):
    """A part that is not installed."""

    def __init__(self, message: str, *, extra: str) -> None:
        super().__init__(message, fix=f"install it: pip install 'calipers[{extra}]'")


def require_extra(what: str, *, extra: str, modules: Iterable[str]) -> None:
    """Raise MissingExtraError if a module of an extra is not installed, before any work is done."""
    if any(find_spec(module) is None for module in modules):
        raise MissingExtraError(what, extra=extra)


def make_write_error(path: Path, error: OSError) -> UsageError:
    """Return the error for a file that cannot be written."""
    return UsageError(
        f"{path}: {error.strerror}", fix="check the folder, its permissions and free space"
    )


def _rebuild(kind: type[CalipersError], message: str, fix: str) -> CalipersError:
    error = kind.__new__(kind)
    CalipersError.__init__(error, message, fix=fix)
    return error


def quote_name(name: str) -> str:
    """Return a name for a message: cut where it is long, in quotes where its ends are not seen.

    >>> print(quote_name("llama 3"), quote_name(" a"), quote_name(""), quote_name("x" * 3000))
    llama 3 " a" "" xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx… (3,000 characters)
    """
    if len(name) > _LONG_NAME:
        name = f"{name[:_SHOWN]}… ({len(name):,} characters)"
    is_seen = name == name.strip() and name
    name = "".join(character if character.isprintable() else "\ufffd" for character in name)
    return name if is_seen else f'"{name}"'


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a hint at the known name the user may have meant, to end a message with."""
    choices = sorted(set(known) - {name})  # one that is there and empty was meant
    from difflib import get_close_matches  # noqa: PLC0415 (only for mistakes)

    close = get_close_matches(name, choices, n=1, cutoff=0.5)
    if close:
        return f"did you mean {quote_name(close[0])}?"
    return (
        f"known: {', '.join(map(quote_name, choices))}"
        if choices
        else "there are none to choose from"
    )

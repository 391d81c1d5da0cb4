"""Arguments of public functions: checked as they are declared, and shorthand put in full."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar

from calipers.support.errors import ArgumentTypeError, nearest
from calipers.support.options import Option, list_own_options

T = TypeVar("T")

RENAMED = {"rename": "map", "renames": "map"}  # keywords of earlier versions


def read_keywords(command: str, own: type[T], given: Mapping[str, Any]) -> T:
    """Return the options of a command that a dataclass declares, from what a user gave.

    Raises:
        ArgumentTypeError: A keyword is not known or is missing, or a value is of another type.
        UsageError: A value is refused, a file cannot be read, or values do not go together.
    """
    known = list_own_options(command, own)
    refuse_unknown(command, given, known)
    return own(**read_files(check_keywords(command, given, known), known))


def read_files(checked: Mapping[str, Any], known: Mapping[str, Option]) -> dict[str, Any]:
    """Return values by the names of fields, with what their files hold in place of paths."""
    reads = {option.name: option.read for option in known.values() if option.read is not None}
    return {name: reads[name](v) if name in reads else v for name, v in checked.items()}


def refuse_unknown(command: str, given: Mapping[str, Any], known: Mapping[str, Option]) -> None:
    """Raise ArgumentTypeError for a keyword that no option has."""
    for keyword in given:
        if keyword not in known:
            now = RENAMED.get(keyword)
            fix = f"use {now} instead" if now in known else nearest(keyword, known)
            raise ArgumentTypeError(f"{command}() has no option {keyword}", fix=fix)


def check_keywords(
    command: str, given: Mapping[str, Any], known: Mapping[str, Option]
) -> dict[str, Any]:
    """Return what was given, checked and by the names of fields, with the command's own defaults.

    Raises:
        ArgumentTypeError: A value is of another type, or is missing.
        UsageError: A value is refused.
    """
    for option in known.values():
        if option.required and option.keyword not in given:
            raise ArgumentTypeError(
                f"{command}(): {option.keyword} is missing", fix=f"{option.flag}: {option.help}"
            )
    found = {known[keyword].name: known[keyword].check(value) for keyword, value in given.items()}
    preset = {
        option.name: option.get_default(command) for option in known.values() if option.defaults
    }
    return {**preset, **found}


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


def ignore_progress(share: float) -> None:
    """Ignore the share of work done, where no progress is shown."""
    del share

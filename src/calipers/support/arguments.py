"""What a user gives by keyword: checked as it is declared, and shorthand as what it stands for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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


def ignore_progress(share: float) -> None:
    """Ignore the share of work done, where no progress is shown."""
    del share

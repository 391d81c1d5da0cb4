"""Signatures and documentation of the public functions, made from the declared options."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

from calipers.records.reading import take_reading
from calipers.support.options import Option

_OPTIONS = "options"  # keywords that are all declared; of another name, there are more

F = TypeVar("F", bound=Callable[..., Any])


def declare_keywords(
    command: str, known: Mapping[str, Option], shared: Mapping[str, Option]
) -> Callable[[F], F]:
    """Give a function with `**options` the signature of a command's declared options.

    `help(calipers.score)` and editors then show each with its default and what it does: those that
    it shares with other functions below, the others among the arguments. Those that say how files
    are read apply to whatever the function opens.
    """

    def decorate(function: F) -> F:
        signature = inspect.signature(function)
        function = cast("F", take_reading(function))
        [*plain, rest] = signature.parameters.values()
        keywords = [
            inspect.Parameter(
                option.keyword,
                inspect.Parameter.KEYWORD_ONLY,
                default=inspect.Parameter.empty if option.required else option.get_default(command),
            )
            for option in known.values()
        ]
        further = [] if rest.name == _OPTIONS else [rest]
        function.__signature__ = signature.replace(parameters=[*plain, *keywords, *further])  # type: ignore[attr-defined]
        function.__doc__ = _list_in(function.__doc__ or "", rest.name, known, shared)
        function.options = known  # type: ignore[attr-defined]
        return function

    return decorate


def _list_in(
    text: str, rest: str, known: Mapping[str, Option], shared: Mapping[str, Option]
) -> str:
    """Return a docstring with own options before the keyword `rest`, those it shares at its end."""
    lines = {each.keyword: f"        {each.keyword}: {each.help}\n" for each in known.values()}
    own = "".join(line for keyword, line in lines.items() if keyword not in shared)
    below = "".join(line for keyword, line in lines.items() if keyword in shared)
    listed = text.replace(f"        {rest}: ", f"{own}        {rest}: ", 1)
    return f"{listed}\n\n    Options:\n{below}    " if below else listed

"""Signatures and documentation of the public functions, made from the declared options."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar, cast

from calipers.records.reading import take_reading
from calipers.scores.options import list_options

F = TypeVar("F", bound=Callable[..., Any])


def declare_signature(command: str) -> Callable[[F], F]:
    """Give a function with `**options` the signature of a command's declared options.

    `help(calipers.score)` and editors then show each with its default and what it does. Those that
    say how files are read apply to whatever the function opens.
    """

    def decorate(function: F) -> F:
        known = list_options(command).values()
        signature = inspect.signature(function)
        function = cast("F", take_reading(function))
        plain = [each for each in signature.parameters.values() if each.kind != each.VAR_KEYWORD]
        keywords = [
            inspect.Parameter(
                option.keyword,
                inspect.Parameter.KEYWORD_ONLY,
                default=option.get_default(command),
            )
            for option in known
        ]
        function.__signature__ = signature.replace(parameters=[*plain, *keywords])  # type: ignore[attr-defined]
        lines = (f"        {option.keyword}: {option.help}" for option in known)
        listed = "\n".join(("    Options:", *lines))
        function.__doc__ = f"{function.__doc__ or ''}\n\n{listed}\n    "
        return function

    return decorate

"""The declared options on the command line, and `--help` with the options in groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, wraps
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from calipers.scores.options import list_options
from calipers.support.errors import UsageError
from calipers.support.options import GROUPS, Option

F = TypeVar("F", bound=Callable[..., Any])

_TYPES = {"whole": int, "number": float, "text": str, "any": str}
_FIRST, _OTHERS = "Most used", "Other options"


class GroupedOption(click.Option):
    """An option that `--help` shows under the title of its group."""

    def __init__(self, *args: Any, group: str = "", **attrs: Any) -> None:
        super().__init__(*args, **attrs)
        self.group = group


class GroupedCommand(click.Command):
    """A command whose `--help` shows its options in groups, those that matter most first."""

    def __init__(self, *args: Any, first: Sequence[str] = (), **attrs: Any) -> None:
        super().__init__(*args, **attrs)
        self.first = first

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, a section per group."""
        sections: dict[str, list[tuple[str, str]]] = {_FIRST: []}
        sections |= {title: [] for title in (*GROUPS.values(), _OTHERS)}
        leading = {each.name: each for each in self.get_params(ctx) if each.name in self.first}
        ordered = [leading[name] for name in self.first if name in leading]
        rest = [each for each in self.get_params(ctx) if each.name not in leading]
        for each in (*ordered, *rest):
            title = GROUPS.get(getattr(each, "group", ""), _OTHERS)
            line = each.get_help_record(ctx) if isinstance(each, click.Option) else None
            if line is not None:
                sections[_FIRST if each.name in leading else title].append(line)
        for title, lines in sections.items():
            if lines:
                with formatter.section(title):
                    formatter.write_dl(lines)


def add_own_option(group: str, *names: str, **attrs: Any) -> Callable[[F], F]:
    """Add an option of one command, which `--help` shows in a group."""
    return click.option(*names, cls=GroupedOption, group=group, **attrs)


def add_declared_options(command: str) -> Callable[[F], F]:
    """Add the declared options of a command; its function gets the given ones as `options`.

    Whatever a user leaves out is not passed on: a policy or a suite may say it.
    """
    known = list_options(command)

    def decorate(function: F) -> F:
        @wraps(function)
        def call(**values: Any) -> Any:
            source = click.get_current_context().get_parameter_source
            chosen = {keyword: values.pop(keyword) for keyword in known}
            given = {k: v for k, v in chosen.items() if source(k) is not ParameterSource.DEFAULT}
            return function(**values, options=given)

        decorated: Any = call
        for option in reversed(known.values()):
            decorated = _make_option(option, command)(decorated)
        return decorated  # type: ignore[no-any-return]

    return decorate


def _make_option(option: Option, command: str) -> Callable[[F], F]:
    make = partial(add_own_option, option.group, option.flag, option.keyword, help=option.help)
    if option.kind == "flag":
        return make(is_flag=True)
    more: dict[str, Any] = {}
    if option.kind in ("texts", "paths", "map"):
        more = {"multiple": True}
    elif (default := option.get_default(command)) is not None:
        more = {"default": str(default) if option.kind == "any" else default, "show_default": True}
    if option.kind == "map":
        more["callback"] = _parse_pairs
    return make(type=_find_type(option), metavar=option.metavar, **more)


def _find_type(option: Option) -> Any:
    if option.choices:
        return click.Choice(option.choices)
    if option.kind in ("path", "paths"):
        return click.Path(path_type=Path)
    return _TYPES.get(option.kind)


def _parse_pairs(_: click.Context, __: click.Parameter, pairs: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for pair in pairs:
        name, equals, theirs = pair.partition("=")
        if not (name and equals and theirs):
            raise UsageError(f"--map {pair}: not FIELD=NAME", fix="for example --map answer=output")
        found[name.strip()] = theirs.strip()
    return found

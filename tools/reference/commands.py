"""docs/reference/commands.md: every command with its options, from the command line itself."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click

from calipers.cli import app
from calipers.support.options import GROUPS
from tools.reference.markdown import tabulate

_HELP = {"--help", "--help-all"}
_INTRO = """\
# Commands

Made from the command line (`make reference` writes this page again); `calipers COMMAND --help`
shows the same. [Options](../options.md) has the declared options once, with their Python names;
[exit codes](exit-codes.md) are the same for all commands.
"""


def write_commands_page() -> str:
    """Return docs/reference/commands.md."""
    context = click.Context(app, info_name="calipers")
    lines = [_INTRO]
    lines.extend(_describe_all(app, context))
    return "\n".join(lines)


def _describe_all(group: click.Group, context: click.Context) -> Iterator[str]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield from _describe(command, click.Context(command, info_name=name, parent=context))


def _describe(command: click.Command, context: click.Context) -> Iterator[str]:
    yield f"## {context.command_path}\n"
    yield f"{inspect.cleandoc(command.help or '')}\n"
    usage = " ".join(filter(None, command.collect_usage_pieces(context)))
    yield f"```text\n{context.command_path} {usage}\n```\n"
    shown = [each for each in command.get_params(context) if _is_shown(each)]
    titles = {**GROUPS, "": "Other"}
    rows = [
        [_name(each, context), _help(each), titles[getattr(each, "group", "") or ""]]
        for each in sorted(shown, key=lambda each: _place(each, list(titles)))
    ]
    if rows:
        yield tabulate(("option", "what it does", "group"), rows)
    if isinstance(command, click.Group):
        yield from _describe_all(command, context)


def _is_shown(each: click.Parameter) -> bool:
    return isinstance(each, click.Option) and not each.hidden and _HELP.isdisjoint(each.opts)


def _place(each: click.Parameter, titles: list[str]) -> int:
    return titles.index(getattr(each, "group", "") or "")


def _name(each: click.Parameter, context: click.Context) -> str:
    takes_value = not getattr(each, "is_flag", False)
    metavar = f" {each.make_metavar(context)}" if takes_value else ""
    return f"`{' / '.join((', '.join(each.opts), *each.secondary_opts))}{metavar}`"


def _help(each: click.Parameter) -> str:
    text = inspect.cleandoc(getattr(each, "help", None) or "")
    default = each.default if getattr(each, "show_default", False) else None
    given = "" if default in (None, "") else f" Default: `{default}`."
    return f"{text}{' Required.' if each.required else ''}{given}"

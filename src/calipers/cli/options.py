"""The declared options on the command line, and `--help` with the options in groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial, wraps
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from calipers.metrics.declare.settings import list_metric_options
from calipers.scores.options import list_options
from calipers.support.errors import UsageError, nearest
from calipers.support.options import EXPECTED, GROUPS, Option, find_option

F = TypeVar("F", bound=Callable[..., Any])

PATH = click.Path(path_type=Path)
FILE = click.Path(path_type=Path, dir_okay=False)
_TYPES = {"whole": int, "number": float, "text": str, "any": str}
_FIRST, _OTHERS = "Most used", "Other options"
_ALL = "calipers.cli.options.all"  # in the context of a command: whether all of them are shown
_SET = "metric_settings"


class _Bounded(click.FloatRange):
    """A number whose bounds `--help` shows; the declared option checks them, and offers a fix."""

    def __init__(self, option: Option) -> None:
        super().__init__(
            min=option.at_least if option.above is None else option.above,
            max=option.at_most if option.below is None else option.below,
            min_open=option.above is not None,
            max_open=option.below is not None,
        )
        self._plain: click.ParamType[Any] = click.INT if option.kind == "whole" else click.FLOAT
        self.name = self._plain.name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number in a text, whatever its bounds."""
        return self._plain.convert(value, param, ctx)


class GroupedOption(click.Option):
    """An option that `--help` shows under the title of its group."""

    def __init__(self, *args: Any, group: str = "", **attrs: Any) -> None:
        super().__init__(*args, **attrs)
        self.group = group


class GroupedCommand(click.Command):
    """A command whose `--help` fits on a screen: the options that matter most come first."""

    def __init__(self, *args: Any, first: Sequence[str] = (), **attrs: Any) -> None:
        super().__init__(*args, **attrs)
        self.first = first

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the parameters, and `--help-all`."""
        return [*super().get_params(ctx), _HELP_ALL]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options that matter most, or with `--help-all` every one, by its group."""
        options = [param for param in self.get_params(ctx) if isinstance(param, click.Option)]
        leading = [param for name in self.first for param in options if param.name == name]
        sections = {_FIRST: leading}
        if not leading or ctx.meta.get(_ALL):
            sections |= {title: [] for title in (*GROUPS.values(), _OTHERS)}
            for option in options:
                if option not in leading:
                    title = GROUPS.get(getattr(option, "group", ""), _OTHERS)
                    sections[title].append(option)
        for title, listed in sections.items():
            records = (option.get_help_record(ctx) for option in listed)
            if lines := [record for record in records if record is not None]:
                with formatter.section(title):
                    formatter.write_dl(lines)
        takes_settings = any(option.name == _SET for option in options)
        if takes_settings and ctx.meta.get(_ALL):
            with formatter.section("Settings of metrics (--set NAME=VALUE)"):
                formatter.write_dl([_describe_setting(setting) for setting in _list_settings()])
        elif leading:
            formatter.write_paragraph()
            settings = ", and what --set NAME=VALUE can set" if takes_settings else ""
            formatter.write_text(f"{ctx.command_path} --help-all shows all options{settings}.")


def _show_everything(ctx: click.Context, _: click.Parameter, value: bool) -> None:  # noqa: FBT001
    if value and not ctx.resilient_parsing:
        ctx.meta[_ALL] = True
        click.echo(ctx.get_help())
        ctx.exit()


_HELP_ALL = click.Option(
    ("--help-all",),
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_everything,
    help="Show all options and exit.",
)


def _describe_setting(option: Option) -> tuple[str, str]:
    value = "|".join(option.choices) or option.metavar or EXPECTED[option.kind].split()[-1].upper()
    default = "" if option.default in (None, ()) else f"  [default: {option.default}]"
    return f"{option.key}={value}", f"{option.help}{default}"


def _list_settings() -> list[Option]:
    return [option for option in list_metric_options().values() if option.is_setting]


def add_option(*names: str, help: str, group: str = "", **attrs: Any) -> Callable[[F], F]:  # noqa: A002
    """Add an option that `--help` shows in a group, with its default if it has one."""
    has_default = attrs.get("default") is not None
    return click.option(
        *names, cls=GroupedOption, group=group, help=help, show_default=has_default, **attrs
    )


def add_flag(name: str, text: str, group: str = "") -> Callable[[F], F]:
    """Add an option that is either given or not."""
    return add_option(name, help=text, group=group, is_flag=True)


def add_path(*names: str, help: str, metavar: str = "FILE", **attrs: Any) -> Callable[[F], F]:  # noqa: A002
    """Add an option that names a file or a folder."""
    return add_option(*names, **{"type": PATH, "metavar": metavar, "help": help, **attrs})


def add_output(help: str, **attrs: Any) -> Callable[[F], F]:  # noqa: A002
    """Add the option that names where the output goes."""
    return add_path("-o", "--output", help=help, **attrs)


def add_limits(command: F) -> F:
    """Add the limits on what is held in memory, which every command that reads files has."""
    for name, metavar, text in (
        ("--max-expansion", "N", "Refuse compressed data that expands more than N times [200]."),
        ("--max-record-mb", "MB", "Refuse a line, row or sample of more than MB megabytes [32]."),
    ):
        how = {"type": float, "callback": _limit_reading, "expose_value": False}
        command = add_option(name, help=text, group="input", metavar=metavar, **how)(command)
    return command


def _limit_reading(ctx: click.Context, option: click.Parameter, value: float | None) -> None:
    if value is not None:
        from calipers.records.limits import limit_reading  # noqa: PLC0415 (loads Polars)

        assert option.name is not None
        ctx.with_resource(limit_reading(**{option.name: value}))


def add_declared_options(command: str, own: type | None = None) -> Callable[[F], F]:
    """Add the declared options of a command that reads files, and the limits of reading.

    Its function gets the declared ones that were given as `options`.

    Whatever a user leaves out is not passed on: a policy or a suite may say it.
    """
    known = list_options(command, own)
    takes_settings = any(option.is_setting for option in known.values())

    def decorate(function: F) -> F:
        @wraps(function)
        def call(metric_settings: tuple[str, ...] = (), **values: Any) -> Any:
            source = click.get_current_context().get_parameter_source
            chosen = {keyword: values.pop(keyword) for keyword in known}
            given = {k: v for k, v in chosen.items() if source(k) is not ParameterSource.DEFAULT}
            _note_old_flags([known[keyword] for keyword in given if known[keyword].is_setting])
            return function(**values, options=given | _read_settings(metric_settings, given))

        decorated: Any = add_limits(call)
        if takes_settings:
            decorated = add_option(
                "--set",
                _SET,
                help="Set how metrics are computed, for example bins=15 (repeatable).",
                group="metrics",
                multiple=True,
                metavar="NAME=VALUE",
            )(decorated)
        for option in reversed(known.values()):
            made = _make_option(option, command if option.defaults else "")
            decorated = click.option(cls=lambda *_, made=made: made)(decorated)  # type: ignore[arg-type]
        return decorated  # type: ignore[no-any-return]

    return decorate


def _read_settings(texts: tuple[str, ...], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that `--set NAME=VALUE` names, by their Python keywords.

    Raises:
        UsageError: A text is not NAME=VALUE, names no setting or one twice, or its value is none.
    """
    settings = list_metric_options().values()
    values: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        option = find_option(name.strip(), settings)
        if option is None:
            keys = [setting.key for setting in settings]
            raise UsageError(f"--set {text}: no such setting", fix=nearest(name.strip(), keys))
        if not equals:
            fix = f"{option.spell()}=VALUE: {option.help}"
            raise UsageError(f"--set {text}: not NAME=VALUE", fix=fix)
        keyword = option.keyword
        if option.kind == "texts":
            values[keyword] = (*values.get(keyword, ()), value)
        elif keyword in values or keyword in given:
            raise UsageError(f"--set {text}: {option.key} is there twice", fix="keep one of them")
        else:
            values[keyword] = option.read_text(value)
    return values


def _note_old_flags(used: Sequence[Option]) -> None:
    for option in used:
        note = f"{option.flag} is now written --set {option.key}=…; the old option goes in 0.4"
        click.echo(f"{click.style('note', fg='yellow')}: {note}", err=True)


@cache
def _make_option(option: Option, command: str) -> click.Option:
    """Return an option of the command line; commands share those that are the same for all."""
    more: dict[str, Any] = {"required": True} if option.required else {}
    if option.kind == "flag":
        more |= {"is_flag": True, "default": option.default or None}
    elif option.parse is not None:
        more |= {"multiple": True, "callback": partial(_parse, option.parse)}
        if default := option.get_default(command):
            more["default"] = (",".join(map(str, default)),)
    elif option.kind in ("texts", "paths"):
        more |= {"multiple": True}
    elif option.bare is not None:
        more |= {"is_flag": False, "flag_value": option.bare}
    elif (default := option.get_default(command)) is not None and not option.required:
        more |= {"default": str(default) if option.kind == "any" else default}
    return GroupedOption(
        (option.switch, option.keyword),
        group=option.group,
        hidden=option.is_setting,
        help=option.help,
        show_default=more.get("default") is not None,
        type=_find_type(option),
        metavar=option.metavar,
        **more,
    )


def _find_type(option: Option) -> Any:
    if option.choices:
        return click.Choice(option.choices)
    if option.kind in ("path", "paths"):
        return PATH
    if option.list_bounds():
        return _Bounded(option)
    return _TYPES.get(option.kind)


def _parse(parse: Callable[[tuple[str, ...]], Any], _: Any, __: Any, texts: tuple[str, ...]) -> Any:
    return parse(texts)

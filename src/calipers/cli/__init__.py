"""The command line: parse, call the API, print. Nothing heavy is imported before a command runs."""

from __future__ import annotations

import gc
import os
import sys
from importlib import import_module
from typing import Any

import click

from calipers.support.errors import EXIT_ERROR, EXIT_INCOMPLETE, CalipersError, UsageError
from calipers.support.version import __version__

_COMMANDS = (
    *("score", "run", "gate", "compare", "rank", "report", "view", "power", "explain", "agree"),
    *("judge", "doctor", "metrics", "convert", "init", "schema", "mcp"),
)
_WITHOUT_PLUGINS = frozenset({"init", "schema", "mcp"})  # use nothing that plug-ins register
_YOUNG = 500_000  # objects before the first collection; imports make up to half as many


class KindGroup(click.Group):
    """Commands, each imported when it is asked for; their errors are a message with a fix."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 (click's)
        """Return the names of all commands, whether they have been imported or not."""
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of that name, which stands in the module of that name."""
        if cmd_name in _COMMANDS and cmd_name not in self.commands:
            self.add_command(_import_command(cmd_name))
        return super().get_command(ctx, cmd_name)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; give its errors the contract's exit codes."""
        try:
            return super().invoke(ctx)
        except CalipersError as error:
            _say_error(error)
            ctx.exit(error.exit_code)
        except KeyboardInterrupt:
            click.echo("stopped: nothing was written", err=True)
            ctx.exit(EXIT_INCOMPLETE)
        except BrokenPipeError:
            # The reader has seen enough, as in `calipers metrics | head`; what is left in the
            # buffer must not fail once more when Python ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            ctx.exit(0)
        except OSError as error:
            place = f"{error.filename}: " if error.filename else ""
            fix = "check the space left and the rights, here and in the folder for temporary files"
            _say_error(UsageError(f"{place}{error.strerror or error}", fix=fix))
            ctx.exit(EXIT_ERROR)


def _say_error(error: CalipersError) -> None:
    from calipers.reports.figures import strip_controls  # noqa: PLC0415

    message, fix = (strip_controls(_mask_keys(text)) for text in (error.message, error.fix))
    click.echo(f"{click.style('error', fg='red', bold=True)}: {message}", err=True)
    click.echo(f"  {fix}", err=True)


def _mask_keys(text: str) -> str:
    """Return a text without the keys in the environment, whatever brought them there."""
    from calipers.systems.secrets import mask_for  # noqa: PLC0415 (only where something is wrong)

    return mask_for().mask_text(text)


@click.group(cls=KindGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="calipers")
def app() -> None:
    """Measure language models and agents: every metric from their records.

    Exit codes: 0 pass, 1 a gate failed, 2 usage, configuration or data error, 3 incomplete.
    """


def _import_command(name: str) -> click.Command:
    from calipers.cli.shared import add_plugin_option  # noqa: PLC0415

    command: click.Command = getattr(import_module(f"calipers.cli.{name}"), name)
    if name not in _WITHOUT_PLUGINS:
        single = command.commands.values() if isinstance(command, click.Group) else [command]
        for each in single:
            add_plugin_option(each)
    return command


def main() -> None:
    """Run the command line; an unexpected error is shown with how to report it."""
    gc.set_threshold(_YOUNG, 20, 20)
    try:
        app(standalone_mode=True)
    except Exception as error:  # the last line of defence
        said = _mask_keys(f"error: {type(error).__name__}: {error}")
        click.echo(said, err=True)
        click.echo("  this is a bug in calipers; CALIPERS_DEBUG=1 shows where", err=True)
        if os.environ.get("CALIPERS_DEBUG"):
            raise
        sys.exit(EXIT_ERROR)
    finally:
        gc.freeze()  # a process that ends need not look for garbage


if __name__ == "__main__":
    main()

"""The command line: parse, call the API, print. Nothing heavy is imported before a command runs."""

from __future__ import annotations

import gc
import os
import sys
from importlib import import_module
from typing import Any

import click

from calipers.cli.workflow_commands import escape_output
from calipers.support.errors import EXIT_ERROR, EXIT_INCOMPLETE, CalipersError, UsageError, nearest
from calipers.support.version import __version__

_PURPOSES = {
    "Measure": {
        "run": "Call the systems of a suite, measure, gate and report.",
        "score": "Measure records or logs: every metric with its interval.",
        "judge": "Have a model judge records; calibrate and audit judges.",
        "explain": "Show how a metric came to its value.",
    },
    "Decide": {
        "gate": "Decide whether records pass a policy.",
        "ci": "Make one decision for a pipeline.",
    },
    "Compare": {
        "compare": "Compare runs task by task, with intervals and tests.",
        "rank": "Rank systems, with rank intervals.",
        "agree": "Measure how far raters agree.",
        "power": "Compute how many tasks detect a difference.",
    },
    "Look": {
        "doctor": "Say what files hold, what looks wrong, and what to do next.",
        "report": "Write an HTML page of records or a result folder.",
        "view": "Open the dashboard.",
        "metrics": "List the metrics, or show one in full.",
    },
    "Set up": {
        "init": "Write a suite and a policy to start from.",
        "convert": "Write logs as records: JSON lines or Parquet.",
        "schema": "Print the JSON Schema of a suite or a policy.",
        "mcp": "Answer a coding agent's questions about results.",
    },
}
_COMMANDS = {name: purpose for purpose, names in _PURPOSES.items() for name in names}
_LONG = frozenset({"run", "judge"})  # have a file of their own, not that of their purpose
_WITHOUT_PLUGINS = frozenset({"init", "schema", "mcp"})  # use nothing that plug-ins register
_DECIDING = frozenset({"run", "gate", "ci"})  # an exit code 0 of these says that something passed
_YOUNG = 500_000  # objects before the first collection; imports make up to half as many


class CommandGroup(click.Group):
    """Commands, whose files are imported on demand; their errors are a message with a fix."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 (click's)
        """Return the names of all commands, whether they have been imported or not."""
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of that name; its file is named after its purpose."""
        if cmd_name in _COMMANDS and cmd_name not in self.commands:
            self.add_command(_import_command(cmd_name))
        return super().get_command(ctx, cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the arguments name; where there is none, name the nearest.

        Raises:
            UsageError: No command has that name.
        """
        if args and not args[0].startswith("-") and args[0] not in _COMMANDS:
            fix = nearest(args[0], _COMMANDS)
            raise UsageError(f"calipers {args[0]}: no such command", fix=fix)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 (click's)
        """Write the commands, a section for each purpose."""
        for purpose, names in _PURPOSES.items():
            with formatter.section(purpose):
                formatter.write_dl(list(names.items()))

    def main(self, *args: Any, **more: Any) -> Any:
        """Run the command line; its output holds no workflow commands of GitHub's."""
        with escape_output():
            return super().main(*args, **more)

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
            ctx.exit(EXIT_ERROR if ctx.invoked_subcommand in _DECIDING else 0)
        except OSError as error:
            place = f"{error.filename}: " if error.filename else ""
            fix = "check the space left and the rights, here and in the folder for temporary files"
            _say_error(UsageError(f"{place}{error.strerror or error}", fix=fix))
            ctx.exit(EXIT_ERROR)


def _say_error(error: CalipersError) -> None:
    from calipers.reports.number_format import strip_controls  # noqa: PLC0415

    message, fix = (strip_controls(_mask_keys(text)) for text in (error.message, error.fix))
    click.echo(f"{click.style('error', fg='red', bold=True)}: {message}", err=True)
    click.echo(f"  {fix}", err=True)


def _mask_keys(text: str) -> str:
    """Return a text without the keys in the environment, whatever brought them there."""
    from calipers.systems.keys import make_mask  # noqa: PLC0415 (only where something is wrong)

    return make_mask().mask_text(text)


def _print_version(ctx: click.Context) -> None:
    from calipers.support.native import open_library  # noqa: PLC0415 (only here)

    library = "with" if open_library() else "without"
    click.echo(f"calipers, version {__version__} ({library} the native library)")
    ctx.exit()


@click.group(cls=CommandGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=lambda ctx, _, asked: _print_version(ctx) if asked else None,
    help="Show the version, and whether the native library is there.",
)
def app() -> None:
    """Measure language models and agents: every metric from their records.

    Exit codes: 0 pass, 1 a gate failed, 2 usage, configuration or data error, 3 incomplete.
    """


def _import_command(name: str) -> click.Command:
    from calipers.cli.output import add_plugin_option  # noqa: PLC0415

    file = name if name in _LONG else _COMMANDS[name].lower().replace(" ", "_")
    command: click.Command = getattr(import_module(f"calipers.cli.{file}"), name)
    if name not in _WITHOUT_PLUGINS:
        single = command.commands.values() if isinstance(command, click.Group) else [command]
        for subcommand in single:
            add_plugin_option(subcommand)
    return command


def main() -> None:
    """Run the command line; an unexpected error is shown with how to report it."""
    gc.set_threshold(_YOUNG, 20, 20)
    if sys.argv[1:2] == ["ci"]:
        from calipers.cli.decide import watch_over  # noqa: PLC0415

        watch_over()
    try:
        app(standalone_mode=True)
    except Exception as error:  # the last line of defence
        message = _mask_keys(f"error: {type(error).__name__}: {error}")
        click.echo(message, err=True)
        click.echo("  this is a bug in calipers; CALIPERS_DEBUG=1 shows where", err=True)
        if os.environ.get("CALIPERS_DEBUG"):
            raise
        sys.exit(EXIT_ERROR)
    finally:
        gc.freeze()  # a process that ends need not look for garbage


if __name__ == "__main__":
    main()

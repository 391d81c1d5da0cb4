"""The command line: parse, call the API, print. Nothing heavy is imported before a command runs."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from calipers.cli.agree import agree
from calipers.cli.compare import compare
from calipers.cli.convert import convert
from calipers.cli.doctor import doctor
from calipers.cli.explain import explain
from calipers.cli.gate import gate
from calipers.cli.init import init
from calipers.cli.judge import judge
from calipers.cli.mcp import mcp
from calipers.cli.metrics import list_metrics
from calipers.cli.power import power
from calipers.cli.rank import rank
from calipers.cli.report import report
from calipers.cli.run import run
from calipers.cli.schema import schema
from calipers.cli.score import score
from calipers.cli.shared import add_plugin_option
from calipers.cli.view import view
from calipers.support.errors import EXIT_ERROR, EXIT_INCOMPLETE, CalipersError, UsageError
from calipers.support.version import __version__


class KindGroup(click.Group):
    """Commands whose errors are a message with a fix, never a traceback."""

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


_COMMANDS = (
    *(score, run, gate, compare, rank, report, view, power, explain, agree, judge, doctor),
    *(list_metrics, convert, init, schema, mcp),
)
for command in _COMMANDS:
    app.add_command(command)
for command in (
    *(score, run, gate, compare, rank, report, view, explain, list_metrics, convert, doctor),
):
    add_plugin_option(command)


def main() -> None:
    """Run the command line; an unexpected error is shown with how to report it."""
    try:
        app(standalone_mode=True)
    except Exception as error:  # the last line of defence
        said = _mask_keys(f"error: {type(error).__name__}: {error}")
        click.echo(said, err=True)
        click.echo("  this is a bug in calipers; CALIPERS_DEBUG=1 shows where", err=True)
        if os.environ.get("CALIPERS_DEBUG"):
            raise
        sys.exit(EXIT_ERROR)


if __name__ == "__main__":
    main()

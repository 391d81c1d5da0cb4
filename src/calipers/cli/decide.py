"""`calipers gate` and `ci`: one verdict, and an exit code that a build can trust."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from calipers.cli.options import GroupedCommand, add_declared_options, add_output
from calipers.cli.output import (
    Put,
    add_output_options,
    add_verdict_options,
    end,
    say_notices,
    show,
    show_progress,
    write,
    write_verdict,
)
from calipers.cli.workflow_commands import is_obeyed, say_commands
from calipers.gates.gate_options import GateOptions
from calipers.records.result_folder import REPORT
from calipers.runs.run_options import CiOptions
from calipers.support.errors import (
    EXIT_ERROR,
    EXIT_FAILED,
    EXIT_INCOMPLETE,
    EXIT_PASS,
    CalipersError,
    UsageError,
)

if TYPE_CHECKING:
    from calipers.runs.ci import Decision


@click.command(cls=GroupedCommand, first=("policy", "against", "by", "output_format", "output"))
@click.argument("files", nargs=-1, required=True, metavar="FILES…")
@add_verdict_options
@add_declared_options("gate", GateOptions)
@add_output_options
def gate(
    files: tuple[str, ...],
    junit: Path | None,
    sarif: Path | None,
    put: Put,
    options: dict[str, Any],
) -> None:
    """Decide whether FILES pass a policy, with a reason for every failed check.

    Exit codes: 0 pass, 1 failed or inconclusive, 2 a mistake in the policy or the data, 3 the run
    is incomplete or empty. On GitHub Actions the verdict is in the step's summary too.
    """
    from calipers.gates.decide import gate as decide  # noqa: PLC0415 (loads Polars)

    with show_progress() as progress:
        result = decide(list(files), progress=progress, **options)
    write_verdict(result, decided_by=Path(options["policy"]), junit=junit, sarif=sarif)
    put(result)
    end(result, files, result.records)


_PASS, _INCOMPLETE, _ERROR = "pass", "incomplete", "error"
_ENDED = "code of yours ended the process (exit 0): nothing is decided"
_FIRST = ("suite", "records", "policy", "by", "baseline", "output")
_channel: list[int] = []  # to the process that watches over this one: the exit code


def watch_over() -> None:
    """Return in a new process, and wait for it in this one: code under test cannot end this one.

    The new process says with which exit code it ends once it has told the build. Where it ends
    otherwise (os._exit in a function under test, a kill), the build is told so here.
    """
    reading, writing = os.pipe()
    worker = os.fork()
    if not worker:
        os.close(reading)
        _channel.append(writing)
        return
    os.close(writing)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda received, _: os.kill(worker, received))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the worker gets it too, and ends in order
    status = os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1])
    code = status if status >= 0 else 128 - status
    if _read_announced(reading) != code:
        if code == EXIT_PASS:
            click.echo(f"error: {_ENDED}", err=True)
            code = EXIT_ERROR
        with suppress(UsageError):  # the worker has said that it cannot
            _write_outputs(_INCOMPLETE if code == EXIT_INCOMPLETE else _ERROR, code, None)
    os._exit(code)


def _read_announced(channel: int) -> int | None:
    """Return the exit code that the worker announced; None if it ended before that."""
    os.set_blocking(channel, False)  # a process that the worker left behind may hold the other end
    with suppress(BlockingIOError):
        if announced := os.read(channel, 1):
            return announced[0]
    return None


class _CiCommand(GroupedCommand):
    """A command that leaves no old verdict behind, even where its options are not understood."""

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        """Read the options; a mistake in them, or in a plug-in, is told to the build as well."""
        words = list(args)
        try:
            return super().make_context(info_name, args, parent, **extra)
        except click.exceptions.Exit as shown:  # --help
            _write_code(shown.exit_code)
            raise
        except (click.UsageError, CalipersError, SystemExit) as error:
            from calipers.runs.ci import choose_folder  # noqa: PLC0415

            _write_outputs(_ERROR, EXIT_ERROR, None)
            _write_code(EXIT_ERROR)
            choose_folder(_find_output(words), os.environ)
            if isinstance(error, SystemExit):
                raise _refuse_exit(error) from error
            raise


def _find_output(words: list[str]) -> str | None:
    """Return the folder that -o names in a command line that could not be read."""
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word in ("-o", "--output"):
            return following
        if word.startswith("--output="):
            return word.removeprefix("--output=")
    return None


@click.command(cls=_CiCommand, first=_FIRST)
@click.argument("further", nargs=-1, metavar="")
@add_declared_options("ci", CiOptions)
@add_output(
    "Folder of the results, results/ci by default.",
    metavar="FOLDER",
    group="output",
    type=click.Path(),  # as it is written: an empty one is none
)
def ci(further: tuple[str, ...], output: str | None, options: dict[str, Any]) -> None:
    """Decide once for a pipeline: run a suite or read records, apply the policy, tell the build.

    Every input may come from the environment: CALIPERS_SUITE, CALIPERS_RECORDS (a file or glob per
    line, or separated by spaces), CALIPERS_POLICY, CALIPERS_BY, CALIPERS_BASELINE,
    CALIPERS_FETCH_BASELINE, CALIPERS_SAVE_BASELINE, CALIPERS_FRESH, CALIPERS_OUTPUT. An option
    takes precedence; an empty value counts as not given.

    The folder then holds gate.json, summary.md, junit.xml and report.html, and for a suite its
    records. On GitHub Actions the verdict is in the step's summary, its annotations and its outputs
    verdict, exit-code and folder. Exit codes: 0 pass, 1 failed or inconclusive, 2 a mistake in the
    inputs, 3 incomplete. It is 0 only if this very call has decided so.
    """
    from calipers.runs.ci import choose_folder  # noqa: PLC0415

    verdict, code, folder = _ERROR, EXIT_ERROR, None
    try:
        folder = choose_folder(output, os.environ)
        decision = _decide(folder, further, options)
        verdict, code = _tell_build(folder, decision)
    except CalipersError as error:
        code = error.exit_code
        verdict = _INCOMPLETE if code == EXIT_INCOMPLETE else _ERROR
        _annotate(error)
        raise
    except KeyboardInterrupt:
        verdict, code = _INCOMPLETE, EXIT_INCOMPLETE
        raise
    except SystemExit as error:
        problem = _refuse_exit(error)
        _annotate(problem)
        raise problem from error
    finally:
        _write_outputs(verdict, code, folder)
        _write_code(code)
    sys.exit(code)


def _write_code(code: int) -> None:
    """Write the exit code to the process that watches over this one."""
    for channel in _channel:
        os.write(channel, bytes([code]))


def _refuse_exit(error: SystemExit) -> UsageError:
    """Return the error for code that ends the process: its exit code decides nothing."""
    return UsageError(
        f"code of yours ended the process (exit {error.code}): nothing is decided",
        fix="sys.exit does not belong into a system, a check, a metric or a plug-in",
    )


def _decide(folder: Path, further: tuple[str, ...], options: dict[str, Any]) -> Decision:
    from calipers.reports.tables.run_tables import watch_run  # noqa: PLC0415
    from calipers.runs.ci import decide_build, read_inputs  # noqa: PLC0415 (loads Polars)

    if further:  # the shell has made several names of --records *.jsonl
        if not options.get("records"):
            raise UsageError(
                f"{further[0]}: not said what it is", fix="--suite FILE, or --records FILE…"
            )
        options = {**options, "records": (*options["records"], *further)}
    inputs = read_inputs(options, os.environ, folder)
    with show_progress() as progress:
        return decide_build(inputs, watch_run, progress, os.environ)


def _tell_build(folder: Path, decision: Decision) -> tuple[str, int]:
    """Write the verdict for people and for the build; return it, and the exit code."""
    from calipers.runs.ci import JUNIT, SUMMARY, read_verdict  # noqa: PLC0415

    say_notices(tuple(dict.fromkeys(decision.notices)))
    if decision.run is not None:
        from calipers.reports.tables.run_tables import list_failures, summarize_run  # noqa: PLC0415

        click.echo(summarize_run(decision.run), err=True)
        for line in list_failures(decision.run):
            click.echo(f"  {line}", err=True)
    gate = decision.gate
    if gate is None:
        stopped = None if decision.run is None else decision.run.stopped
        click.echo(f"incomplete: {stopped or 'there is no record to decide on'}", err=True)
        return _INCOMPLETE, EXIT_INCOMPLETE
    write(folder / SUMMARY, gate.to_markdown())
    write_verdict(gate, decided_by=Path(gate.policy), junit=folder / JUNIT, sarif=None)
    try:
        show(gate)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has seen enough; the verdict stands
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    verdict = read_verdict(folder, gate)
    click.echo(f"{verdict}: {folder}", err=True)
    if (page := folder / REPORT).exists():
        click.echo(f"  Report: {page}", err=True)
    if verdict == _PASS and gate.exit_code == EXIT_PASS:
        return verdict, EXIT_PASS
    return verdict, gate.exit_code or EXIT_FAILED


def _annotate(error: CalipersError) -> None:
    """Show a mistake on the page of the build, too."""
    if is_obeyed():
        from calipers.reports.formats.junit_sarif import annotate_error  # noqa: PLC0415
        from calipers.systems.keys import make_mask  # noqa: PLC0415

        message = make_mask().mask_text(f"{error.message}: {error.fix}")
        say_commands([annotate_error(message)])


def _write_outputs(verdict: str, code: int, folder: Path | None) -> None:
    """Append the outputs of the step, on GitHub Actions."""
    if path := os.environ.get("GITHUB_OUTPUT"):
        lines = [f"verdict={verdict}", f"exit-code={code}"]
        lines += [] if folder is None else [f"folder={folder}"]
        try:
            with Path(path).open("a", encoding="utf-8") as file:
                file.write("".join(f"{line}\n" for line in lines))
        except OSError as error:
            _write_code(EXIT_ERROR)
            raise UsageError(
                f"GITHUB_OUTPUT: {path}: {error.strerror}: the build cannot be told the verdict",
                fix="on GitHub the runner sets it; elsewhere leave it unset",
            ) from error

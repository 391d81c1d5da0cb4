"""`calipers init`, `convert`, `schema` and `mcp`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from calipers.cli.options import (
    GroupedCommand,
    add_declared_options,
    add_flag,
    add_option,
    add_output,
)
from calipers.cli.output import say_empty, say_notices, show, show_progress
from calipers.records.reading_options import ConvertOptions
from calipers.runs.starter import TEMPLATES
from calipers.support.errors import UsageError, require_extra

if TYPE_CHECKING:
    from calipers.gates.result import GateResult
    from calipers.reports.table import Document
    from calipers.runs.starter.mapping import DataMapping
    from calipers.scores.result import Score

_LONGEST = 22  # characters of a value
_UNUSED = 6  # columns that are named


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), default=Path())
@add_option(
    "--from",
    "data",
    help="Start from FILE, tasks or records of your own: CSV, JSON lines, Parquet, a data set, or "
    "a log of another tool.",
    metavar="FILE",
)
@add_option(
    "--map",
    "fields",
    help="With --from: read the record's FIELD from the data's NAME (repeatable).",
    metavar="FIELD=NAME",
    multiple=True,
)
@add_option(
    "--answers",
    help="With --from: columns of a wide table that hold a system's answers each.",
    metavar="COLUMN,…",
    multiple=True,
)
@add_flag("--yes", "With --from: take what is guessed of the data without asking.")
@add_option(
    "--template",
    help="What to start from: "
    + "; ".join(f"{name}, {what}" for name, what in TEMPLATES.items())
    + ".",
    type=click.Choice(tuple(TEMPLATES)),
    default="agent",
)
@add_flag("--force", "Overwrite files that are there already.")
def init(
    folder: Path,
    *,
    data: str | None,
    fields: tuple[str, ...],
    answers: tuple[str, ...],
    yes: bool,
    template: str,
    force: bool,
) -> None:
    """Write a suite and a policy to start from into FOLDER, with example data and CI files.

    The suite runs as it is and needs no key: calipers run suite.yaml. With --from FILE they are
    made from data of your own: what its columns seem to hold is shown first, and asked on a
    terminal.
    """
    from calipers.reports.number_format import strip_controls  # noqa: PLC0415
    from calipers.runs.starter import write_starter  # noqa: PLC0415

    if data is None:
        if fields or answers or yes:
            raise UsageError(
                "--map, --answers and --yes are about data", fix="name it: --from FILE"
            )
        for path in write_starter(folder, template, force=force):
            click.echo(f"wrote {strip_controls(path)}")
        suite = quote(str(folder / "suite.yaml"))
        click.echo(f"next: calipers run {strip_controls(suite)}", err=True)
        return
    _start_from(folder, data, fields, answers, yes=yes, force=force)


def _start_from(
    folder: Path,
    data: str,
    fields: tuple[str, ...],
    answers: tuple[str, ...],
    *,
    yes: bool,
    force: bool,
) -> None:
    """Show what the data seem to hold, ask, write the files, and print the first table."""
    from calipers.records.reading_options import parse_pairs, split_columns  # noqa: PLC0415
    from calipers.reports.number_format import strip_controls  # noqa: PLC0415
    from calipers.runs.starter.mapping import change_mapping, guess_mapping  # noqa: PLC0415
    from calipers.runs.starter.own_data import write_from_data  # noqa: PLC0415

    mapping = guess_mapping(data)
    if fields or answers:
        mapping = change_mapping(mapping, parse_pairs(fields), split_columns(answers))
    mapping = _ask_mapping(mapping, yes=yes)
    written = write_from_data(folder, mapping, force=force)
    for path in written.files:
        click.echo(f"wrote {strip_controls(path)}")
    click.echo()
    show(written.score)
    if written.gate is not None:
        click.echo()
        show(_shorten(written.gate, written.score))
    say_notices(written.notices)
    for number, command in enumerate(written.commands):
        click.echo(f"{'next' if not number else ' or '}: {strip_controls(command)}", err=True)


def _shorten(gate: GateResult, score: Score) -> Document:
    """Return the verdict as a document, for several systems without the table of all checks."""
    from calipers.reports.table import Table  # noqa: PLC0415
    from calipers.reports.tables.gate_tables import make_gate_document  # noqa: PLC0415

    whole = make_gate_document(gate, score)
    tables = [block for block in whole if isinstance(block, Table)]
    left_out = tables[1] if len(tables) > 1 and gate.passed else None
    return tuple(block for block in whole if block is not left_out)


def _is_terminal() -> bool:
    return sys.stdin.isatty()


def _ask_mapping(mapping: DataMapping, *, yes: bool) -> DataMapping:
    """Return the mapping once it is confirmed; what a person types changes it."""
    from calipers.records.reading_options import parse_pairs  # noqa: PLC0415
    from calipers.runs.starter.mapping import change_mapping  # noqa: PLC0415

    while True:
        _show_mapping(mapping)
        if yes:
            return mapping
        if not _is_terminal():
            raise UsageError(
                "there is no terminal to ask on",
                fix="take the guess: --yes; or say it: --map FIELD=NAME --yes",
            )
        reply = click.prompt(
            "Is this right? Enter, or FIELD=COLUMN (FIELD= leaves it out)",
            default="",
            show_default=False,
            err=True,
        ).strip()
        if reply.lower() in ("", "y", "yes"):
            return mapping
        name, _, column = reply.partition("=")
        try:
            pairs = {name.strip(): ""} if not column.strip() else parse_pairs((reply,))
            mapping = change_mapping(mapping, pairs)
        except UsageError as error:
            click.echo(f"{error.message}: {error.fix}", err=True)


def _show_mapping(mapping: DataMapping) -> None:
    """Print each field with its column and three values; on a phone-wide terminal, fewer."""
    from calipers.reports.number_format import join_some, shorten_text, show_name  # noqa: PLC0415
    from calipers.reports.table import Column, Line, Table, make_rows  # noqa: PLC0415
    from calipers.runs.starter.mapping import SHOWN, list_mapping_rows  # noqa: PLC0415

    heads = [f"row {number}" for number in range(1, min(SHOWN, len(mapping.rows)) + 1)]
    columns = (
        Column(name="field", kind="key"),
        Column(name="column", kind="text"),
        *(Column(name=head, kind="text") for head in heads),
    )
    rows = make_rows(
        (name, shorten_text(show_name(column), 28), *(shorten_text(v, _LONGEST) for v in values))
        for name, column, values in list_mapping_rows(mapping)
    )
    what = f"a log of {mapping.log}" if mapping.log else f"a table of {mapping.kind}"
    wide = f", with a column of answers for each of {len(mapping.answers)} systems"
    notes = []
    if mapping.unused:
        notes.append(
            f"kept as they are: {join_some(list(map(show_name, mapping.unused)), _UNUSED)}"
        )
    lead = f"{mapping.path} looks like {what}{wide if mapping.answers else ''}:"
    table = Table(columns=columns, rows=rows, notes=tuple(notes))
    show((Line(text=lead), table))


@click.command(cls=GroupedCommand, first=("output", "tasks", "map", "source", "join", "on_bad"))
@click.argument("files", nargs=-1, required=True, metavar="FILES…")
@add_output(
    "Where to write the records: a .parquet or .jsonl file, or a new table delta:FOLDER or "
    "iceberg:NAME.",
    required=True,
)
@add_declared_options("convert", ConvertOptions)
def convert(files: tuple[str, ...], output: Path, options: dict[str, Any]) -> None:
    """Write FILES, logs of any tool that `score` reads, as records to one file.

    With --tasks, write what the records that fail, are flaky or are flagged were asked: the data of
    a suite.
    """
    from calipers.scores.convert import convert as write_records  # noqa: PLC0415 (loads Polars)

    with show_progress() as progress:
        written = write_records(list(files), output, progress=progress, **options)
    say_notices(written.notices)
    left_out = f", {written.skipped:,} bad rows left out" if written.skipped else ""
    fields = len(written.columns)
    kind = "records" if options.get("tasks") is None else "tasks"
    click.echo(f"{output}: {written.records:,} {kind}, {fields} fields{left_out}", err=True)
    if not written.records:
        say_empty(files)
        raise SystemExit(3)


@click.command()
@click.argument("what", type=click.Choice(("policy", "suite", "catalog")))
def schema(what: str) -> None:
    """Print the JSON Schema of a suite or policy file, for completion and checks in editors.

    `catalog` prints the entries of both for the catalogue of SchemaStore.
    """
    from calipers.runs import suite  # noqa: PLC0415 (loads Polars)

    document = suite.list_schema_catalog() if what == "catalog" else suite.make_schema(what)
    click.echo(json.dumps(document, indent=1, ensure_ascii=False))


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), default=".", metavar="[FOLDER]")
def mcp(folder: Path) -> None:
    """Answer a coding agent's questions about the results in FOLDER, over MCP on stdin and stdout.

    The tools only read: list runs, read a verdict, score, compare, explain, list failed samples.
    An agent's configuration names the command, for example: calipers mcp results/
    """
    if not folder.exists():
        raise UsageError(f"{folder}: no such folder", fix="name a folder with results, or a file")
    require_extra("mcp: the protocol is not installed", extra="mcp", modules=("mcp",))
    from calipers.dashboard.mcp_server import make_server  # noqa: PLC0415 (loads the protocol)

    make_server(folder).run("stdio")

"""A diagnosis as a document: each file, what it supports, what looks wrong, what to run next."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from calipers.records.column_hints import format_map_options, suggest_fields
from calipers.reports.number_format import count_things
from calipers.reports.table import (
    EMPTY,
    Cell,
    Column,
    Document,
    Line,
    Row,
    Table,
    Tone,
    make_data_columns,
    make_rows,
)
from calipers.reports.tables.shown_metrics import drop_restated
from calipers.support.errors import quote_name

if TYPE_CHECKING:
    from calipers.doctor.result import Diagnosis, Finding, HeldFile, Support

_TONES: dict[str, Tone] = {"problem": "fail", "warning": "warn", "note": ""}
_TRIES = re.compile(r"^(pass_at|pass_hat)_\d+$")
_NAMED = 6  # systems on a line
_MOST_INSIDE = 20  # paths on a line
_MANY_FILES = 5  # beyond which their fields are not listed
_COLUMNS = (
    Column(name="severity", kind="tag"),
    Column(name="kind", heading="finding", kind="key"),
    Column(name="system", kind="text"),
    Column(name="count", where="data", type=int),
    Column(name="of", where="data", type=int),
    Column(name="shown", heading="how many", kind="text", where="people"),
    *make_data_columns("examples", "says", "fix"),
    Column(name="told", heading="what, and what to do", kind="words", where="people"),
)


def make_diagnosis_document(diagnosis: Diagnosis) -> Document:
    """Return what the files hold, what they support, the findings, and the next commands."""
    blocks: list[Table | Line] = []
    few = len(diagnosis.files) <= _MANY_FILES
    before: list[Table | Line] = []
    for file in diagnosis.files:
        lead, *notes = describe_file(file, fields=few)
        blocks += [lead] if notes == before and not few else [lead, *notes]
        before = notes
    if diagnosis.support is not None:
        blocks.append(Line(text="What can be measured", kind="heading"))
        blocks += (Line(text=text) for text in describe_support(diagnosis.support))
    blocks += list_findings(diagnosis)
    if diagnosis.commands:
        blocks.append(Line(text="Next", kind="heading"))
        blocks += (Line(text=command, kind="code") for command in diagnosis.commands)
    return tuple(blocks)


def describe_file(file: HeldFile, *, fields: bool = True) -> Iterator[Table | Line]:
    """Yield what one file holds: its format, its fields, and the options that read it."""
    if file.unreadable is not None:
        yield Line(text=file.unreadable, tone="fail")
        yield Line(text=file.fix or "", kind="note")
        return
    lead = f"{file.format}, {count_things(file.records, 'record')}"
    lead += f", {count_things(file.bad_rows, 'bad row')}" if file.bad_rows else ""
    lead += f", {count_things(file.errors, 'failed call')}" if file.errors else ""
    lead += f"; it looks like {file.tool}" if file.tool else ""
    maps = format_map_options(file.maps)
    notes = [f"to read them: {' '.join(maps)}"] if maps else []
    if file.inside:
        more = ", …" if file.inside[_MOST_INSIDE:] else ""
        inside = format_map_options(
            suggest_fields([*(each.name for each in file.fields), *file.inside])
        )
        known = [option for option in inside if option not in maps]
        guess = f"; perhaps {' '.join(known)}" if known else ""
        notes.append(f"inside: {', '.join(file.inside[:_MOST_INSIDE])}{more}{guess}")
    notes += [
        f"{name}: in milliseconds? {in_ms}; in seconds? {in_seconds}"
        for name in file.times
        for in_ms in format_map_options({"latency_ms": name})
        for in_seconds in format_map_options({"duration_seconds": name})
    ]
    if fields and file.fields:
        yield _tabulate_fields(file, lead, tuple(notes))
    else:
        yield Line(text=f"{file.path}: {lead}")
        yield from (Line(text=note, kind="note") for note in notes)


def _tabulate_fields(file: HeldFile, lead: str, notes: tuple[str, ...]) -> Table:
    rows = make_rows(
        (
            quote_name(each.name),
            Cell(text=each.field or "—"),
            Cell(text="all" if each.records == file.records else f"{each.records:,}"),
            Cell(text=f"looks like {each.map_to}") if each.map_to else EMPTY,
        )
        for each in file.fields
    )
    hinted = any(each.map_to for each in file.fields)
    columns = (
        Column(name="column", kind="key", where="people"),
        Column(name="read as", kind="text", where="people"),
        Column(name="records", where="people"),
        Column(name="hint", heading="", kind="text", where="people" if hinted else "data"),
    )
    return Table(title=file.path, lead=lead, columns=columns, rows=rows, notes=notes)


def describe_support(support: Support) -> Iterator[str]:
    """Yield what the records can answer, a sentence each."""
    systems = ", ".join(map(quote_name, support.systems[:_NAMED]))
    systems += ", …" if support.systems[_NAMED:] else ""
    fewest, most = support.runs
    runs = count_things(most, "record") if fewest == most else f"{fewest:,} to {most:,} records"
    about = "about " if support.share < 1 else ""
    yield (
        f"{about}{count_things(support.tasks, 'task')}, {runs} of each by a system; "
        f"{count_things(len(support.systems), 'system')}: {systems}"
    )
    if support.pairs:
        yield (
            f"{about}{count_things(support.common_tasks, 'task')} common to all systems, "
            f"{count_things(support.pairs, 'pair')} of systems to compare task by task"
        )
    yield f"metrics: {_list_metrics(support.metrics) or 'none, no metric finds its fields'}"
    if support.with_map:
        yield f"metrics once the fields are mapped: {_list_metrics(support.with_map)}"
    if (found := support.detectable) is not None:
        whose = " and ".join(found.systems) + (
            ", the two best" if len(found.systems) > 1 else " and a system that varies alike"
        )
        value = found.reason if found.value is None else f"{found.value:.2g}"
        yield (
            f"smallest difference in {found.metric} that {100 * found.power:g} % of such "
            f"comparisons would show: {value} ({whose}; {count_things(found.tasks, 'task')})"
        )


def _list_metrics(names: Sequence[str]) -> str:
    """Return the metrics without near-duplicates: `usr` beside accuracy, pass@k for every k."""
    folded = (_TRIES.sub(r"\1_k", name) for name in drop_restated(names))
    return ", ".join(dict.fromkeys(folded))


def list_findings(
    diagnosis: Diagnosis, link: Callable[[str], str] | None = None
) -> Iterator[Table | Line]:
    """Yield the findings, worst first, or that there are none; `link` leads to a task's records."""
    if not diagnosis.findings:
        if diagnosis.records:
            yield Line(text="Nothing looks wrong.", tone="pass")
        return
    named = any(each.system for each in diagnosis.findings)
    counts = ", ".join(count_things(n, name) for name, n in diagnosis.counts().items() if n)
    yield Table(
        title=f"What looks wrong: {counts}",
        columns=tuple(
            replace(each, where="data") if each.name == "system" and not named else each
            for each in _COLUMNS
        ),
        rows=tuple(_make_row(each, link) for each in diagnosis.findings),
    )


def _make_row(finding: Finding, link: Callable[[str], str] | None) -> Row:
    tone = _TONES[finding.severity]
    linked = link(finding.examples[0]) if link and finding.examples and finding.of_tasks else ""
    shown = f", for example {', '.join(finding.examples)}" if finding.examples else ""
    return Row(
        cells=(
            Cell(value=finding.severity, tone=tone),
            Cell(value=finding.kind, link=linked),
            Cell(value=finding.system, text=finding.system or ""),
            *(finding.count, finding.of, f"{finding.count:,} of {finding.of:,}"),
            Cell(value=", ".join(finding.examples)),
            *(finding.says, finding.fix, f"{finding.says}{shown}. To do: {finding.fix}."),
        ),
        tone=tone,
    )

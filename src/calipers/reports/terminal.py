"""Tables for a terminal."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from calipers.metrics import metric_named
from calipers.reports.catalogue import facts, range_text
from calipers.reports.corrections import correction_lines
from calipers.reports.figures import NOTHING, group_name, printable, reasons
from calipers.reports.flakiness import flaky_line
from calipers.reports.frontiers import frontier_lines
from calipers.reports.grids import Grid, print_grid
from calipers.reports.tiers import (
    HEADS,
    bounded_text,
    cell_text,
    grade_text,
    spread_rows,
    tier_groups,
    tier_notes,
    tier_rows,
    title_of,
    warning_lines,
)

if TYPE_CHECKING:
    import polars as pl

    from calipers.metrics import Metric
    from calipers.scores.explain import Explanation, GroupExplanation
    from calipers.scores.results import Group, Score, Tiers
    from calipers.statistics.power import Components

_METRIC_COLUMN = 32
_GROUP_COLUMN = 14
_GROUP_NAME = 28
_PLAIN_WIDTH = 120


class _StdoutConsole(Console):
    """A console that leaves it to the command line what a broken pipe means."""

    def on_broken_pipe(self) -> None:
        """Let the error through; rich would exit with 1."""
        raise BrokenPipeError


def stdout_console() -> Console:
    """Standard output, with a fixed width where nobody is looking."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # not every terminal knows a dash or a Δ
    width = None if sys.stdout.isatty() else _PLAIN_WIDTH
    return _StdoutConsole(highlight=False, width=width)


def score_text(score: Score, console: Console | None = None) -> str:
    """The score as tables with a column per group, and the reasons for nulls below."""
    return rendered(console, lambda out: show_score(score, out))


def show_score(score: Score, console: Console) -> None:
    """Print a score."""
    if not score.groups:
        console.print(Text("No records."))
        return
    room = console.width - _METRIC_COLUMN - len(" tokens")
    for groups in _that_fit(score.groups, room):
        console.print(_score_table(groups))
    _show_lines(warning_lines(score), "yellow", console)
    for tiers in score.tiers:
        _show_tiers(score, tiers, console)
    if flaky := flaky_line(score):
        console.print(Text(flaky))
    for line in frontier_lines(score.frontier) if score.frontier else ():
        console.print(Text(line))
    corrections = list(correction_lines(score))
    if corrections:
        console.print(Text("without the judge's error", style="bold"))
    for line in corrections:
        console.print(Text(f"  {line}"))
    notes = reasons(score.groups)
    if notes:
        console.print(Text("Notes:", style="dim"))
    for note in notes:
        console.print(Text(f"  {note}", style="dim"))


def _that_fit(groups: Sequence[Group], room: int) -> Iterator[list[Group]]:
    """As many groups side by side as there is room for, then the next ones."""
    row: list[Group] = []
    used = 0
    for group in groups:
        cells = (cell_text(name, group) for name in group.metrics)
        width = 2 + max(len(_short(group_name(group.by))), _GROUP_COLUMN - 2, *map(len, cells))
        if row and used + width > room:
            yield row
            row, used = [], 0
        row.append(group)
        used += width
    yield row


def _cell(name: str, group: Group) -> str:
    return cell_text(name, group)


def _score_table(groups: Sequence[Group]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("metric", no_wrap=True)
    for group in groups:
        table.add_column(
            Text(_short(group_name(group.by))), justify="right", min_width=_GROUP_COLUMN - 2
        )
    table.add_column("", style="dim")
    table.add_row("records", *(f"{group.records:,}" for group in groups), "", style="dim")
    if any(group.errors for group in groups):
        table.add_row("failed calls", *(f"{group.errors:,}" for group in groups), "", style="dim")
    if any(group.truncated for group in groups):
        counts = (f"{group.truncated:,}" for group in groups)
        table.add_row("truncated replies", *counts, "", style="dim")
    if any(group.failures for group in groups):
        counts = (f"{group.failures:,}" for group in groups)
        table.add_row("counted as failures", *counts, "", style="dim")
    metrics = {name: metric_named(name) for name in groups[0].metrics}
    sections = _sections(list(metrics.values()))
    before = None
    for (name, metric), section in zip(metrics.items(), sections, strict=True):
        if before not in (None, section):
            table.add_section()
        before = section
        table.add_row(name, *(cell_text(name, group) for group in groups), metric.unit or "")
    if any(group.statistics for group in groups):
        table.add_section()
        medians = (bounded_text(group.median_composite) for group in groups)
        table.add_row("median composite", *medians, "")
        table.add_row("grade", *map(grade_text, groups), "")
    return table


def _show_tiers(score: Score, tiers: Tiers, console: Console) -> None:
    """How the tiers differ: grade, uplift and test of each, then what varies."""
    rows = list(tier_rows(tiers, tier_groups(score.groups, tiers)))
    print_grid(Grid(title=title_of(tiers), heads=HEADS, sections={"": rows}), console)
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(justify="right")
    for label, text in spread_rows(tiers):
        table.add_row(label, text)
    console.print(table)
    _show_lines((f"  {note}" for note in tier_notes(tiers)), "dim", console)


def _show_lines(lines: Iterable[str], style: str, console: Console) -> None:
    for line in lines:
        console.print(Text(line, style=style))


def _sections(metrics: Sequence[Metric]) -> list[str]:
    """The section of each metric, of the one document that all are in if there is such a one."""
    places = [metric.spec.split(", ") if metric.spec else [""] for metric in metrics]
    documents = [{place[0] for place in of_one} for of_one in places if of_one != [""]]
    common = set.intersection(*documents) if documents else set()
    found = (next((place for place in each if place[:1] in common), each[0]) for each in places)
    return [place.split(".")[0] for place in found]


def _short(name: str) -> str:
    return name if len(name) <= _GROUP_NAME else f"{name[: _GROUP_NAME - 1]}…"


def catalogue_text(metrics: Sequence[Metric], console: Console | None = None) -> str:
    """Every metric: what it says, its formula, what it needs and what it leaves out."""

    def show(out: Console) -> None:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_lines=False)
        table.add_column("metric", no_wrap=True)
        table.add_column("what it says")
        for metric in metrics:
            direction = f"{metric.better} is better" if metric.better else None
            value = (range_text(metric), metric.unit, direction)
            left = Text.assemble((metric.name, "bold"), "\n", (metric.defined_in, "dim"))
            right = Text.assemble(
                metric.says,
                ("\nformula ", "dim"),
                metric.formula,
                ("\nneeds   ", "dim"),
                "; ".join(map(str, metric.needs)),
                ("\nnulls   ", "dim"),
                metric.nulls,
                ("\nvalue   ", "dim"),
                ", ".join(filter(None, value)),
            )
            table.add_row(left, right, end_section=True)
        out.print(table)

    return rendered(console, show)


def metric_text(metric: Metric, console: Console | None = None) -> str:
    """One metric in full."""

    def show(out: Console) -> None:
        out.print(Text(metric.name, style="bold"))
        out.print(Text(metric.says))
        table = Table(box=None, show_header=False, pad_edge=False)
        table.add_column(style="dim", no_wrap=True)
        table.add_column()
        for label, text in facts(metric).items():
            table.add_row(label, Text(text))
        out.print(table)

    return rendered(console, show)


def explanation_text(explanation: Explanation, console: Console | None = None) -> str:
    """How a value came about, group by group."""

    def show(out: Console) -> None:
        out.print(Text(explanation.metric.name, style="bold"))
        out.print(Text(explanation.metric.says))
        out.print(Text(f"formula  {explanation.metric.formula}"))
        for group in explanation.groups:
            out.print()
            _show_group(group, out)

    return rendered(console, show)


def _show_group(group: GroupExplanation, out: Console) -> None:
    if group.by:
        out.print(Text(group_name(group.by), style="bold"))
    out.print(Text(f"value    {NOTHING if group.value is None else repr(group.value)}"))
    equals = "" if group.value is None else "= "
    out.print(Text(f"         {equals}{group.work}"))
    out.print(Text(f"rows     {group.n:,} used of {group.records:,}"))
    for reason, count in group.left_out.items():
        out.print(Text(f"         {count:,} left out: {reason}"))
    if group.variance is not None:
        out.print(Text(f"variance {_parts(group.variance)}"))
    if group.table is not None and group.table.height:
        shown = f"the {group.table.height} largest of {group.table_rows:,}"
        out.print(Text(f"counted  {shown if group.table.height < group.table_rows else 'in all'}"))
        out.print(_frame_table(group.table))
    if group.weigh_most.height:
        out.print(Text("most influential rows"))
        out.print(_frame_table(group.weigh_most))


def _parts(found: Components) -> str:
    """Say where the width of the interval comes from."""
    parts = [f"{found.tasks:.0%} from tasks{' and runs' if found.runs is None else ''}"]
    parts += [] if found.runs is None else [f"{found.runs:.0%} from the runs of a task"]
    parts += [] if found.judges is None else [f"{found.judges:.0%} from the judges of a run"]
    return ", ".join(parts)


def _frame_table(frame: pl.DataFrame) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name, dtype in frame.schema.items():
        table.add_column(name, justify="right" if dtype.is_numeric() else "left")
    for row in frame.iter_rows():
        table.add_row(*(Text(NOTHING if cell is None else printable(cell)) for cell in row))
    return table


def rendered(console: Console | None, show: Callable[[Console], None]) -> str:
    """What `show` prints, as plain text of a fixed width, or straight to the console given."""
    if console is not None:
        show(console)
        return ""
    out = io.StringIO()
    show(Console(file=out, width=_PLAIN_WIDTH, highlight=False))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"

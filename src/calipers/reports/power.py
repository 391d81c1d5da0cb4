"""Power as tables and in words: for a terminal, Markdown and CSV."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from calipers.comparisons.sizing import DELTA
from calipers.metrics import metric_named
from calipers.reports.figures import NOTHING, figure, group_name, printable
from calipers.reports.spreadsheets import csv_text

if TYPE_CHECKING:
    from calipers.comparisons.power import PowerAnalysis, PowerGroup
    from calipers.comparisons.sizing import MetricPower

Column = tuple[str, list[str]]
Cell = float | str | None

_PLAIN_WIDTH = 120
_ANY_WIDTH = 1000
_THOUSAND = 1000
_TINY = 1e-3
_LARGE = 1e7
_HEADS = {
    "value": "value",
    "between": "between",
    "within": "within",
    "delta": "to see",
    "plans": "tasks",
    "detectable": "could see",
}
_NUMBERS = (
    "metric",
    "value",
    "candidate",
    "tasks",
    "runs",
    "between",
    "within",
    "difference_between",
    "difference_within",
    "delta",
    "detectable",
    "planned_runs",
    "planned_tasks",
    "planned_calls",
    "reason",
)


def power_text(analysis: PowerAnalysis, console: Console | None = None) -> str:
    """A block per group: what it shows, what it takes, and both in words."""
    out = io.StringIO()
    to = console or Console(file=out, width=_PLAIN_WIDTH, highlight=False)
    for group in analysis.groups:
        to.print(Text(_heading(group), style="bold"))
        for table in _tables(group, to):  # a blank line ends each
            to.print(table)
        words = _words(analysis, group)
        for line in words:
            to.print(Padding(Text(line), (0, 0, 0, 1), expand=False))
        if words:
            to.print()
    if not analysis.groups:
        to.print(Text("No records."))
    reasons = _reasons(analysis)
    if reasons:
        to.print(Text("Notes:", style="dim"))
    for line in reasons:
        to.print(Padding(Text(line, style="dim"), (0, 0, 0, 2), expand=False))
    for line in _footnotes(analysis):
        to.print(Text(line, style="dim"))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def power_markdown(analysis: PowerAnalysis) -> str:
    """A table per group, for a pull request or a paper's notes."""
    lines = [] if analysis.groups else ["No records."]
    for group in analysis.groups:
        columns = _columns(group)
        rows = list(zip(*(cells for _, cells in columns), strict=True))
        lines += [f"### {_plain(_heading(group))}", ""]
        if rows:
            lines.append(f"| {' | '.join(head for head, _ in columns)} |")
            lines.append(f"|---|{'---:|' * (len(columns) - 1)}")
            lines += [f"| {' | '.join(row)} |" for row in rows]
            lines += ["", *map(_plain, _words(analysis, group)), ""]
    notes = (*_reasons(analysis), *_footnotes(analysis), *analysis.notices)
    return "\n".join([*lines, *(f"- {_plain(note)}" for note in notes)]) + "\n"


def power_csv(analysis: PowerAnalysis) -> str:
    """A row per group, metric and number of runs; an empty cell is a null."""
    fields = list(analysis.groups[0].by) if analysis.groups else []
    named = (f"by_{name}" if name in _NUMBERS else name for name in fields)
    rows: list[tuple[Any, ...]] = [(*named, *_NUMBERS)]
    for group in analysis.groups:
        for name, found in group.metrics.items():
            spread = found.difference
            known: list[Cell] = [name, found.value, found.candidate, found.tasks, found.runs]
            known += [found.between, found.within]
            known += [None, None] if spread is None else [spread.between, spread.within]
            known += [found.delta, found.detectable]
            reason = "; ".join(dict.fromkeys(found.reasons.values())) or None
            for plan in found.plans or (None,):
                planned = (None,) * 3 if plan is None else (plan.runs, plan.tasks, plan.calls)
                rows.append((*group.by.values(), *known, *planned, reason))
    return csv_text(rows)


def _heading(group: PowerGroup) -> str:
    parts = [_counted(group.tasks, "task"), _counted(group.records, "record")]
    parts += [_counted(group.errors, "failed call")] if group.errors else []
    parts += [f"{_counted(group.only_base, 'task')} only in BASE"] if group.only_base else []
    parts += [f"{group.only_candidate:,} only in CANDIDATE"] if group.only_candidate else []
    return (f"{group_name(group.by)}: " if group.by else "") + ", ".join(parts)


def _tables(group: PowerGroup, console: Console) -> list[Table]:
    """One table where there is room, else two."""
    names, *columns = _columns(group)
    if not names[1]:
        return []
    whole = _table(names, columns)
    anything = console.options.update(width=_ANY_WIDTH)
    if Measurement.get(console, anything, whole).maximum <= console.width:
        return [whole]
    heads = [head for head, _ in columns]
    middle = heads.index(_HEADS["delta"])
    return [_table(names, columns[:middle]), _table(names, columns[middle:])]


def _table(names: Column, columns: Sequence[Column]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column(names[0], no_wrap=True)
    for head, _ in columns:
        table.add_column(head, justify="right", no_wrap=True)
    for row in zip(names[1], *(cells for _, cells in columns), strict=True):
        table.add_row(*row)
    return table


def _columns(group: PowerGroup) -> list[Column]:
    """The metrics that have a value: what the run shows, and what it takes to see more."""
    found = {name: each for name, each in group.metrics.items() if each.value is not None}
    units = {name: metric_named(name).unit for name in found}
    columns = [
        ("metric", list(found)),
        (_HEADS["value"], [figure(each.value, units[name]) for name, each in found.items()]),
    ]
    paired = any(each.candidate is not None for each in found.values())
    if paired:
        cells = [figure(each.candidate, units[name]) for name, each in found.items()]
        columns.append(("candidate", cells))
    columns += [
        (_HEADS["between"], [_few(each.between) for each in found.values()]),
        (_HEADS["within"], [_few(each.within) for each in found.values()]),
    ]
    if paired:
        spreads = [each.difference for each in found.values()]
        columns += [
            ("Δ between", [_few(None if each is None else each.between) for each in spreads]),
            ("Δ within", [_few(None if each is None else each.within) for each in spreads]),
        ]
    columns += [
        (_HEADS["detectable"], [_few(each.detectable) for each in found.values()]),
        (_HEADS["delta"], [_asked(each.delta) for each in found.values()]),
    ]
    repeats = sorted({plan.runs for each in found.values() for plan in each.plans})
    for place, runs in enumerate(repeats):
        head = f"at {runs}" if place else f"tasks at {_counted(runs, 'run')}"
        columns.append((head, [_needed(each, runs) for each in found.values()]))
    return columns


def _needed(found: MetricPower, runs: int) -> str:
    tasks = [f"{plan.tasks:,}" for plan in found.plans if plan.runs == runs]
    return tasks[0] if tasks else "" if found.plans else NOTHING


def _words(analysis: PowerAnalysis, group: PowerGroup) -> list[str]:
    """The first metric that has a plan, in sentences."""
    planned = ((name, found) for name, found in group.metrics.items() if found.plans)
    name, found = next(planned, ("", None))
    if found is None:
        return []
    first, last = found.plans[0], found.plans[-1]
    needed = (
        f"To see a difference of {_asked(found.delta)} in {name} with power {analysis.aim.power:g} "
        f"you need {first.tasks:,} tasks at {_counted(first.runs, 'run')} each"
    )
    if last.tasks < first.tasks:
        needed += f", or {last.tasks:,} at {last.runs}"
    elif last is not first:
        needed += "; more runs of a task would save none"
    elif "within" in found.reasons:
        needed += f"; {found.reasons['within']}, so what more runs would save is unknown"
    lines = [f"{needed}."]
    if found.detectable is not None and found.runs is not None:
        which = "this run" if analysis.candidate is None else "these two runs"
        runs = _counted(round(found.runs, 1), "run")
        lines.append(
            f"With {found.tasks:,} tasks at {runs} each, {which} could have seen a difference of "
            f"{_few(found.detectable)}."
        )
    return [*lines, *_width_words(analysis, name, found), *_component_words(name, found)]


def _width_words(analysis: PowerAnalysis, name: str, found: MetricPower) -> list[str]:
    """What an interval as narrow as asked for takes."""
    if not found.width_plans:
        return []
    first, last = found.width_plans[0], found.width_plans[-1]
    more = f", or {last.tasks:,} at {last.runs}" if last.tasks < first.tasks else ""
    return [
        (
            f"For an interval of {name} no wider than {_asked(analysis.aim.width)} you need "
            f"{first.tasks:,} tasks at {_counted(first.runs, 'run')} each{more}."
        )
    ]


def _component_words(name: str, found: MetricPower) -> list[str]:
    """Where the width of the interval comes from."""
    if found.components is None or found.components.runs is None:
        return []
    return [
        (
            f"Of the variance of {name} {found.components.tasks:.0%} comes from the tasks, "
            f"{found.components.runs:.0%} from the runs of each."
        )
    ]


def _reasons(analysis: PowerAnalysis) -> list[str]:
    """Why there are nulls: a line per reason, with the metrics and, where not all, the groups."""
    groups: dict[tuple[str, str, str], list[str]] = {}  # of a metric, the cells and the reason
    for group in analysis.groups:
        for name, found in group.metrics.items():
            for reason in dict.fromkeys(found.reasons.values()):
                cells = [_HEADS[key] for key, why in found.reasons.items() if why == reason]
                which = "" if found.spread is None else f" ({', '.join(cells)})"
                groups.setdefault((name, which, reason), []).append(group_name(group.by))
    metrics: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    for (name, which, reason), names in groups.items():
        where = names if len(names) < len(analysis.groups) else ()
        metrics.setdefault((which, reason, tuple(where)), []).append(name)
    return [
        f"{', '.join(names)}{which}: {printable(reason)}"
        + (f" [{'; '.join(where)}]" if where else "")
        for (which, reason, where), names in metrics.items()
    ]


def _footnotes(analysis: PowerAnalysis) -> list[str]:
    """What was measured and what was assumed."""
    if not analysis.groups:
        return []
    aim = analysis.aim
    counts = (
        "Between, within: the variance between tasks, and from run to run within a task. "
        f"Tasks are for a paired, two-sided test with power {aim.power:g} at confidence "
        f"{aim.confidence:g}."
    )
    if analysis.candidate is None:
        counts += (
            " The other system is taken to vary like this one, its expected task scores correlated "
            f"by {aim.correlation:g} (--correlation); with CANDIDATE that is measured."
        )
    else:
        counts += " How the difference varies (Δ) is measured on the tasks in both files."
    lines = [counts]
    if aim.delta is None:
        lines.append(
            f"To see: {DELTA:g} for metrics in [0, 1], {100 * DELTA:g} % of the value for others "
            "(--delta)."
        )
    noted: dict[str, list[str]] = {}
    for group in analysis.groups:
        for name, found in group.metrics.items():
            for note in found.notes:
                noted.setdefault(note, [])
                noted[note] += [name] * (name not in noted[note])
    return [*lines, *(f"{', '.join(names)}: {note}." for note, names in noted.items())]


def _asked(delta: float | None) -> str:
    return f"{delta:.4g}" if delta is not None and _TINY <= delta < _THOUSAND else _few(delta)


def _few(number: float | None) -> str:
    """As few digits as say something: 0.0383, 123.4, 12,345, 2.92e+07."""
    if number is None:
        return NOTHING
    if number >= _THOUSAND:
        return f"{number:,.0f}" if number < _LARGE else f"{number:.2e}"
    if number >= 1:
        return f"{number:.4g}"
    return f"{number:.2e}" if 0 < number < _TINY else f"{number:.4f}"


def _counted(number: float, what: str) -> str:
    whole = int(number) if number == int(number) else number
    return f"{whole:,} {what}{'' if number == 1 else 's'}"


def _plain(text: str) -> str:
    """Text from outside in Markdown: no new column, no link, no HTML."""
    return re.sub(r"[\\|`\[\]]", r"\\\g<0>", printable(text)).replace("<", "&lt;")

"""A power analysis as a document: what a run shows, and what it takes to detect more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from calipers.comparisons.power import DELTA
from calipers.reports.number_format import (
    NOTHING,
    Form,
    count_decimals,
    count_things,
    format_dollars,
    format_figure,
    format_group,
    strip_controls,
)
from calipers.reports.table import (
    EMPTY,
    Cell,
    Document,
    Line,
    Row,
    Table,
    make_columns,
    make_data_columns,
    make_lines,
    make_rows,
)
from calipers.reports.tables.shown_metrics import (
    choose_difference_form,
    choose_metric_form,
    get_unit,
)

if TYPE_CHECKING:
    from calipers.comparisons.power import MetricPower, PowerAnalysis, PowerGroup

_HEADS = {"delta": "to see", "plans": "tasks", "detectable": "could see"}
_DATA = (
    *("difference_between", "difference_within", "delta", "detectable"),
    *("planned_runs", "planned_tasks", "planned_calls", "reason"),
)


def make_power_document(analysis: PowerAnalysis) -> Document:
    """Return a table per group with what it means in words, and what was assumed."""
    blocks: list[Table | Line] = [] if analysis.groups else [Line(text="No records.")]
    fields = list(analysis.groups[0].by) if analysis.groups else []
    for group in analysis.groups:
        blocks += (_tabulate_metrics(group), _tabulate_data(group, fields))
        blocks += make_lines(_describe(analysis, group))
    if not analysis.groups:
        blocks.append(_tabulate_data(None, fields))
    return (*blocks, *make_lines([*_list_reasons(analysis), *_list_footnotes(analysis)], "note"))


def _tabulate_metrics(group: PowerGroup) -> Table:
    """Return the metrics that have a value: what the run shows, and what detecting more takes."""
    found = {name: each for name, each in group.metrics.items() if each.value is not None}
    both = any(each.candidate is not None for each in found.values())
    repeats = sorted({plan.runs for each in found.values() for plan in each.plans})
    heads = ["value", *(["candidate"] if both else []), "between", "within"]
    heads += ["Δ between", "Δ within"] if both else []
    heads += [_HEADS["detectable"], _HEADS["delta"]]
    heads += [
        f"at {runs}" if at else f"tasks at {count_things(runs, 'run')}"
        for at, runs in enumerate(repeats)
    ]
    rows = []
    for name, each in found.items():
        spread = each.difference
        shown = [each.value, *([each.candidate] if both else [])]
        form = choose_metric_form(name, ())
        cells = [Cell(text=format_figure(value, form=form)) for value in shown]
        values = [each.between, each.within]
        if both:
            values += [None, None] if spread is None else [spread.between, spread.within]
        cells += (Cell(text=_round_digits(value)) for value in values)
        sizes = (_format_delta(name, size, points="pts") for size in (each.detectable, each.delta))
        cells += (Cell(text=size) for size in sizes)
        cells += (_make_needed_cell(each, runs) for runs in repeats)
        rows.append((name, *cells))
    columns = make_columns("metric", *heads)
    return Table(title=_make_heading(group), columns=columns, rows=make_rows(rows))


def _tabulate_data(group: PowerGroup | None, fields: list[str]) -> Table:
    """Return a row per metric and number of runs, for CSV."""
    numbers = ("metric", "value", "candidate", "tasks", "runs", "between", "within", *_DATA)
    rows: list[Row] = []
    for name, found in ({} if group is None else group.metrics).items():
        known: list[Any] = [getattr(found, each) for each in numbers[1:7]]
        spread = found.difference
        known += [None, None] if spread is None else [spread.between, spread.within]
        known += [found.delta, found.detectable]
        reason = "; ".join(dict.fromkeys(found.reasons.values())) or None
        for plan in found.plans or (None,):
            planned = (None,) * 3 if plan is None else (plan.runs, plan.tasks, plan.calls)
            by = () if group is None else group.by.values()
            rows.append(Row(cells=(*by, name, *known, *planned, reason), where="data"))
    named = (f"by_{name}" if name in numbers else name for name in fields)
    return Table(columns=make_data_columns(*named, *numbers), rows=tuple(rows))


def _make_needed_cell(found: MetricPower, runs: int) -> Cell:
    tasks = [plan.tasks for plan in found.plans if plan.runs == runs]
    return Cell(value=tasks[0]) if tasks else EMPTY if found.plans else Cell()


def _make_heading(group: PowerGroup) -> str:
    parts = [count_things(group.tasks, "task"), count_things(group.records, "record")]
    parts += [count_things(group.errors, "failed call")] if group.errors else []
    parts += [f"{count_things(group.only_base, 'task')} only in BASE"] if group.only_base else []
    parts += [f"{group.only_candidate:,} only in CANDIDATE"] if group.only_candidate else []
    return (f"{format_group(group.by)}: " if group.by else "") + ", ".join(parts)


def _describe(analysis: PowerAnalysis, group: PowerGroup) -> list[str]:
    """Return the first metric that has a plan, in sentences."""
    planned = ((name, found) for name, found in group.metrics.items() if found.plans)
    name, found = next(planned, ("", None))
    if found is None:
        wide = (each for each in group.metrics.items() if each[1].width_plans)
        return next((_describe_width(analysis, *each) for each in wide), [])
    first, last = found.plans[0], found.plans[-1]
    needed = (
        f"To detect a difference of {_format_delta(name, found.delta)} in {name} "
        f"with power {analysis.aim.power:g} you need {first.tasks:,} tasks "
        f"at {count_things(first.runs, 'run')} each"
    )
    if last.tasks < first.tasks:
        needed += f", or {last.tasks:,} at {last.runs}"
    elif last is not first:
        needed += "; more runs of a task would save none"
    elif "within" in found.reasons:
        needed += f"; {found.reasons['within']}, so what more runs would save is unknown"
    said = [f"{needed}."]
    if found.detectable is not None and found.runs is not None:
        which = "this run" if analysis.candidate is None else "these two runs"
        runs = count_things(round(found.runs, 1), "run")
        said.append(
            f"With {found.tasks:,} tasks at {runs} each, {which} could have detected "
            f"a difference of {_format_delta(name, found.detectable)}."
        )
    said += _describe_width(analysis, name, found)
    if found.components is not None and found.components.runs is not None:
        said.append(
            f"Of the variance of {name} {found.components.tasks:.0%} comes from the tasks, "
            f"{found.components.runs:.0%} from the runs of each."
        )
    return said


def _describe_width(analysis: PowerAnalysis, name: str, found: MetricPower) -> list[str]:
    """Return what an interval as narrow as asked for takes."""
    if not found.width_plans:
        return []
    first, last = found.width_plans[0], found.width_plans[-1]
    more = f", or {last.tasks:,} at {last.runs}" if last.tasks < first.tasks else ""
    wide = _format_delta(name, analysis.aim.width)
    needed = f"{first.tasks:,} tasks at {count_things(first.runs, 'run')} each{more}"
    return [f"For an interval of {name} no wider than {wide} you need {needed}."]


def _list_reasons(analysis: PowerAnalysis) -> list[str]:
    """Return why there are nulls: a line per reason, with the metrics and groups."""
    groups: dict[tuple[str, str, str], list[str]] = {}  # of a metric, the cells and the reason
    for group in analysis.groups:
        for name, found in group.metrics.items():
            for reason in dict.fromkeys(found.reasons.values()):
                cells = [
                    _HEADS.get(key, key) for key, why in found.reasons.items() if why == reason
                ]
                which = "" if found.spread is None else f" ({', '.join(cells)})"
                groups.setdefault((name, which, reason), []).append(format_group(group.by))
    metrics: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    for (name, which, reason), names in groups.items():
        where = names if len(names) < len(analysis.groups) else ()
        metrics.setdefault((which, reason, tuple(where)), []).append(name)
    return [
        f"{', '.join(names)}{which}: {strip_controls(reason)}"
        + (f" [{'; '.join(where)}]" if where else "")
        for (which, reason, where), names in metrics.items()
    ]


def _list_footnotes(analysis: PowerAnalysis) -> list[str]:
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
    said = [counts]
    if aim.delta is None:
        said.append(
            f"To see: {100 * DELTA:g} points for metrics in [0, 1], {100 * DELTA:g} % of the value "
            "for others (--delta)."
        )
    noted: dict[str, list[str]] = {}
    for group in analysis.groups:
        for name, found in group.metrics.items():
            for note in found.notes:
                noted.setdefault(note, [])
                noted[note] += [name] * (name not in noted[note])
    return [*said, *(f"{', '.join(names)}: {note}." for note, names in noted.items())]


def _format_delta(name: str, delta: float | None, points: str = "points") -> str:
    """Return a difference of a metric: of rates in points, of money for 1,000 calls."""
    if delta is None:
        return NOTHING
    form = choose_difference_form(name)
    if form.points:
        return f"{100 * delta:.3g} {points}"
    if form.thousand:
        return f"{format_dollars(1000 * delta)} {get_unit(name)}"
    is_plain = 1e-3 <= delta < 1e3  # noqa: PLR2004
    return f"{delta:.4g}" if is_plain else _round_digits(delta)


def _round_digits(number: float | None) -> str:
    """Return three digits: an estimate without an interval supports no more."""
    if number is None:
        return NOTHING
    digits = max(0, count_decimals(number) - 1) if number else 0
    return format_figure(number, form=Form(decimals=digits))

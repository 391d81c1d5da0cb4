"""A score as a document: its table, tiers side by side, and remarks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from calipers.metrics import catalogue, metric_named
from calipers.metrics.cost.tiers import TIER
from calipers.metrics.thresholds import read_scale
from calipers.reports.figures import Form, choose_form, group_name
from calipers.reports.remarks import (
    UNBOUNDED,
    describe_flaky,
    describe_items,
    describe_unbounded,
    has_one_bound,
    list_corrections,
    list_frontier,
    list_reasons,
    list_warnings,
)
from calipers.reports.restated import drop_restated
from calipers.reports.table import (
    ABSENT,
    EMPTY,
    Cell,
    Column,
    Document,
    Line,
    Row,
    Table,
    Tone,
    Where,
    estimate_cell,
    make_data_columns,
    make_lines,
)
from calipers.reports.tiers import WARNED, format_grade, select_groups, tabulate_tiers

if TYPE_CHECKING:
    from calipers.scores.results import BoundedValue, Group, Measured, Score

_COLUMNS = (  # behind `value`, each is a field of `Measured`
    Column(name="group", kind="key", where="people"),
    Column(name="metric", kind="key", type=str),
    Column(name="value", bounds=("low", "high"), type=float),
    Column(name="stderr", where="data", type=float),
    Column(name="interval", where="data", type=str),
    Column(name="n", where="data", type=int),
    Column(name="missing", where="data", type=int),
    Column(name="reason", where="data", type=str),
    Column(name="unit", kind="unit", of="metric", where="people"),
)
_COUNTS = {
    "records": "records",
    "failed calls": "errors",
    "truncated replies": "truncated",
    "counted as failures": "failures",
}
_RESERVED = {"low", "high", *(column.name for column in _COLUMNS)} - {"group", "unit"}
_SIDE_BY_SIDE = 4  # groups of a breakdown that have a column each
_MANY = 7  # groups beyond which each has a row and metrics stand side by side


def make_score_document(score: Score) -> Document:
    """Return the score, its tiers, and what is to be known: nulls, warnings, corrections."""
    if not score.groups:
        return (Line(text="No records."), tabulate_score(score))
    frontier = [] if score.frontier is None else list(list_frontier(score.frontier))
    of_tasks = [text for text in (describe_flaky(score), describe_items(score)) if text]
    return (
        tabulate_score(score),
        *(Line(text=text, kind="note", tone="warn") for text in list_warnings(score)),
        *(tabulate_tiers(tiers, select_groups(score.groups, tiers)) for tiers in score.tiers),
        *make_lines(of_tasks + frontier),
        *make_lines([f"without the judge's error: {line}" for line in list_corrections(score)]),
    )


def tabulate_score(
    score: Score,
    *,
    names: Sequence[str] | None = None,
    most: int | None = None,
    wide: bool | None = None,
    define: Callable[[str], str] | None = None,
    rows_behind: Callable[[str, Group], str] | None = None,
) -> Table:
    """Return a row per group and metric; people see groups side by side, or metrics if `wide`.

    `names` are the metrics to show, `most` the groups; `define` gives the address of a metric's
    definition, `rows_behind` that of the rows behind a value.
    """
    groups = score.groups[:most]
    every = dict.fromkeys(name for group in groups for name in group.metrics)
    chosen = [name for name in every if names is None or name in names]
    shown = [name for name in list_shown(score) if name in chosen]
    rows = list(_make_metric_rows(groups, chosen, shown, define, rows_behind))
    if names is None:
        rows = [*_count_rows(groups), *rows, *_make_tier_rows(score, groups)]
    elif wide:
        rows = [*_count_rows(groups, ("records",)), *rows]
    fields = list(groups[0].by) if groups else []
    keys = make_data_columns(*(f"by_{name}" if name in _RESERVED else name for name in fields))
    group = replace(_COLUMNS[0], heading=", ".join(fields) or "group")
    return Table(
        columns=(*keys, group, *_COLUMNS[1:]),
        rows=tuple(rows),
        across="metric" if wide else "group",
        notes=tuple(list_reasons(groups, shown)),
    )


def list_shown(score: Score) -> list[str]:
    """Return the metrics that people see: not `usr` and `error_rate` beside accuracy.

    These are shown where they are named; JSON, CSV and data frames always have them.
    """
    every = dict.fromkeys(name for group in score.groups for name in group.metrics)
    return drop_restated(every, named=score.settings.get("metrics") or ())


def _make_row(
    at: tuple[int, Group],
    name: Cell,
    value: Cell,
    found: Measured | BoundedValue | None = None,
    *,
    unit: str | None = None,
    where: Where = "all",
    tone: Tone = "",
) -> Row:
    place, group = at
    key = Cell(value=place, text=group_name(group.by))
    behind = (column.name for column in _COLUMNS[3:-1])
    known = (EMPTY if found is None else getattr(found, each, None) for each in behind)
    cells = (*group.by.values(), key, name, value, *known, unit or EMPTY)
    return Row(cells=cells, where=where, tone=tone)


def _count_rows(groups: Sequence[Group], labels: Sequence[str] = tuple(_COUNTS)) -> Iterator[Row]:
    """Yield how many records there are and, where any did, how many failed."""
    counted = {label: _COUNTS[label] for label in labels}
    for at in enumerate(groups):
        for label, name in counted.items():
            if name == "records" or any(getattr(group, name) for group in groups):
                count = Cell(value=getattr(at[1], name))
                yield _make_row(at, Cell(value=label), count, where="people", tone="quiet")


def _make_metric_rows(
    groups: Sequence[Group],
    names: Sequence[str],
    shown: Sequence[str],
    define: Callable[[str], str] | None,
    rows_behind: Callable[[str, Group], str] | None,
) -> Iterator[Row]:
    forms = {name: choose_form(_list_measured(groups, name)) for name in names}
    valued = {
        name for name in shown if any(m.value is not None for m in _list_measured(groups, name))
    }
    for at in enumerate(groups):
        for name in names:
            if (measured := at[1].metrics.get(name)) is not None:
                metric = metric_named(name)
                says, link = ("", "") if define is None else (metric.says, define(name))
                key = Cell(value=name, note=says, link=link)
                value = _make_value_cell(name, at[1], forms[name], rows_behind)
                where: Where = "all" if name in valued else "data"
                yield _make_row(at, key, value, measured, unit=metric.unit, where=where)


def _make_tier_rows(score: Score, groups: Sequence[Group]) -> Iterator[Row]:
    """Yield rows about a tier besides its metrics: median composite, grade and uplift."""
    medians = choose_form(each.median_composite for each in groups if each.median_composite)
    for at in enumerate(groups):
        if (median := at[1].median_composite) is not None:
            name = Cell(value="median_composite", text="median composite")
            where: Where = "data" if median.value is None else "all"
            yield _make_row(at, name, estimate_cell(median, medians), median, where=where)
        if at[1].grade is not None:
            yield _make_row(at, Cell(value="grade"), Cell(text=format_grade(at[1])), where="people")
        tier = str(at[1].by.get(TIER))
        for tiers in score.tiers:
            if tier in tiers.uplift_intervals and select_groups([at[1]], tiers):
                found = tiers.uplift_intervals[tier]
                yield _make_row(at, Cell(value="uplift"), estimate_cell(found), found, where="data")


def as_percentages(document: Document) -> Document:
    """Return the document of a score with ratios in percent, as a gate writes them."""
    return tuple(
        replace(each, rows=tuple(map(_use_percent, each.rows))) if isinstance(each, Table) else each
        for each in document
    )


def _use_percent(row: Row) -> Row:
    names = (cell.value if isinstance(cell, Cell) else cell for cell in row.cells)
    known = catalogue()
    metric = next((known[name] for name in names if isinstance(name, str) and name in known), None)
    if metric is None or not read_scale(metric).is_ratio:
        return row
    cells = (
        replace(cell, form=replace(cell.form, percent=True))
        if isinstance(cell, Cell) and isinstance(cell.value, float)
        else cell
        for cell in row.cells
    )
    return replace(row, cells=tuple(cells))


def is_wide(score: Score) -> bool:
    """Say whether there are too many groups to stand side by side."""
    return len(score.groups) > _MANY


def tabulate_matrices(score: Score, field: str, names: Sequence[str]) -> Iterator[Table]:
    """Yield a table per metric: a row per value of the field, a column per group within it.

    Of many groups each has a row, and each value of the field a column.
    """
    systems = len({group_name({**group.by, field: None}) for group in score.groups})
    heading = ", ".join(key for key in (score.groups[0].by if score.groups else ()) if key != field)
    for name in names:
        metric = metric_named(name)
        form = choose_form(_list_measured(score.groups, name))
        rows = []
        for group in score.groups:
            other = {key: value for key, value in group.by.items() if key != field}
            known = name in group.metrics
            cell = _make_value_cell(name, group, form, None) if known else ABSENT
            rows.append(Row(cells=(group_name({field: group.by[field]}), group_name(other), cell)))
        columns = (
            Column(name=field, kind="key", where="people"),
            Column(name="group", heading=heading, kind="key", where="people"),
            Column(name="value", where="people"),
        )
        title = f"{name} ({metric.unit})" if metric.unit else name
        across = "group" if systems <= _SIDE_BY_SIDE else field
        notes = tuple(list_reasons(score.groups, [name]))
        yield Table(columns=columns, rows=tuple(rows), across=across, title=title, notes=notes)


def _list_measured(groups: Sequence[Group], name: str) -> list[Measured]:
    return [group.metrics[name] for group in groups if name in group.metrics]


def _make_value_cell(
    name: str, group: Group, form: Form, rows: Callable[[str, Group], str] | None
) -> Cell:
    measured = group.metrics[name]
    mark = WARNED if name == "cost_of_pass" and group.warning is not None else ""
    by = f", {measured.interval} interval" if measured.interval else ""
    note = measured.reason or f"n = {measured.n:,}{by}"
    if lacking := describe_unbounded(measured):
        note = f"{note}; {lacking}"
        mark += UNBOUNDED if has_one_bound(measured) else ""
    link = "" if rows is None or measured.value is None else rows(name, group)
    return estimate_cell(measured, form, mark=mark, note=note, link=link)

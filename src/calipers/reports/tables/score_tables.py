"""A score as a document: its table, tiers side by side, breakdowns as matrices, and notes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from calipers.metrics import metric_named
from calipers.metrics.families.cost import TIER
from calipers.reports.number_format import (
    NOTHING,
    Form,
    choose_form,
    format_figure,
    format_group,
    format_p,
    join_ranges,
    join_some,
)
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
    make_data_columns,
    make_estimate_cell,
    make_lines,
    make_rows,
)
from calipers.reports.tables.notes import (
    UNBOUNDED,
    describe_flaky,
    describe_items,
    describe_unbounded,
    has_one_bound,
    list_corrections,
    list_frontier,
    list_reasons,
    list_variants,
    list_warnings,
)
from calipers.reports.tables.shown_metrics import (
    choose_metric_form,
    choose_rows,
    get_unit,
    label_metric,
    list_shown,
)
from calipers.scores.notices import describe_leading, describe_stated

if TYPE_CHECKING:
    from calipers.scores.result import BoundedValue, Group, Measured, Score, Tiers, TierTest

WARNED = " !"  # mark of values that failed calls affect
_TIER_COLUMNS = (
    Column(name="tier", kind="key", where="people"),
    Column(name="grade", where="people"),
    Column(name="median_composite", heading="median composite", where="people"),
    Column(name="uplift", where="people"),
    Column(name="difference", heading="difference of means", where="people"),
    Column(name="p_holm", heading="p adjusted (Holm)", where="people"),
    Column(name="effect", heading="effect size", where="people"),
)
_BOUNDED = (2, 3, 4)  # the columns with intervals
_SPREADS = {
    "pass_rate_variance": "variance of pass rates (medians)",
    "pass_rate_mean_variance": "variance of pass rates (means)",
    "cost_variance": "variance of median costs",
    "cost_delta": "highest − lowest median cost",
}
_NAMED = 4  # in a note


def tabulate_tiers(tiers: Tiers, groups: Sequence[Group]) -> Table:
    """Return a row per tier; below, the variances between tiers and the tests used."""
    title = f"Tiers against {tiers.baseline}"
    rows = []
    for group in groups:
        tier = str(group.by[TIER])
        of_group = Cell(text=format_grade(group)), make_estimate_cell(group.median_composite)
        against = _make_uplift_cell(tiers, tier), *_make_evidence_cells(tiers.tests.get(tier))
        rows.append([Cell(value=tier), *of_group, *against])
    for place in _BOUNDED:
        form = choose_form(row[place] for row in rows)
        for row in rows:
            brackets = form.brackets or row[place].form.brackets
            decimals = row[place].form.decimals if form.decimals is None else form.decimals
            own = replace(row[place].form, decimals=decimals, brackets=brackets)
            row[place] = replace(row[place], form=own)
    return Table(
        title=f"{title}: {format_group(tiers.by)}" if tiers.by else title,
        columns=_TIER_COLUMNS,
        rows=make_rows(rows),
        notes=(*_list_spreads(tiers, len(groups)), *_list_tier_notes(tiers)),
    )


def select_groups(groups: Sequence[Group], tiers: Tiers) -> list[Group]:
    """Return the groups whose tiers are compared: those equal in all other fields."""
    return [
        group
        for group in groups
        if group.by.get(TIER) is not None
        and {name: value for name, value in group.by.items() if name != TIER} == dict(tiers.by)
    ]


def format_grade(group: Group) -> str:
    """Return the grade, the grades it may also be, and a mark if calls failed."""
    if group.grade is None:
        return NOTHING
    sure = group.grade_interval is None or len({*group.grade_interval}) == 1
    between = "" if sure else f" [{', '.join(group.grade_interval or ())}]"
    return f"{group.grade}{between}{'' if group.warning is None else WARNED}"


def describe_tiers(tiers: Tiers, groups: Sequence[Group], confidence: float) -> Iterator[str]:
    """Yield where the median composite of the tiers lies, and which differ from the baseline."""
    of = f" ({format_group(tiers.by)})" if tiers.by else ""
    medians = {
        str(group.by[TIER]): group.median_composite
        for group in groups
        if group.median_composite is not None and group.median_composite.value is not None
    }
    if len(medians) > 1:
        form = choose_form(medians.values())
        order = sorted(medians, key=lambda tier: medians[tier].value or 0.0)
        ends = (
            f"{format_figure(medians[tier].value, medians[tier].low, medians[tier].high, form)} "
            f"({tier})"
            for tier in (order[0], order[-1])
        )
        yield f"Median composite by tier{of}: from {' to '.join(ends)}."
    tests = {tier: test for tier, test in tiers.tests.items() if test.p_holm is not None}
    apart = {tier: test for tier, test in tests.items() if (test.p_holm or 0.0) < 1 - confidence}
    for word, sign in (("above", 1), ("below", -1)):
        whose = [tier for tier, test in apart.items() if sign * (test.difference or 0.0) > 0]
        if whose:
            named = join_some([f"{each} (p {format_p(tests[each].p_holm)})" for each in whose])
            yield f"Composite score significantly {word} that of {tiers.baseline}{of}: {named}."
    if tests and not apart:
        least = min(test.p_holm or 0.0 for test in tests.values())
        yield (
            f"No tier differs significantly from {tiers.baseline} in composite score{of}; "
            f"the smallest adjusted p is {format_p(least)}."
        )


def _make_uplift_cell(tiers: Tiers, tier: str) -> Cell:
    """Return an uplift with its interval, in percent of the baseline's median."""
    uplift, around = tiers.uplift.get(tier), tiers.uplift_intervals.get(tier)
    low, high = (None, None) if around is None else (around.low, around.high)
    warned = WARNED if {tier, tiers.baseline} & set(tiers.warnings) else ""
    form = Form(signed=True, percent=True, brackets=True, decimals=3 if low is None else None)
    return Cell(
        value=uplift, low=low, high=high, form=form, mark=warned if uplift is not None else ""
    )


def _make_evidence_cells(test: TierTest | None) -> tuple[Cell, Cell, Cell]:
    if test is None or test.difference is None:
        return ABSENT, ABSENT, ABSENT
    signed = Form(signed=True, brackets=True)
    effect = format_figure(test.effect, form=Form(signed=True, decimals=2))
    named = effect if test.effect is None else f"{effect} ({test.effect_name})"
    return (
        Cell(value=test.difference, low=test.low, high=test.high, form=signed),
        Cell(value=test.p_holm, text=format_p(test.p_holm)),
        Cell(value=test.effect, text=named),
    )


def _list_spreads(tiers: Tiers, count: int) -> Iterator[str]:
    """Yield how consistent each tier is, and the variances between tiers with their intervals."""
    if tiers.consistency:
        found = tiers.consistency.items()
        shown = ", ".join(f"{tier} {format_figure(value)}" for tier, value in found)
        yield f"consistency of scores (1 − coefficient of variation): {shown}"
    if count < 2:  # noqa: PLR2004
        return
    for name, label in _SPREADS.items():
        value, around = getattr(tiers, name), tiers.intervals.get(name)
        low, high = (None, None) if around is None else (around.low, around.high)
        if value is not None:
            yield f"{label}: {format_figure(value, low, high, Form(brackets=True))}"


def _list_tier_notes(tiers: Tiers) -> Iterator[str]:
    """Yield the methods of intervals and tests, and the reason for each that is missing."""
    hows = {each.interval for each in tiers.uplift_intervals.values() if each.interval}
    tests = {each.test for each in tiers.tests.values() if each.test}
    if hows:
        yield f"intervals of uplift: {'; '.join(sorted(hows))}"
    if tests:
        yield f"p: {'; '.join(sorted(tests))}, adjusted for all tiers (Holm)"
    told = [(reason, what) for what, reason in tiers.reasons.items()]
    for reason, whats in join_ranges(told).items():
        yield f"{NOTHING} {join_some(whats, _NAMED)}: {reason}"


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
RESERVED = {"low", "high", *(column.name for column in _COLUMNS)} - {"group", "unit"}
MOST_SHOWN = 1_000  # groups that people see
_SIDE_BY_SIDE = 4  # groups of a breakdown that have a column each
_MANY = 7  # groups beyond which each has a row and metrics stand side by side


def make_score_document(
    score: Score, first: Sequence[str] = (), most: int | None = MOST_SHOWN
) -> Document:
    """Return the score, its tiers, and what is to be known: nulls, warnings, corrections.

    `first` are the metrics that matter most, as those of a policy; `most` is how many groups are
    shown: people read no more, and data have all of them.
    """
    if not score.groups:
        return (Line(text="No records."), tabulate_score(score))
    if most is not None and len(score.groups) > most:
        some = make_score_document(replace(score, groups=score.groups[:most]), first)
        return (*some, Line(text=_describe_shown(score, most), kind="note"))
    frontier = [] if score.frontier is None else list(list_frontier(score.frontier))
    of_tasks = [text for text in (describe_flaky(score), describe_items(score)) if text]
    return (
        *make_lines(list(describe_leading(score.inputs))),
        tabulate_score(score, first=first),
        *(Line(text=text, kind="note", tone="warn") for text in list_warnings(score)),
        *tabulate_slices(score),
        *(tabulate_tiers(tiers, select_groups(score.groups, tiers)) for tiers in score.tiers),
        *make_lines(of_tasks + frontier),
        *make_lines([] if score.variants is None else list(list_variants(score.variants))),
        *make_lines(list(describe_stated(score.inputs))),
        *make_lines([f"without the judge's error: {line}" for line in list_corrections(score)]),
    )


def tabulate_score(
    score: Score,
    *,
    names: Sequence[str] | None = None,
    first: Sequence[str] | None = None,
    most: int | None = None,
    wide: bool | None = None,
    define: Callable[[str], str] | None = None,
    rows_behind: Callable[[str, Group], str] | None = None,
) -> Table:
    """Return a row per group and metric; people see groups side by side, or metrics if `wide`.

    `names` are the metrics to show, `most` the groups; with `first`, only the metrics that matter
    have rows, these before the others. `define` gives the address of a metric's definition,
    `rows_behind` that of the rows behind a value.
    """
    groups = score.groups[:most]
    every = dict.fromkeys(name for group in groups for name in group.metrics)
    told: list[str] = []
    if first is None:
        shown = [name for name in list_shown(score) if names is None or name in names]
        explained = shown
    else:
        choice = choose_rows(score, first)
        told, shown = list(choice.list_notes(groups)), list(choice.rows)
        explained = list(choice.explained)
    others = [name for name in every if name not in shown]
    chosen = [name for name in (*shown, *others) if names is None or name in names]
    rows = list(_make_metric_rows(groups, chosen, shown, define, rows_behind))
    if names is None:
        rows = [*_count_rows(groups), *rows, *_make_tier_rows(score, groups)]
    elif wide:
        rows = [*_count_rows(groups, ("records",)), *rows]
    fields = list(groups[0].by) if groups else []
    keys = make_data_columns(*(f"by_{name}" if name in RESERVED else name for name in fields))
    group = replace(_COLUMNS[0], heading=", ".join(fields) or "group")
    return Table(
        columns=(*keys, group, *_COLUMNS[1:]),
        rows=tuple(rows),
        across="metric" if wide else "group",
        notes=(*told, *list_reasons(groups, explained)),
    )


def _describe_shown(score: Score, most: int) -> str:
    """Return how many groups there are beside those shown, and where all are."""
    return (
        f"the first {most:,} of {len(score.groups):,} groups: "
        "--format csv, json and parquet have all of them"
    )


_SLICES = (
    Column(name="slice", kind="key", where="people"),
    Column(name="n", where="people"),
    Column(name="value", heading="value, interval for all slices", where="people"),
    Column(name="shrunken", where="people"),
)


def tabulate_slices(score: Score) -> Iterator[Table]:
    """Yield a table per share of small slices, of which the worst may be bad luck."""
    if not score.slices:
        return
    from calipers.scores.slices import select_small  # noqa: PLC0415 (only for slices)

    small, shown = select_small(score.slices), list_shown(score)
    for name in (name for name in shown if any(each.metric == name for each in small)):
        slices = [each for each in small if each.metric == name]
        form = choose_metric_form(name, slices)
        rows = make_rows(
            (
                _name_part(each.by),
                Cell(value=each.n),
                make_estimate_cell(each, form, note=f"n = {each.n:,}"),
                Cell(value=each.shrunken, form=form),
            )
            for each in slices
        )
        title = f"{label_metric(name)} by slice, read together"
        note = "shrunken: drawn towards the mean of all slices by how much of their spread is luck"
        yield Table(title=title, columns=_SLICES, rows=rows, notes=(note,))


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
    key = Cell(value=place, text=format_group(group.by))
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
    forms = {name: choose_metric_form(name, _list_measured(groups, name)) for name in names}
    valued = {
        name for name in shown if any(m.value is not None for m in _list_measured(groups, name))
    }
    for at in enumerate(groups):
        for name in names:
            if (measured := at[1].metrics.get(name)) is not None:
                metric = metric_named(name)
                says, link = ("", "") if define is None else (metric.says, define(name))
                key = Cell(value=name, text=label_metric(name), note=says, link=link)
                value = _make_value_cell(name, at[1], forms[name], rows_behind)
                where: Where = "all" if name in valued else "data"
                yield _make_row(at, key, value, measured, unit=get_unit(name), where=where)


def _make_tier_rows(score: Score, groups: Sequence[Group]) -> Iterator[Row]:
    """Yield rows about a tier besides its metrics: median composite, grade and uplift."""
    medians = choose_form(each.median_composite for each in groups if each.median_composite)
    for at in enumerate(groups):
        if (median := at[1].median_composite) is not None:
            name = Cell(value="median_composite", text="median composite")
            where: Where = "data" if median.value is None else "all"
            yield _make_row(at, name, make_estimate_cell(median, medians), median, where=where)
        if at[1].grade is not None:
            yield _make_row(at, Cell(value="grade"), Cell(text=format_grade(at[1])), where="people")
        tier = str(at[1].by.get(TIER))
        for tiers in score.tiers:
            if tier in tiers.uplift_intervals and select_groups([at[1]], tiers):
                found = tiers.uplift_intervals[tier]
                yield _make_row(
                    at, Cell(value="uplift"), make_estimate_cell(found), found, where="data"
                )


def is_wide(score: Score) -> bool:
    """Say whether there are too many groups to stand side by side."""
    return len(score.groups) > _MANY


def tabulate_matrices(score: Score, field: str, names: Sequence[str]) -> Iterator[Table]:
    """Yield a table per metric: a row per value of the field, a column per group within it.

    Of many groups each has a row, and each value of the field a column.
    """
    systems = len({repr({**group.by, field: None}) for group in score.groups})
    heading = ", ".join(key for key in (score.groups[0].by if score.groups else ()) if key != field)
    for name in names:
        unit = get_unit(name)
        form = choose_metric_form(name, _list_measured(score.groups, name))
        rows = []
        for group in score.groups:
            other = {key: value for key, value in group.by.items() if key != field}
            known = name in group.metrics
            cell = _make_value_cell(name, group, form, None) if known else ABSENT
            rows.append(Row(cells=(_name_part({field: group.by[field]}), _name_part(other), cell)))
        columns = (
            Column(name=field, kind="key", where="people"),
            Column(name="group", heading=heading, kind="key", where="people"),
            Column(name="value", where="people"),
        )
        title = f"{label_metric(name)} ({unit})" if unit else label_metric(name)
        across = "group" if systems <= _SIDE_BY_SIDE else field
        notes = tuple(list_reasons(score.groups, [name]))
        yield Table(columns=columns, rows=tuple(rows), across=across, title=title, notes=notes)


def _name_part(by: Mapping[str, Any]) -> Cell:
    """Return part of a group's key; two that look alike are two."""
    return Cell(value=repr(by), text=format_group(by))


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
    return make_estimate_cell(measured, form, mark=mark, note=note, link=link)

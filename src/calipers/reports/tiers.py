"""Tiers side by side: grade, median composite, uplift and test, each with its interval."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from calipers.metrics.cost.tiers import TIER
from calipers.reports.figures import (
    NOTHING,
    Form,
    choose_form,
    format_figure,
    format_p,
    group_name,
    join_ranges,
    join_some,
)
from calipers.reports.table import ABSENT, Cell, Column, Table, estimate_cell, make_rows

if TYPE_CHECKING:
    from calipers.scores.results import Group, Tiers
    from calipers.scores.tier_results import TierTest

WARNED = " !"  # mark of values that failed calls affect
_COLUMNS = (
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
        of_group = Cell(text=format_grade(group)), estimate_cell(group.median_composite)
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
        title=f"{title}: {group_name(tiers.by)}" if tiers.by else title,
        columns=_COLUMNS,
        rows=make_rows(rows),
        notes=(*_list_spreads(tiers, len(groups)), *_list_notes(tiers)),
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
    of = f" ({group_name(tiers.by)})" if tiers.by else ""
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
    """Yield the variances between tiers with their intervals; nothing for a single tier."""
    if count < 2:  # noqa: PLR2004
        return
    for name, label in _SPREADS.items():
        value, around = getattr(tiers, name), tiers.intervals.get(name)
        low, high = (None, None) if around is None else (around.low, around.high)
        if value is not None:
            yield f"{label}: {format_figure(value, low, high, Form(brackets=True))}"


def _list_notes(tiers: Tiers) -> Iterator[str]:
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

"""Judges of pairs, and judges that changed, as tables."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from calipers.reports.agreement import explain_nulls
from calipers.reports.figures import choose_form, count_things, format_p, strip_controls
from calipers.reports.table import (
    Cell,
    Column,
    Table,
    estimate_cell,
    make_columns,
    make_difference_cell,
    make_rows,
)

if TYPE_CHECKING:
    from calipers.judges.audit import Audit, JudgeDrift, PreferenceGroup

_HEADS = {
    "win_rate_a": "a wins",
    "tie_rate": "ties",
    "consistency": "same in both orders",
    "position_bias": "for the first",
    "longer_win_rate": "longer wins",
    "own_win_rate": "own model wins",
    "self_preference": "for its own model",
}
_SIGNED = ("position_bias", "self_preference")
_NOTES = {
    "win_rate_a": "a wins: share of wins of {a} over {b}, a tie counts half",
    "position_bias": "for the first: share of wins of the answer shown first minus that of the "
    "second, over both orders; 0 without a position bias",
    "longer_win_rate": "longer wins: share of decided pairs that the longer answer won; it may be "
    "the better one, so compare judges with each other or with people",
    "self_preference": "for its own model: what the judge gives answers of its own model beyond "
    "what the other judges give them",
}
_PAIR = 2


def tabulate_preferences(audit: Audit) -> Iterator[Table]:
    """Yield the judges of pairs of each group, and their wins by length."""
    for group in audit.preferences:
        yield _tabulate_judges(group)
        lengths = _tabulate_lengths(group)
        if lengths.rows:
            yield lengths


def make_measure_cells(
    judges: Sequence[Any], names: Sequence[str], signed: Collection[str]
) -> Iterator[list[Cell]]:
    """Yield the cells of some measures of each judge, a measure in the same form for all."""
    forms = {
        name: choose_form((judge.measures[name] for judge in judges), signed=name in signed)
        for name in names
    }
    for judge in judges:
        yield [estimate_cell(judge.measures[name], forms[name]) for name in names]


def _tabulate_judges(group: PreferenceGroup) -> Table:
    shown = [n for n in _HEADS if any(j.measures[n].value is not None for j in group.judges)]
    cells = make_measure_cells(group.judges, shown, signed=_SIGNED)
    rows = make_rows(
        (judge.judge, judge.pairs, judge.failed, *own)
        for judge, own in zip(group.judges, cells, strict=True)
    )
    told = (
        (strip_controls(judge.judge), name, judge.measures[name])
        for judge in group.judges
        for name in shown
    )
    pair = len(group.systems) == _PAIR
    a, b = group.systems if pair else ("a", "b")
    of = " and ".join(group.systems) if pair else count_things(len(group.systems), "system")
    name = ", ".join(f"{key}={value}" for key, value in group.by.items())
    return Table(
        title=f"judges of pairs{f' ({name})' if name else ''}",
        lead=f"{count_things(group.tasks, 'task')}, {of}",
        columns=make_columns("judge", "pairs", "failed", *(_HEADS[each] for each in shown)),
        rows=rows,
        notes=(
            *(_NOTES[each].format(a=a, b=b) for each in shown if each in _NOTES),
            *explain_nulls(told),
        ),
    )


def _tabulate_lengths(group: PreferenceGroup) -> Table:
    known = [j for j in group.judges if any(e.value is not None for e in j.by_length.values())]
    names = list(known[0].by_length) if known else []
    rows = make_rows(
        (judge.judge, *(estimate_cell(judge.by_length[name]) for name in names)) for judge in known
    )
    title = "wins of the longer answer, by how much longer it is"
    return Table(title=title, columns=make_columns("judge", *names), rows=rows)


def tabulate_drift(drift: Sequence[JudgeDrift]) -> Table:
    """Return how each judge differs from itself in an earlier run on the same answers."""
    rows = make_rows(
        (
            each.judge,
            Cell(value=each.changed, tone="warn" if each.changed == "yes" else ""),
            each.on,
            f"{each.differing:,} of {each.n:,}",
            make_difference_cell(each),
            Cell(text=format_p(each.p_adjusted)),
            each.why + (f" ({each.reason})" if each.reason else ""),
        )
        for each in drift
    )
    columns = (
        Column(name="judge", kind="key", where="people"),
        Column(name="changed", kind="tag", where="people"),
        Column(name="on", kind="text", where="people"),
        Column(name="judgments that differ", kind="text", where="people"),
        Column(name="now − before", where="people"),
        Column(name="adjusted p", where="people"),
        Column(name="why", kind="words", where="people"),
    )
    return Table(title="the same answers, judged before and now", columns=columns, rows=rows)

"""An audit of judges as a document: each judge, its items and biases, agreement, drift, pairs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from calipers.reports.number_format import (
    PLAIN,
    Form,
    choose_form,
    count_things,
    format_group,
    format_p,
    shorten_text,
    strip_controls,
)
from calipers.reports.table import (
    EMPTY,
    Cell,
    Column,
    Document,
    Line,
    Row,
    Table,
    make_columns,
    make_data_columns,
    make_difference_cell,
    make_estimate_cell,
    make_rows,
)
from calipers.reports.tables.agreement_tables import explain_nulls

if TYPE_CHECKING:
    from calipers.judges.audit_result import (
        Audit,
        AuditGroup,
        JudgeDrift,
        JudgesAgreement,
        PairAgreement,
        PreferenceGroup,
    )
    from calipers.scores.result import Measured
    from calipers.statistics.estimates import Estimate

_PAIR_HEADS = {
    "win_rate_a": "a wins",
    "tie_rate": "ties",
    "consistency": "same in both orders",
    "position_bias": "for the first",
    "longer_win_rate": "longer wins",
    "own_win_rate": "own model wins",
    "self_preference": "for its own model",
}
_SIGNED_BIASES = ("position_bias", "self_preference")
_PAIR_NOTES = {
    "win_rate_a": "a wins: share of wins of {a} over {b}, a tie counts half",
    "position_bias": "for the first: share of wins of the answer shown first minus that of the "
    "second, over both orders; 0 without a position bias",
    "longer_win_rate": "longer wins: share of decided pairs that the longer answer won; it may be "
    "the better one, so compare judges with each other or with people",
    "self_preference": "for its own model: what the judge gives answers of its own model beyond "
    "what the other judges give them",
}
_PAIR = 2
_OF_RATES = {"pass_rate": Form(percent=True), "pass_bias": Form(points=True)}


def tabulate_preferences(audit: Audit) -> Iterator[Table]:
    """Yield the judges of pairs of each group, and their wins by length."""
    for group in audit.preferences:
        yield _tabulate_pair_judges(group)
        lengths = _tabulate_lengths(group)
        if lengths.rows:
            yield lengths


def make_measure_cells(
    judges: Sequence[Any], names: Sequence[str], signed: Collection[str]
) -> Iterator[list[Cell]]:
    """Yield the cells of some measures of each judge, a measure in the same form for all."""
    forms = {
        name: choose_form(
            (judge.measures[name] for judge in judges),
            _OF_RATES.get(name, PLAIN),
            signed=name in signed,
        )
        for name in names
    }
    for judge in judges:
        yield [make_estimate_cell(judge.measures[name], forms[name]) for name in names]


def _tabulate_pair_judges(group: PreferenceGroup) -> Table:
    shown = [n for n in _PAIR_HEADS if any(j.measures[n].value is not None for j in group.judges)]
    cells = make_measure_cells(group.judges, shown, signed=_SIGNED_BIASES)
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
        columns=make_columns("judge", "pairs", "failed", *(_PAIR_HEADS[each] for each in shown)),
        rows=rows,
        notes=(
            *(_PAIR_NOTES[each].format(a=a, b=b) for each in shown if each in _PAIR_NOTES),
            *explain_nulls(told),
        ),
    )


def _tabulate_lengths(group: PreferenceGroup) -> Table:
    known = [j for j in group.judges if any(e.value is not None for e in j.by_length.values())]
    names = list(known[0].by_length) if known else []
    rows = make_rows(
        (judge.judge, *(make_estimate_cell(judge.by_length[name]) for name in names))
        for judge in known
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


_Judges = tuple[str | None, str | None]  # whom a measure is of: one, two, or none in particular
_ALL = "all judges"
_LONGEST_NAME = 40
_SIGNED = Form(signed=True)
_DATA = ("judge_1", "judge_2", "on", "measure")
_FIELDS = ("stderr", "interval", "n", "missing", "reason")
_OF_JUDGES = ("pass_rate", "mean_score", "bias", "pass_bias")
_OF_BIASES = {
    "length_slope": "twice as long: what an answer twice as long scores more than another one to "
    "the same task; it may be the better one",
    "length_bias": "beyond the others: the same, of what the judge gives beyond other judges",
    "own_margin": "own model: what answers of the judge's own family of models score more than "
    "others to the same task; they may be the better ones",
    "self_preference": "own, beyond the others: the same, of what the judge gives beyond other "
    "judges; what all of them favour stays unseen",
}
_BIASES = {name: note.partition(":")[0] for name, note in _OF_BIASES.items()}  # their columns


def make_audit_document(audit: Audit, link: Callable[[str], str] | None = None) -> Document:
    """Return the tables of each group; `link` gives the address of a record's page."""
    keys = [*(each.by for each in audit.groups), *(each.by for each in audit.preferences)]
    fields = tuple(keys[0] if keys else ())
    blocks: list[Table | Line] = [] if audit.records else [Line(text="No records.")]
    for group in audit.groups:
        if group.by:
            blocks.append(Line(text=format_group(group.by), kind="heading"))
        blocks.append(Line(text=_summarize(group)))
        blocks += tabulate_audit(group, audit.confidence, link)
    blocks += tabulate_preferences(audit)
    blocks += [tabulate_drift(audit.drift)] if audit.drift else []
    blocks.append(_tabulate_data(audit, fields))
    return tuple(blocks)


def tabulate_audit(
    group: AuditGroup, confidence: float, link: Callable[[str], str] | None = None
) -> Iterator[Table]:
    """Yield the judges, their items, the scores farthest from them, and the agreement."""
    if not group.judges:
        return
    yield _tabulate_judges(group)
    if any(judge.measures[name].value is not None for judge in group.judges for name in _BIASES):
        yield _tabulate_biases(group)
    if _has_items(group):
        yield _tabulate_items(group)
    if any(judge.items.worst for judge in group.judges):
        yield _tabulate_mismatches(group, link)
    yield _tabulate_agreement(group, confidence)


def _tabulate_judges(group: AuditGroup) -> Table:
    cells = make_measure_cells(group.judges, _OF_JUDGES, signed=("bias", "pass_bias"))
    rows = make_rows(
        (_shorten_name(judge.judge), judge.judgments, judge.missing, *own)
        for judge, own in zip(group.judges, cells, strict=True)
    )
    heads = (name.replace("_", " ") for name in _OF_JUDGES)
    return Table(title="judges", columns=make_columns("judge", "n", "missing", *heads), rows=rows)


def _tabulate_biases(group: AuditGroup) -> Table:
    judges = group.judges
    shown = [n for n in _BIASES if any(j.measures[n].value is not None for j in judges)]
    whose = [_shorten_name(judge.judge) for judge in judges]
    cells = make_measure_cells(judges, shown, signed=shown)
    told = (
        (who, _BIASES[name], judge.measures[name])
        for who, judge in zip(whose, judges, strict=True)
        for name in shown
    )
    return Table(
        title="scores by length and by whose answer it is, within a task",
        columns=make_columns("judge", *(_BIASES[name] for name in shown)),
        rows=make_rows((who, *own) for who, own in zip(whose, cells, strict=True)),
        notes=(*(_OF_BIASES[name] for name in shown), *explain_nulls(told)),
    )


def _has_items(group: AuditGroup) -> bool:
    return any(judge.items.checked or judge.items.unsummed for judge in group.judges)


def _tabulate_items(group: AuditGroup) -> Table:
    rows: list[tuple[Any, ...]] = [
        (
            _shorten_name(judge.judge),
            f"{judge.items.equal:,} of {judge.items.checked:,}",
            make_estimate_cell(judge.measures["items_equal"]),
            make_estimate_cell(judge.measures["items_difference"], _SIGNED),
            judge.items.unsummed,
            judge.items.without,
        )
        for judge in group.judges
    ]
    if len(group.judges) > 1:
        equal = f"{group.items_equal:,} of {group.items_checked:,}"
        rows.append((_ALL, equal, EMPTY, EMPTY, EMPTY, EMPTY))
    return Table(
        title="scores against what their own items add up to",
        columns=make_columns("judge", "equal", "share", "score − items", "no sum", "no items"),
        rows=make_rows(rows),
    )


def _tabulate_mismatches(group: AuditGroup, link: Callable[[str], str] | None) -> Table:
    rows = []
    for judge in group.judges:
        for each in judge.items.worst:
            record = Cell(value=each.id, link=link(each.id) if link else "")
            difference = Cell(value=each.difference, form=_SIGNED)
            cells = (record, each.where, each.score, each.items, difference)
            rows.append(Row(cells=cells, section=_shorten_name(judge.judge)))
    columns = make_columns("record", "where", "score", "items", "difference", texts=("where",))
    return Table(title="farthest from their items", columns=columns, rows=tuple(rows))


def _tabulate_agreement(group: AuditGroup, confidence: float) -> Table:
    value = f"value, {100 * confidence:g} % interval"
    rows = tuple(
        Row(
            cells=(name, on, make_estimate_cell(each, Form(brackets=True)), each.interval, each.n),
            section=_join_names(judges),
            where="data" if each.value is None else "all",
        )
        for judges, on, name, each in _list_agreements(group)
    )
    columns = make_columns("measure", "on", value, "interval by", "n", texts=("on", "interval by"))
    return Table(title="agreement", columns=columns, rows=rows, notes=tuple(_list_notes(group)))


def _tabulate_data(audit: Audit, fields: Sequence[str]) -> Table:
    """Return a row per measure of a judge, of two, or of all, for CSV."""
    every: list[tuple[tuple[Any, ...], Any]] = [
        ((*group.by.values(), *judges, on, name), found)
        for group in audit.groups
        for judges, on, name, found in _list_measures(group)
    ]
    every += (
        ((*group.by.values(), judge.judge, None, "preference", name), found)
        for group in audit.preferences
        for judge in group.judges
        for name, found in judge.measures.items()
    )
    rows = []
    for of, found in every:
        measured = Cell(value=found.value, low=found.low, high=found.high)
        further = (getattr(found, field, None) for field in _FIELDS)
        rows.append(Row(cells=(*of, measured, *further), where="data"))
    value = Column(name="value", where="data", bounds=("low", "high"))
    keys = make_data_columns(*(f"by_{name}" for name in fields), *_DATA)
    return Table(columns=(*keys, value, *make_data_columns(*_FIELDS)), rows=tuple(rows))


def _list_measures(
    group: AuditGroup,
) -> Iterator[tuple[_Judges, str | None, str, Measured | Estimate]]:
    """Yield every measure: of which judges, on which of their values, its name, what was found."""
    for judge in group.judges:
        for name, measured in judge.measures.items():
            yield (judge.judge, None), None, name, measured
    yield from _list_agreements(group)


def _list_agreements(group: AuditGroup) -> Iterator[tuple[_Judges, str, str, Estimate]]:
    found: list[tuple[_Judges, JudgesAgreement | PairAgreement]]
    found = [((None, None), group.agreement)]
    found += ((pair.judges, pair) for pair in group.agreement.pairs)
    for judges, each in found:
        for on, measures in (("passed", each.passed), ("weighted_score", each.weighted_score)):
            for name, measured in measures.items():
                yield judges, on, name, measured


def _summarize(group: AuditGroup) -> str:
    judged = f"{group.judged:,} of {group.records:,} records judged"
    if group.clusters < group.judged:
        judged += f", in {count_things(group.clusters, 'cluster')}"
    judges = count_things(len(group.judges), "judge")
    said = [judged, f"{count_things(group.judgments, 'judgment')} by {judges}"]
    if group.flagged:
        flagged = count_things(group.flagged, "record")
        said.append(f"{flagged} flagged: the text seems to address the judge")
    said += [f"failed calls left out: {group.errors:,}"] if group.errors else []
    return "; ".join(said)


def _join_names(judges: _Judges) -> str:
    return " – ".join(_shorten_name(judge) for judge in judges if judge) or _ALL


def _shorten_name(judge: str) -> str:
    return shorten_text(judge, _LONGEST_NAME)


def _list_notes(group: AuditGroup) -> Iterator[str]:
    """Yield why values or intervals are missing, and what is wrong with items."""
    found: list[tuple[str, str, Any]] = [
        (_join_names(judges), f"{name} of {on}" if on else name, measured)
        for judges, on, name, measured in _list_measures(group)
        if name not in _BIASES and (_has_items(group) or not name.startswith("items_"))
    ]
    yield from explain_nulls(found)
    unbounded = dict.fromkeys(
        label for _, label, each in found if each.value is not None and each.low is None
    )
    if unbounded:
        why = "too few values, all of one cluster, or all the same"
        yield f"intervals of {', '.join(unbounded)}: {why}"
    for judge in group.judges:
        for each in judge.items.problems:
            whose = _shorten_name(judge.judge)
            yield f"items of {whose} in {each.id} ({each.where}): {each.reason}"

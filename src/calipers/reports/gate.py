"""A gate's verdict as a document: the checks, and a reason for each that does not simply pass."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

from calipers.gates.verdicts import format_value
from calipers.reports.figures import (
    NOTHING,
    Form,
    count_decimals,
    group_name,
    split_figure,
    strip_controls,
)
from calipers.reports.table import (
    Cell,
    Column,
    Document,
    Line,
    Row,
    Table,
    make_data_columns,
    make_lines,
)

if TYPE_CHECKING:
    from calipers.gates.result import Changes, Check, Early, GateResult, Ids

_WORDS = {"pass": "passed", "fail": "failed", "warn": "warned", "inconclusive": "inconclusive"}
_CHANGED = ("added", "removed", "broken", "mended")
_NAMED = 10  # scenarios on a line
_MOST_DECIMALS = 7
_PERCENTAGE = re.compile(r"(\d[\d,]*(?:\.\d+)?) %(?! interval)")
_COLUMNS = (
    Column(name="shown_verdict", heading="verdict", kind="tag", where="people"),
    Column(name="name", heading="check", kind="key"),
    *make_data_columns("level", "verdict"),
    Column(name="value", bounds=("low", "high")),
    Column(name="n"),
    Column(name="missing"),
    Column(name="operator", where="data"),
    Column(name="threshold", heading="required"),
    Column(name="shown_level", heading="level", kind="text", where="people"),
    Column(name="reason", heading="why", kind="words"),
    Column(name="failing", where="data"),
)
_RISK = Column(name="risk", kind="text", where="people")


def make_gate_document(result: GateResult, *, percent: bool = True) -> Document:
    """Return the verdict, the checks with their reasons, and what else there is to know.

    Ratios are written in percent, or as fractions, as the scores beside them are.
    """
    further = gate_further(result)
    return (
        Line(text=gate_summary(result), kind="verdict", tone=result.verdict),
        tabulate_checks(result.checks, percent=percent),
        *make_lines([each if percent else as_fractions(each) for each in further], "note"),
    )


def as_fractions(text: str) -> str:
    """Return a reason with its percentages as fractions; the level of an interval stays.

    >>> as_fractions("54.9 %, required ≥ 80 %; the 95 % interval includes the threshold")
    '0.549, required ≥ 0.8; the 95 % interval includes the threshold'
    """
    return _PERCENTAGE.sub(
        lambda found: f"{Decimal(found[1].replace(',', '')).scaleb(-2).normalize():f}", text
    )


def name_check(check: Check) -> str:
    """Return the name of a check with the group that it is of."""
    return f"{check.name} ({group_name(check.by)})" if check.by else check.name


def tabulate_checks(checks: Sequence[Check], title: str = "", *, percent: bool = True) -> Table:
    """Return a row per check, under the name of its group; risks only if there are any."""
    fields = list(checks[0].by) if checks else []
    risky = any(check.risk for check in checks)
    by = (f"by_{name}" for name in fields)
    return Table(
        title=title,
        columns=(*make_data_columns(*by), *_COLUMNS, *((_RISK,) if risky else ())),
        rows=tuple(_make_row(check, risky=risky, percent=percent) for check in checks),
    )


def _make_row(check: Check, *, risky: bool, percent: bool) -> Row:
    threshold, value = check.threshold, check.to_dict()["value"]
    cells = (
        *check.by.values(),
        Cell(value=check.verdict, tone=check.verdict),
        check.name,
        check.level,
        check.verdict,
        Cell(value=value, low=check.low, high=check.high, text=check_value(check, percent=percent)),
        check.n,
        check.missing,
        None if threshold is None else threshold.operator,
        Cell(value=threshold and threshold.value, text=_format_required(check, percent=percent)),
        f"{check.level}{check.label}",
        Cell(value=check.reason, text=_explain(check, percent=percent)),
        " ".join(check.failing.first),
        *([Cell(text=check.risk or "")] if risky else []),
    )
    return Row(cells=cells, tone=check.verdict, section=group_name(check.by) if check.by else "")


def check_value(check: Check, *, percent: bool = True) -> str:
    """Return `94.2 % [91.7, 96.0]`, or only the value where no interval is known.

    There are as many digits as the interval allows, or as show on which side of the threshold the
    value is.
    """
    if check.value is None or check.threshold is None:
        return NOTHING
    scale, threshold = check.threshold.scale, check.threshold
    if check.low is None and check.high is None:
        shown = format_value(check.value, scale, threshold)
        return shown if percent else as_fractions(shown)
    in_percent = percent and scale.is_ratio
    factor = 100 if in_percent else 1
    value, low, high = (
        None if each is None else factor * each for each in (check.value, check.low, check.high)
    )
    assert value is not None
    fewest = 0 if not scale.is_ratio else 1 if in_percent else 3  # as reasons have
    decimals = max(count_decimals(value, low, high), fewest)
    while decimals < _MOST_DECIMALS and (
        threshold.is_met(round(value, decimals) / factor) != threshold.is_met(check.value)
    ):
        decimals += 1
    shown, reach = split_figure(value, low, high, Form(brackets=True, decimals=decimals))
    unit = "%" if in_percent else scale.unit
    return f"{shown} {unit} {reach}" if unit else f"{shown} {reach}"


def _format_required(check: Check, *, percent: bool) -> str:
    """Return the threshold as written; that of a baseline is rounded like values."""
    threshold = check.threshold
    if threshold is None:
        return NOTHING
    written = str(threshold)
    if check.change is not None:
        written = f"{threshold.operator} {format_value(threshold.value, threshold.scale)}"
    return written if percent else as_fractions(written)


def gate_summary(result: GateResult) -> str:
    """Return `3 passed, 1 failed; 120 records against policy.yaml`."""
    counts = Counter[str](check.verdict for check in result.checks)
    told = ", ".join(
        f"{counts[verdict]} {word}" for verdict, word in _WORDS.items() if counts[verdict]
    )
    release = f", release {strip_controls(result.release)}" if result.release else ""
    of = f"{result.records:,} records against {strip_controls(result.policy)}{release}"
    return f"{told}; {of}" if told else of


def check_reason(check: Check, *, percent: bool = True) -> str:
    """Return why a check does not clearly pass, and its description in the policy."""
    said = f" ({strip_controls(check.description)})" if check.description else ""
    # The verdict stands before it already.
    reason = strip_controls(check.reason).removeprefix(f"{check.verdict}: ")
    return f"{reason if percent else as_fractions(reason)}{said}"


def _explain(check: Check, *, percent: bool) -> str:
    """Return the reason, and the scenarios behind it, unless the check is itself a scenario."""
    if not check.reason:
        return ""
    failing = "" if check.level == "required" else _list_as("failing", check.failing)
    return "; ".join(filter(None, (check_reason(check, percent=percent), failing)))


def _list_as(word: str, ids: Ids) -> str:
    return f"{word}: {join_ids(ids)}" if ids.count else ""


def join_ids(ids: Ids, most: int = _NAMED) -> str:
    """Return the first ids, and how many more there are."""
    names = ", ".join(strip_controls(each) for each in ids.first[:most])
    more = ids.count - min(most, len(ids.first))
    return f"{names} and {more:,} more" if more else names


def gate_further(result: GateResult) -> Iterator[str]:
    """Yield what else there is to know: why the run is incomplete, and what changed."""
    if result.incomplete:
        yield f"the run is incomplete: {'; '.join(result.incomplete)}"
    if result.early is not None and result.early.stopped:
        yield _describe_early(result.early)
    for changes in result.changes:
        yield from _list_changes(changes)


def _describe_early(early: Early) -> str:
    calls = f"decided with {early.made:,} of {early.planned:,} calls"
    if not early.shared_by:
        return f"{calls}, by counting"
    shared = f", shared by {early.shared_by} checks" if early.shared_by > 1 else ""
    return f"{calls}; the error that stopping may add is at most {early.alpha:.0%}{shared}"


def _list_changes(changes: Changes) -> Iterator[str]:
    of = f" ({group_name(changes.by)})" if changes.by else ""
    for name in _CHANGED:
        if changed := _list_as(f"{name} since the baseline{of}", getattr(changes, name)):
            yield changed

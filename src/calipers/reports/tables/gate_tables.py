"""A gate's verdict as a document: the checks, and a reason for each that does not simply pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from math import isfinite
from typing import TYPE_CHECKING

from calipers.gates.threshold_test import format_value, remove_doubt, round_count
from calipers.reports.number_format import (
    NOTHING,
    Form,
    count_decimals,
    count_things,
    format_group,
    join_some,
    show_name,
    split_figure,
    strip_controls,
)
from calipers.reports.table import (
    BarSpan,
    Cell,
    Column,
    Document,
    Line,
    Row,
    Table,
    Tone,
    make_data_columns,
    make_lines,
)
from calipers.reports.tables.shown_metrics import label_metric

if TYPE_CHECKING:
    from calipers.gates.result import Changes, Check, Early, GateResult, Ids, Trial
    from calipers.scores.result import Score

_WORDS = {"pass": "passed", "fail": "failed", "warn": "warned", "inconclusive": "inconclusive"}
_CHANGED = ("added", "removed", "broken", "mended")
_NAMED = 10  # scenarios on a line
_MOST_DECIMALS = 7
_ROOM = 1.15  # of a scale without an end, beyond the largest number on it
_METRIC_LEVELS = ("blocking", "warning", "baseline")  # of checks that are named after a metric
UNSURE = "?"  # behind a verdict that the interval does not support
_COLUMNS = (
    Column(name="shown_verdict", heading="verdict", kind="tag", where="people"),
    Column(name="name", heading="check", kind="key"),
    *make_data_columns("level", "verdict"),
    Column(name="value", bounds=("low", "high")),
    Column(name="bar", heading="", kind="bar", where="people"),
    Column(name="n"),
    Column(name="missing"),
    Column(name="operator", where="data"),
    Column(name="threshold", heading="required"),
    Column(name="shown_level", heading="level", kind="text", where="people"),
    Column(name="reason", heading="why", kind="words"),
    Column(name="failing", where="data"),
)
_SABOTAGE = (
    Column(name="seen", kind="tag", where="people"),
    Column(name="sabotage", kind="key", where="people"),
    Column(name="green", heading="stays green up to", kind="text", where="people"),
    Column(name="from", heading="seen from", kind="text", where="people"),
    Column(name="as", heading="as", kind="text", where="people"),
    Column(name="what", kind="words", where="people"),
)
_SEEN: dict[str, Tone] = {"not seen": "fail", "later": "warn", "at once": "pass"}


def list_policy_metrics(result: GateResult | None) -> list[str]:
    """Return the metrics that a policy holds limits for, in its order."""
    checks = () if result is None else result.checks
    known = (each.name for each in checks if is_of_metric(each))
    return list(dict.fromkeys(known))


def put_blocking_first(names: Iterable[str], result: GateResult | None) -> list[str]:
    """Return the names of metrics, those that a build is blocked by first."""
    checks = () if result is None else result.checks
    blocking = {each.name for each in checks if each.level == "blocking" and is_of_metric(each)}
    return sorted(names, key=lambda name: name not in blocking)


def make_gate_document(result: GateResult, score: Score | None = None) -> Document:
    """Return the verdict, the systems side by side, the checks with reasons, and what is to know.

    Of several systems, each has a row with what it meets, and what the score knows of it.
    """
    from calipers.reports.tables.verdict_tables import (  # noqa: PLC0415 (it reads checks)
        describe_verdict,
        make_verdict,
        tabulate_standings,
    )

    verdict = make_verdict(result, score)
    systems = () if len(verdict.standings) == 1 else (tabulate_standings(verdict),)
    said, counted = describe_verdict(verdict), summarize_gate(result)
    return (
        Line(text=said or counted, kind="verdict", tone=result.verdict),
        *make_lines([counted] if said else []),
        *systems,
        tabulate_checks(result.checks),
        *make_lines([*describe_unsure(result.checks), *list_gate_notes(result)], "note"),
        *((tabulate_sabotage(result),) if result.sabotage else ()),
    )


def name_check(check: Check) -> str:
    """Return the name of a check with the group that it is of."""
    name = show_name(check.name)
    return f"{name} ({format_group(check.by)})" if check.by else name


def label_check(check: Check) -> str:
    """Return what people read for a check: of a metric, its label."""
    return label_metric(check.name) if is_of_metric(check) else show_name(check.name)


def is_of_metric(check: Check) -> bool:
    """Say whether a check is named after a metric, and not after a scenario or a category."""
    return check.level in _METRIC_LEVELS and not check.label


def is_unsure(check: Check) -> bool:
    """Say whether the interval reaches the threshold, or has no end on its side."""
    threshold = check.threshold
    if threshold is None or check.value is None or threshold.is_exact:
        return False
    worst, best = check.low, check.high
    if threshold.operator in ("≤", "<"):
        worst, best = best, worst
    if worst is None and best is None:
        return False
    return check.thin or (worst if threshold.is_met(check.value) else best) is None


def describe_unsure(checks: Sequence[Check]) -> Iterator[str]:
    """Yield, once for all checks, what the mark means and what would decide them."""
    unsure = [check for check in checks if is_unsure(check)]
    if not unsure:
        return
    yield f"{UNSURE} not sure: the interval reaches the threshold, or has no end there"
    known = [check for check in unsure if check.further_scenarios]
    if not known:
        return
    most = max(known, key=lambda check: check.further_scenarios or 0)
    count = count_things(round_count(most.further_scenarios or 0), "more scenario")
    if len(known) == 1:
        yield f"about {count} would decide {_name_of(most)}, if its value stays the same"
        return
    named = f"{_name_of(most)} needs the most"
    yield f"about {count} would decide {len(known)} of them, if the values stay the same ({named})"


def _name_of(check: Check) -> str:
    of = f" of {format_group(check.by)}" if check.by else ""
    return f"{label_check(check)}{of}"


def make_span(check: Check) -> BarSpan | None:
    """Return where a check's value, interval and threshold lie on its scale; None without one."""
    threshold, value = check.threshold, check.value
    if threshold is None or value is None or not isfinite(value):
        return None
    least, most = threshold.scale.range
    bounds = [end for end in (check.low, check.high) if end is not None and isfinite(end)]
    known = [value, threshold.value, *bounds]
    least = least if isfinite(least) else min(0.0, *known)
    most = most if isfinite(most) else _ROOM * max(known)
    if most <= least:
        return None

    def place(number: float | None, beyond: float) -> float:
        share = beyond if number is None else (number - least) / (most - least)
        return min(1.0, max(0.0, share))

    exact = check.low is None and check.high is None
    at = place(value, 0.0)
    return BarSpan(
        value=at,
        low=at if exact else place(check.low, 0.0),
        high=at if exact else place(check.high, 1.0),
        limit=place(threshold.value, 0.0),
    )


def tabulate_checks(checks: Sequence[Check], title: str = "") -> Table:
    """Return a row per check, under the name of its group."""
    fields = list(checks[0].by) if checks else []
    by = (f"by_{name}" for name in fields)
    lacks = any(check.missing for check in checks)
    columns = (c if lacks or c.name != "missing" else replace(c, where="data") for c in _COLUMNS)
    return Table(
        title=title,
        columns=(*make_data_columns(*by), *columns),
        rows=tuple(map(_make_row, checks)),
    )


def _make_row(check: Check) -> Row:
    threshold, value = check.threshold, check.to_dict()["value"]
    shown = format_check_value(check)
    cells = (
        *check.by.values(),
        Cell(
            value=check.verdict,
            tone=check.verdict,
            mark=f" {UNSURE}" if is_unsure(check) else "",
        ),
        Cell(value=check.name, text=label_check(check)),
        check.level,
        check.verdict,
        Cell(value=value, low=check.low, high=check.high, text=shown),
        Cell(text="", span=make_span(check), tone=check.verdict, note=f"{shown}, {threshold}"),
        check.n,
        check.missing,
        None if threshold is None else threshold.operator,
        Cell(value=threshold and threshold.value, text=_format_required(check)),
        _name_level(check),
        Cell(value=check.reason, text=_explain(check)),
        " ".join(check.failing.first),
    )
    return Row(cells=cells, tone=check.verdict, section=format_group(check.by) if check.by else "")


def _name_level(check: Check) -> str:
    """Return the level of a check with the label of its rule; `optional` says that it warns."""
    label = check.label.strip(" ()")
    return label if label == "optional" else f"{check.level}{check.label}"


def format_check_value(check: Check) -> str:
    """Return `94.2 % [91.7, 96.0]`, or only the value where no interval is known.

    There are as many digits as the interval allows, or as show on which side of the threshold the
    value is.
    """
    if check.value is None or check.threshold is None:
        return NOTHING
    scale, threshold = check.threshold.scale, check.threshold
    if check.low is None and check.high is None:
        return format_value(check.value, scale, threshold)
    in_percent = scale.is_ratio
    factor = 100 if in_percent else 1
    value, low, high = (
        None if each is None else factor * each for each in (check.value, check.low, check.high)
    )
    assert value is not None
    decimals = max(count_decimals(value, low, high), 1 if in_percent else 0)  # as reasons have
    while decimals < _MOST_DECIMALS and (
        threshold.is_met(round(value, decimals) / factor) != threshold.is_met(check.value)
    ):
        decimals += 1
    shown, reach = split_figure(value, low, high, Form(brackets=True, decimals=decimals))
    unit = "%" if in_percent else scale.unit
    return f"{shown} {unit} {reach}" if unit else f"{shown} {reach}"


def _format_required(check: Check) -> str:
    """Return the threshold as written; that of a baseline is rounded like values."""
    threshold = check.threshold
    if threshold is None:
        return NOTHING
    if check.change is None:
        return str(threshold)
    return f"{threshold.operator} {format_value(threshold.value, threshold.scale)}"


def summarize_gate(result: GateResult) -> str:
    """Return `3 passed, 1 failed; 120 records against policy.yaml`."""
    counts = Counter[str](check.verdict for check in result.checks)
    told = ", ".join(
        f"{counts[verdict]} {word}" for verdict, word in _WORDS.items() if counts[verdict]
    )
    release = f", release {strip_controls(result.release)}" if result.release else ""
    of = f"{result.records:,} records against {strip_controls(result.policy)}{release}"
    return f"{told}; {of}" if told else of


def describe_check(check: Check) -> str:
    """Return why a check does not pass, and its description in the policy.

    That its interval includes the threshold, a mark says (`describe_unsure`).
    """
    about = [f"{check.risk} risk"] if check.risk else []
    about += [strip_controls(check.description)] if check.description else []
    said = f" ({': '.join(about)})" if about else ""
    # The verdict stands before it already.
    reason = remove_doubt(strip_controls(check.reason or "")).removeprefix(f"{check.verdict}: ")
    return f"{reason}{said}" if reason else ""


def _explain(check: Check) -> str:
    """Return the reason, and the scenarios behind it, unless the check is itself a scenario."""
    if not check.reason:
        return ""
    failing = "" if check.level == "required" else _list_as("failing", check.failing)
    return "; ".join(filter(None, (describe_check(check), failing)))


def _list_as(word: str, ids: Ids) -> str:
    return f"{word}: {join_ids(ids)}" if ids.count else ""


def join_ids(ids: Ids, most: int = _NAMED) -> str:
    """Return the first ids, and how many more there are."""
    names = ", ".join(show_name(each) for each in ids.first[:most])
    more = ids.count - min(most, len(ids.first))
    return f"{names} and {more:,} more" if more else names


def list_gate_notes(result: GateResult) -> Iterator[str]:
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
    of = f" ({format_group(changes.by)})" if changes.by else ""
    for name in _CHANGED:
        if changed := _list_as(f"{name} since the baseline{of}", getattr(changes, name)):
            yield changed


def tabulate_sabotage(result: GateResult) -> Table:
    """Return a row per kind of sabotage, those that stay green first."""
    kinds = [list(doses) for _, doses in groupby(result.sabotage or (), lambda each: each.name)]
    kinds.sort(key=lambda doses: [*_SEEN].index(_name_seen(doses)))
    return Table(
        title="Sabotage",
        lead=describe_sabotage(result),
        columns=_SABOTAGE,
        rows=tuple(_make_sabotage_row(doses) for doses in kinds),
    )


def describe_sabotage(result: GateResult) -> str:
    """Return how much of the sabotage is seen, and what is not seen even at the largest dose."""
    kinds = [list(doses) for _, doses in groupby(result.sabotage or (), lambda each: each.name)]
    seen = Counter(map(_name_seen, kinds))
    missed = [strip_controls(doses[0].name) for doses in kinds if _name_seen(doses) == "not seen"]
    told = f"{seen['at once']} of {len(kinds)} kinds of sabotage are seen at the smallest dose"
    if seen["later"]:
        told += f", {seen['later']} from a larger one on"
    told += (
        f"; not seen even at the largest: {join_some(missed)}" if missed else "; none stays unseen"
    )
    if result.verdict != "pass":
        told += f". The gate itself is {_ITSELF[result.verdict]}, so that all of it looks seen"
    return told


_ITSELF = {"fail": "red", "inconclusive": "inconclusive", "incomplete": "incomplete"}


def _name_seen(doses: Sequence[Trial]) -> str:
    """Return whether a kind of sabotage is seen: at the smallest dose, from a larger one, or not.

    A dose counts as seen where all larger ones are.
    """
    if not doses[-1].caught:
        return "not seen"
    return "at once" if all(dose.caught for dose in doses) else "later"


def _make_sabotage_row(doses: Sequence[Trial]) -> Row:
    """Return the largest dose that stays green, and the smallest that is seen."""
    word = _name_seen(doses)
    green = max((at for at, dose in enumerate(doses) if not dose.caught), default=None)
    first = None if word == "not seen" else doses[0 if green is None else green + 1]
    warns = any(dose.warned for dose in doses if not dose.caught)
    return Row(
        cells=(
            Cell(value=word, tone=_SEEN[word]),
            doses[0].name,
            NOTHING if green is None else _format_dose(doses[green]),
            NOTHING if first is None else _format_dose(first),
            ("warning" if warns else NOTHING) if first is None else first.verdict,
            doses[0].what if first is None else "",
        ),
    )


def _format_dose(trial: Trial) -> str:
    """Return `25 %, 250 rows`, or by how much a rate falls; `× 2`; `+ 100 rows`."""
    rows = f"{trial.rows:,} row{'' if trial.rows == 1 else 's'}"
    if trial.unit == "times":
        return f"× {trial.dose:g}"
    if trial.unit == "copies":
        return f"+ {rows}"
    if trial.points is not None:
        return f"−{trial.points:.3g} points, {rows}"
    return f"{100 * trial.dose:.3g} %, {rows}"

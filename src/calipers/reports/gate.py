"""A gate's verdict as a table with reasons: for a terminal, a pull request, CSV, a notebook."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from itertools import groupby
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from calipers.gates.reasons import value_text
from calipers.reports.figures import NOTHING, group_name, printable
from calipers.reports.frames import markdown_cell
from calipers.reports.spreadsheets import csv_text
from calipers.reports.terminal import rendered

if TYPE_CHECKING:
    from calipers.gates.early import Early
    from calipers.gates.result import Changes, Check, GateResult, Ids

_STYLES = {
    "pass": "green",
    "fail": "bold red",
    "warn": "yellow",
    "inconclusive": "bold magenta",
    "incomplete": "bold magenta",
}
_SIGNS = {"pass": "✅", "fail": "❌", "warn": "⚠️", "inconclusive": "❔", "incomplete": "❔"}
_WORDS = {"pass": "passed", "fail": "failed", "warn": "warned", "inconclusive": "inconclusive"}
_CHANGED = ("added", "removed", "broken", "mended")
_NAMED = 10  # scenarios on a line
_CSV = (
    *("name", "level", "verdict", "value", "low", "high", "n", "missing"),
    *("operator", "threshold", "reason"),
)


def gate_text(result: GateResult, console: Console | None = None) -> str:
    """The verdict, the checks, and a reason for every line that is not plainly green."""
    return rendered(console, lambda out: _show(result, out))


def _show(result: GateResult, out: Console) -> None:
    verdict = (result.verdict.upper(), _STYLES[result.verdict])
    out.print(Text.assemble(verdict, f"  {gate_summary(result)}"))
    for by, checks in _groups(result):
        if by:
            out.print(Text(f"\n{group_name(by)}", style="bold"))
        out.print(_table(checks))
        for check in checks:
            if check.reason is not None:
                _show_reason(check, out)
    for line in gate_further(result):
        out.print(_indented(Text(line)))


def _groups(result: GateResult) -> Iterator[tuple[Mapping[str, Any], list[Check]]]:
    """The checks of each group, as they stand one after the other."""
    for _, checks in groupby(result.checks, key=lambda check: list(check.by.items())):
        found = list(checks)
        yield found[0].by, found


def _show_reason(check: Check, out: Console) -> None:
    style = _STYLES[check.verdict]
    name = (printable(check.name), style)
    out.print(
        _indented(Text.assemble((f"{check.verdict} ", style), name, f": {check_reason(check)}"))
    )
    if failing := _failing(check):
        out.print(_indented(Text(f"  {failing}", style="dim")))


def _indented(line: Text) -> Padding:
    return Padding(line, (0, 0, 0, 1), expand=False)


def _table(checks: Sequence[Check]) -> Table:
    heads, rows = _cells(checks)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for head in heads:
        number = head in ("value", "n", "missing", "required")
        table.add_column(head, justify="right" if number else "left", overflow="fold")
    for check, row in zip(checks, rows, strict=True):
        first = Text(row[0], style=_STYLES[check.verdict])
        table.add_row(first, *(Text(cell) for cell in row[1:]))
    return table


def _cells(checks: Sequence[Check]) -> tuple[list[str], list[list[str]]]:
    """The table of some checks, without the column of risks where there are none."""
    risky = any(check.risk for check in checks)
    further = ["risk"] if risky else []
    heads = ["", "check", "value", "n", "missing", "required", "level", *further]
    rows = [
        [
            check.verdict,
            printable(check.name),
            check_value(check),
            f"{check.n:,}",
            f"{check.missing:,}",
            check_required(check),
            f"{check.level}{check.label}",
            *([check.risk or ""] if risky else []),
        ]
        for check in checks
    ]
    return heads, rows


def check_value(check: Check) -> str:
    """94.22 % (91.67 to 96.03), or only the value where no interval is known."""
    if check.value is None or check.scale is None:
        return NOTHING
    value = value_text(check.value, check.scale, check.threshold)
    if check.low is None and check.high is None:
        return value
    unit = value[value.rfind(" ") :] if " " in value else ""
    low, high = (
        "?" if bound is None else value_text(bound, check.scale).removesuffix(unit)
        for bound in (check.low, check.high)
    )
    return f"{value} ({low} to {high})"


def check_required(check: Check) -> str:
    """Return the threshold as written; that of a baseline is rounded as values are."""
    threshold = check.threshold
    if threshold is None:
        return NOTHING
    if check.change is None:
        return str(threshold)
    return f"{threshold.operator} {value_text(threshold.value, threshold.scale)}"


def gate_summary(result: GateResult) -> str:
    """`3 passed, 1 failed; 120 records against policy.yaml`."""
    counts = Counter[str](check.verdict for check in result.checks)
    told = ", ".join(
        f"{counts[verdict]} {word}" for verdict, word in _WORDS.items() if counts[verdict]
    )
    release = f", release {printable(result.release)}" if result.release else ""
    of = f"{result.records:,} records against {printable(result.policy)}{release}"
    return f"{told}; {of}" if told else of


def check_reason(check: Check) -> str:
    """Why a check is not plainly green, and what the policy says it is for."""
    said = f" ({printable(check.description)})" if check.description else ""
    reason = printable(check.reason).removeprefix(f"{check.verdict}: ")  # which stands before it
    return f"{reason}{said}"


def _failing(check: Check) -> str:
    """The scenarios behind a red line; of a required one its own name says it."""
    return "" if check.level == "required" else _listed_as("failing", check.failing)


def _listed_as(word: str, ids: Ids) -> str:
    return f"{word}: {listed(ids)}" if ids.count else ""


def listed(ids: Ids, most: int = _NAMED) -> str:
    """The first ids, and how many more there are."""
    names = ", ".join(printable(each) for each in ids.first[:most])
    more = ids.count - min(most, len(ids.first))
    return f"{names} and {more:,} more" if more else names


def gate_further(result: GateResult) -> Iterator[str]:
    """What else there is to know: why the run is incomplete, and what changed."""
    if result.incomplete:
        yield f"the run is incomplete: {'; '.join(result.incomplete)}"
    if result.early is not None and result.early.stopped:
        yield _ended_early(result.early)
    for changes in result.changes:
        yield from _changes(changes)


def _ended_early(early: Early) -> str:
    calls = f"decided with {early.made:,} of {early.planned:,} calls"
    if not early.shared_by:
        return f"{calls}, by counting"
    shared = f", shared by {early.shared_by} checks" if early.shared_by > 1 else ""
    return f"{calls}; the error that stopping may add is at most {early.alpha:.0%}{shared}"


def _changes(changes: Changes) -> Iterator[str]:
    of = f" ({group_name(changes.by)})" if changes.by else ""
    for name in _CHANGED:
        if changed := _listed_as(f"{name} since the baseline{of}", getattr(changes, name)):
            yield changed


def gate_markdown(result: GateResult) -> str:
    """The same for a pull request."""
    title = f"### {_SIGNS[result.verdict]} gate: {result.verdict}"
    lines = [title, "", markdown_cell(gate_summary(result)), ""]
    for by, checks in _groups(result):
        heads, rows = _cells(checks)
        lines += [f"**{markdown_cell(group_name(by))}**", ""] if by else []
        lines += [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
        for row in rows:
            cells = [f"{_SIGNS[row[0]]} {row[0]}", *map(markdown_cell, row[1:])]
            lines.append(f"| {' | '.join(cells)} |")
        lines.append("")
        for check in checks:
            if check.reason is not None:
                told = "; ".join(filter(None, (check_reason(check), _failing(check))))
                name = markdown_cell(printable(check.name))
                lines.append(f"- {_SIGNS[check.verdict]} **{name}**: {markdown_cell(told)}")
        lines.append("")
    lines += (f"- {markdown_cell(line)}" for line in (*gate_further(result), *result.notices))
    return "\n".join(lines).rstrip("\n") + "\n"


def gate_csv(result: GateResult) -> str:
    """A row per check; an empty cell is a null."""
    fields = list(result.checks[0].by) if result.checks else []
    rows: list[tuple[Any, ...]] = [(*(f"by_{name}" for name in fields), *_CSV, "failing")]
    for check in result.checks:
        shown = check.to_dict()
        failing = " ".join(check.failing.first)
        rows.append((*check.by.values(), *(shown.get(name) for name in _CSV), failing))
    return csv_text(rows)


def gate_html(result: GateResult) -> str:
    """The same for a notebook; everything from outside is escaped."""
    verdict = f"<b>{_SIGNS[result.verdict]} {result.verdict}</b>"
    pieces = [f"<p>{verdict} {escape(gate_summary(result))}</p>"]
    for by, checks in _groups(result):
        heads, rows = _cells(checks)
        head = "".join(f"<th>{escape(each)}</th>" for each in heads)
        body = "".join(
            f"<tr><td>{_SIGNS[row[0]]} {escape(row[0])}</td>"
            + "".join(f"<td>{escape(cell)}</td>" for cell in row[1:])
            + "</tr>"
            for row in rows
        )
        told = (
            "; ".join(
                filter(None, (f"{printable(check.name)}: {check_reason(check)}", _failing(check)))
            )
            for check in checks
            if check.reason is not None
        )
        pieces += [
            f"<p><b>{escape(group_name(by))}</b></p>" if by else "",
            f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>",
            _html_list(told),
        ]
    return "".join((*pieces, _html_list((*gate_further(result), *result.notices))))


def _html_list(lines: Iterable[str]) -> str:
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f"<ul>{items}</ul>" if items else ""

"""An audit of judges as tables: for a terminal, Markdown, CSV and notebooks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from calipers.reports.figures import NOTHING, figure, group_name, printable, with_interval
from calipers.reports.frames import markdown_cell
from calipers.reports.grids import Grid, html_grid, html_list, markdown_grid, print_grid
from calipers.reports.spreadsheets import csv_text
from calipers.reports.terminal import rendered

if TYPE_CHECKING:
    from calipers.judges.audit import Audit, AuditGroup, JudgeAudit, JudgesAgreement, PairAgreement
    from calipers.scores.results import Measured
    from calipers.statistics.influence import Estimate

_ALL = "all judges"
_LONGEST_NAME = 40
_FIELDS = ("value", "low", "high", "stderr", "interval", "n", "missing", "reason")
_OF_JUDGES = ("judge", "n", "missing", "pass rate", "mean score", "bias", "pass bias")
_OF_ITEMS = ("judge", "equal", "share", "score − items", "no sum", "no items")
_OF_MISMATCHES = ("record", "where", "score", "items", "difference")


def audit_text(audit: Audit, console: Console | None = None) -> str:
    """Judges, their items, their agreement; the reasons for nulls below."""
    return rendered(console, lambda out: _show(audit, out))


def _show(audit: Audit, out: Console) -> None:
    if not audit.groups:
        out.print(Text("No records."))
    for group in audit.groups:
        if group.by:
            out.print(Text(group_name(group.by), style="bold"))
        out.print(Text(_summary(group)))
        for grid in _grids(group, audit.confidence):
            print_grid(grid, out)
        notes = list(_notes(group))
        if notes:
            out.print(Text("Notes:", style="dim"))
        for note in notes:
            out.print(Padding(Text(note, style="dim"), (0, 0, 0, 2)))


def audit_markdown(audit: Audit) -> str:
    """Tables for a pull request."""
    lines: list[str] = [] if audit.groups else ["No records.", ""]
    for group in audit.groups:
        if group.by:
            lines += [f"## {markdown_cell(group_name(group.by))}", ""]
        lines += [_summary(group), ""]
        for grid in _grids(group, audit.confidence):
            lines += markdown_grid(grid)
        lines += (f"- {markdown_cell(note)}" for note in _notes(group))
        lines += [""] if lines[-1] else []
    lines += (f"- {markdown_cell(note)}" for note in audit.notices)
    return "\n".join(lines).rstrip() + "\n"


def audit_html(audit: Audit) -> str:
    """The tables for a notebook; all that comes from outside is escaped."""
    pieces = [] if audit.groups else ["<p>No records.</p>"]
    for group in audit.groups:
        title = f"<b>{escape(group_name(group.by))}</b><br>" if group.by else ""
        pieces.append(f"<p>{title}{escape(_summary(group))}</p>")
        pieces += map(html_grid, _grids(group, audit.confidence))
        pieces.append(html_list(_notes(group)))
    return "".join((*pieces, html_list(audit.notices)))


def audit_csv(audit: Audit) -> str:
    """A row per measure of a judge, of two, or of all; an empty cell is a null."""
    by = [f"by_{name}" for name in (audit.groups[0].by if audit.groups else ())]
    rows: list[tuple[Any, ...]] = [(*by, "judge_1", "judge_2", "on", "measure", *_FIELDS)]
    for group in audit.groups:
        for judges, on, name, found in _measures(group):
            values = (getattr(found, field, None) for field in _FIELDS)
            rows.append((*group.by.values(), *judges, on, name, *values))
    return csv_text(rows)


def _measures(group: AuditGroup) -> Iterator[tuple[tuple[str, str], str, str, Measured | Estimate]]:
    """Every measure: of which judges, on which of their values, its name, and what was found."""
    for judge in group.judges:
        for name, measured in judge.measures.items():
            yield (judge.judge, ""), "", name, measured
    yield from _agreements(group)


def _agreements(group: AuditGroup) -> Iterator[tuple[tuple[str, str], str, str, Estimate]]:
    found: list[tuple[tuple[str, str], JudgesAgreement | PairAgreement]]
    found = [(("", ""), group.agreement)]
    found += ((pair.judges, pair) for pair in group.agreement.pairs)
    for judges, each in found:
        for on, measures in (("passed", each.passed), ("weighted_score", each.weighted_score)):
            for name, measured in measures.items():
                yield judges, on, name, measured


def _summary(group: AuditGroup) -> str:
    judged = f"{group.judged:,} of {group.records:,} records judged"
    if group.clusters < group.judged:
        judged += f", in {_counted(group.clusters, 'cluster')}"
    judges = f"{_counted(group.judgments, 'judgement')} by {_counted(len(group.judges), 'judge')}"
    if group.flagged:
        judges += (
            f"; {_counted(group.flagged, 'record')} flagged: the text seems to address the judge"
        )
    failed = (f"failed calls left out: {group.errors:,}",) if group.errors else ()
    return "; ".join((judged, judges, *failed))


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _grids(group: AuditGroup, confidence: float) -> Iterator[Grid]:
    if not group.judges:
        return
    rows = [_judge_row(judge) for judge in group.judges]
    yield Grid(title="judges", heads=_OF_JUDGES, sections={"": rows})
    if _has_items(group):
        title = "scores against what their own items add up to"
        yield Grid(title=title, heads=_OF_ITEMS, sections={"": list(_item_rows(group))})
    if worst := {_name(each.judge): _mismatches(each) for each in group.judges if each.items.worst}:
        title = "farthest from their items"
        yield Grid(title=title, heads=_OF_MISMATCHES, sections=worst, texts=frozenset({0, 1}))
    sections: dict[str, list[Sequence[str]]] = {}
    for judges, on, name, found in _agreements(group):
        bounds = NOTHING if found.low is None else f"{figure(found.low)} to {figure(found.high)}"
        row = (name, on, figure(found.value), bounds, f"{found.n:,}", found.interval or "")
        sections.setdefault(_names(judges), []).append(row)
    yield Grid(
        title="agreement",
        heads=("measure", "on", "value", f"{100 * confidence:g} % interval", "n", "interval by"),
        sections=sections,
        texts=frozenset({0, 1, 5}),
    )


def _judge_row(judge: JudgeAudit) -> Sequence[str]:
    found = judge.measures
    return (
        _name(judge.judge),
        f"{judge.judgments:,}",
        f"{judge.missing:,}",
        with_interval(found["pass_rate"]),
        with_interval(found["mean_score"]),
        _signed(found["bias"]),
        _signed(found["pass_bias"]),
    )


def _has_items(group: AuditGroup) -> bool:
    return any(judge.items.checked or judge.items.unsummed for judge in group.judges)


def _item_rows(group: AuditGroup) -> Iterator[Sequence[str]]:
    for judge in group.judges:
        items = judge.items
        yield (
            _name(judge.judge),
            f"{items.equal:,} of {items.checked:,}",
            with_interval(judge.measures["items_equal"]),
            _signed(judge.measures["items_difference"]),
            f"{items.unsummed:,}",
            f"{items.without:,}",
        )
    if len(group.judges) > 1:
        yield _ALL, f"{group.items_equal:,} of {group.items_checked:,}", "", "", "", ""


def _mismatches(judge: JudgeAudit) -> list[Sequence[str]]:
    return [
        (
            printable(each.id),
            printable(each.where),
            figure(each.score),
            figure(each.items),
            f"{each.difference:+.4f}".replace("-", "−"),
        )
        for each in judge.items.worst
    ]


def _signed(measured: Measured) -> str:
    sign = "+" if measured.value is not None and measured.value > 0 else ""
    return f"{sign}{with_interval(measured)}".replace("-", "−")


def _names(judges: Sequence[str]) -> str:
    return " – ".join(_name(judge) for judge in judges if judge) or _ALL


def _name(judge: str) -> str:
    text = printable(judge)
    return text if len(text) <= _LONGEST_NAME else f"{text[: _LONGEST_NAME - 1]}…"


def _notes(group: AuditGroup) -> Iterator[str]:
    """Why values are null: a line per reason, with the measures and, where not all, whose."""
    found: dict[str, dict[str, list[str]]] = {}
    every: dict[str, int] = {}
    unbounded: dict[str, None] = {}
    for judges, on, name, measured in _measures(group):
        if name.startswith("items_") and not _has_items(group):
            continue
        label = f"{name} of {on}" if on else name
        every[label] = every.get(label, 0) + 1
        if measured.value is not None and measured.low is None:
            unbounded[label] = None
        if measured.reason is not None:
            found.setdefault(measured.reason, {}).setdefault(label, []).append(_names(judges))
    for reason, labels in found.items():
        where = (
            label if len(whose) == every[label] else f"{label} ({'; '.join(whose)})"
            for label, whose in labels.items()
        )
        yield f"{', '.join(where)}: {printable(reason)}"
    if unbounded:
        why = "too few values, all of one cluster, or all the same"
        yield f"intervals of {', '.join(unbounded)}: {why}"
    for judge in group.judges:
        for each in judge.items.problems:
            what = f"items of {_name(judge.judge)} in {printable(each.id)}"
            yield f"{what} ({printable(each.where)}): {printable(each.reason)}"

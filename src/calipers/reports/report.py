"""A report as Markdown: the same content as text tables, for a pull request or an appendix."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from calipers.metrics import metric_named
from calipers.reports.figures import shorten_text
from calipers.reports.gate import make_gate_document
from calipers.reports.headline import make_headline
from calipers.reports.markdown import escape_cell, render_markdown, render_table
from calipers.reports.ranking import order_groups
from calipers.reports.recommendations import tabulate_recommendations
from calipers.reports.remarks import list_warnings, tabulate_failures
from calipers.reports.scores import is_wide, list_shown, tabulate_score
from calipers.reports.table import Column, Table, make_lines, make_rows
from calipers.reports.tasks import tabulate_hardest

if TYPE_CHECKING:
    from calipers.runs.report_data import Report, Sample
    from calipers.scores.results import Score

_REASONS = 12
_SAMPLES = 20
_MOST_ROWS = 100
_TEXT_CHARS = 100
_SAID = ("error", "answer", "judges")


def render_report(report: Report) -> str:
    """Return verdict, numbers, failures, samples, and what each metric means, in this order."""
    lines = [f"# {escape_cell(report.title)}", ""]
    told = make_headline(report)
    lines += [f"**{told.word}**: {escape_cell(told.summary)}", ""]
    lines += [f"- {escape_cell(each)}" for each in told.reasons[:_REASONS]]
    if report.gate is not None:
        checks = make_gate_document(report.gate, percent=False)  # as the scores beside them
        notices = make_lines(report.gate.notices, "note")
        lines += ["", render_markdown((*checks, *notices)).rstrip()]
    lines.append("")
    facts = report.facts.items()
    lines += [f"- {word}: {escape_cell(value)}" for word, value in facts]
    if report.ranking is not None:
        lines += ["", "## Leaderboard", "", report.ranking.to_markdown().rstrip()]
    score = order_groups(report.score, report.ranking)
    lines += ["", "## Metrics", "", *_render_metrics(score)]
    if recommended := tabulate_recommendations(score.groups):
        lines += ["", "## Recommendations", "", *render_table(recommended)]
    for field, score in report.breakdowns.items():
        names = list(score.groups[0].metrics) if score.groups else []
        table = tabulate_score(score, names=names, wide=True)
        lines += ["", f"## By {field}", "", *render_table(table)]
    if report.tasks:
        table = tabulate_hardest(report.tasks, order_groups(report.score, report.ranking).groups)
        lines += ["", "## Hardest tasks", "", *render_table(table)]
    nothing = ["Nothing: no call failed, and nothing is known to be wrong."]
    failed = render_table(tabulate_failures(report.failures)) if report.failures else nothing
    lines += ["", "## What failed", "", *failed]
    if report.samples:
        lines += ["", "## Samples", "", *_render_samples(report)]
    defined = map(metric_named, list_shown(report.score))
    lines += ["", "## Definitions", ""]
    lines += [f"- `{m.name}` ({m.defined_in}): {m.says} {m.formula}." for m in defined]
    return "\n".join(lines) + "\n"


def _render_metrics(score: Score) -> Iterator[str]:
    """Yield a column per group or, of many, a row each, up to a readable number."""
    if not is_wide(score):
        yield score.to_markdown().rstrip()
        return
    yield from render_table(tabulate_score(score, most=_MOST_ROWS, wide=True))
    if len(score.groups) > _MOST_ROWS:
        yield f"The first {_MOST_ROWS} of {len(score.groups):,} groups."
    yield ""
    yield from (f"- {escape_cell(line)}" for line in (*list_warnings(score), *score.notices))


def _render_samples(report: Report) -> Iterator[str]:
    shown = report.samples[:_SAMPLES]
    yield f"{len(shown)} of {sum(report.kinds.values()):,} records, the most telling first."
    yield ""
    heads = ("", "id", "of", "answer, error or judges", "target")
    columns = tuple(Column(name=head, kind="text") for head in heads)
    yield from render_table(Table(columns=columns, rows=make_rows(map(_list_cells, shown))))


def _list_cells(sample: Sample) -> tuple[str, ...]:
    said = next((sample.texts[name] for name in _SAID if sample.texts.get(name)), "")
    of = ", ".join(str(value) for name, value in sample.by.items() if name != "category")
    target = sample.texts.get("target", "")
    texts = (" ".join(text.split()) for text in (sample.id, of, said, target))
    return (sample.kind, *(shorten_text(text, _TEXT_CHARS) for text in texts))

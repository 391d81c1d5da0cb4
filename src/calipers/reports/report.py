"""A report as Markdown: the same content as text tables, for a pull request or an appendix."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from calipers.metrics import metric_named
from calipers.reports.figures import group_name, reasons, with_interval
from calipers.reports.frames import markdown_cell, score_markdown
from calipers.reports.frontiers import frontier_lines
from calipers.reports.gate import gate_markdown
from calipers.reports.tiers import warning_lines
from calipers.runs.report_data import WRONG

if TYPE_CHECKING:
    from calipers.runs.report_data import Failure, Report, Sample
    from calipers.scores.results import Group, Score

_IDS = 20
_SAMPLES = 20
_SIDE_BY_SIDE = 7
_MOST_ROWS = 100
_TEXT_CHARS = 100
_SAID = ("error", "answer", "judges")


def report_markdown(report: Report) -> str:
    """Verdict first, then numbers, what failed, the samples, and what each metric means."""
    lines = [f"# {markdown_cell(report.title)}", ""]
    if report.gate is None:
        word = "" if report.incomplete is None else "**Incomplete**: "
        lines += [f"{word}{undecided(report)}", ""]
    else:
        lines += [gate_markdown(report.gate).rstrip(), ""]
    facts = report.facts.items()
    lines += [f"- {word}: {markdown_cell(value)}" for word, value in facts]
    lines += ["", "## Metrics", "", *_metrics(report.score)]
    frontier = report.score.frontier
    told = [] if frontier is None else list(frontier_lines(frontier))
    lines += ["", *(f"- {markdown_cell(each)}" for each in told)] if told else []
    for field, score in report.breakdowns.items():
        lines += ["", f"## By {field}", "", *_groups(score.groups)]
    lines += ["", "## What failed", "", *_failures(report.failures)]
    if report.samples:
        lines += ["", "## Samples", "", *_samples(report)]
    lines += ["", "## Definitions", "", *_definitions(report.score)]
    return "\n".join(lines) + "\n"


def undecided(report: Report) -> str:
    """What to say where no gate has decided."""
    if report.incomplete is None:
        return "No policy was given, so nothing was decided."
    return f"{report.incomplete}. Run the suite again to finish it."


def _metrics(score: Score) -> Iterator[str]:
    """A column per group, or, of many groups, a row each, up to as many as can be read."""
    if len(score.groups) <= _SIDE_BY_SIDE:
        yield score_markdown(score).rstrip()
        return
    yield from _groups(score.groups[:_MOST_ROWS])
    if len(score.groups) > _MOST_ROWS:
        yield ""
        yield f"The first {_MOST_ROWS} of {len(score.groups):,} groups."
    yield ""
    told = (*warning_lines(score), *reasons(score.groups), *score.notices)
    yield from (f"- {markdown_cell(line)}" for line in told)


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """The lines of a table whose cells are safe already."""
    yield f"| {' | '.join(heads)} |"
    yield f"|{'---|' * len(heads)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def _groups(groups: Sequence[Group]) -> Iterator[str]:
    """A row per group, a column per metric."""
    names = list(groups[0].metrics)
    heads = [", ".join(map(markdown_cell, groups[0].by)), "records", *names]
    rows = (
        [
            markdown_cell(group_name(group.by)),
            f"{group.records:,}",
            *(with_interval(group.metrics[name], metric_named(name).unit) for name in names),
        ]
        for group in groups
    )
    return _table(heads, rows)


def _failures(failures: Sequence[Failure]) -> Iterator[str]:
    if not failures:
        yield "Nothing: no call failed, and nothing is known to be wrong."
        return
    rows = (
        [
            markdown_cell(failure_name(each)),
            markdown_cell(group_name(each.by)),
            f"{each.records:,}",
            markdown_cell(", ".join(each.ids[:_IDS])) + (", …" if len(each.ids) > _IDS else ""),
        ]
        for each in failures
    )
    yield from _table(("what", "system", "records", "ids, the first of them"), rows)


def failure_name(failure: Failure) -> str:
    """What went wrong, in words."""
    if failure.what == WRONG:
        return "wrong, or not passed"
    return f"call failed: {failure.what}"


def _samples(report: Report) -> Iterator[str]:
    """The first few, a line each."""
    shown = report.samples[:_SAMPLES]
    yield f"{len(shown)} of {sum(report.kinds.values()):,} records, the most telling first."
    yield ""
    yield from _table(("", "id", "of", "answer, error or judges", "target"), map(_sample, shown))


def _sample(sample: Sample) -> list[str]:
    said = next((sample.texts[name] for name in _SAID if sample.texts.get(name)), "")
    of = ", ".join(str(value) for name, value in sample.by.items() if name != "category")
    target = sample.texts.get("target", "")
    return [sample.kind, *map(_cut, (sample.id, of, said, target))]


def _cut(text: str) -> str:
    """A text in a cell, on one line and not too long."""
    plain = " ".join(text.split())
    short = plain if len(plain) <= _TEXT_CHARS else f"{plain[: _TEXT_CHARS - 1]}…"
    return markdown_cell(short)


def _definitions(score: Score) -> Iterator[str]:
    for name in dict.fromkeys(name for group in score.groups for name in group.metrics):
        metric = metric_named(name)
        yield f"- `{name}` ({metric.defined_in}): {metric.says} {metric.formula}."

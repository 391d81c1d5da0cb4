"""What only a report has: headline, hardest tasks, recommendations, choice of figures, Markdown.

The headline is the answer that a report begins with: the verdict, or which system is best, and why.
The page (`pages/report_page.py`) and the bundle (`bundle.py`) show the same parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from calipers.metrics import metric_named
from calipers.metrics.families.agents import RECOMMENDATIONS, recommend
from calipers.reports.charts import draw_charts
from calipers.reports.charts.chart import Chart
from calipers.reports.charts.forest import draw_forest, draw_systems
from calipers.reports.data.report_data import NOT_RANKED
from calipers.reports.formats.markdown import escape_cell, render_markdown, render_markdown_table
from calipers.reports.number_format import (
    NOTHING,
    Form,
    format_group,
    join_some,
    shorten_text,
    show_name,
)
from calipers.reports.table import (
    ABSENT,
    Cell,
    Column,
    Table,
    make_estimate_cell,
    make_lines,
    make_rows,
)
from calipers.reports.tables.gate_tables import (
    list_gate_notes,
    make_gate_document,
)
from calipers.reports.tables.notes import (
    list_frontier,
    list_variants,
    list_warnings,
    tabulate_failures,
)
from calipers.reports.tables.ranking_tables import (
    list_main,
    make_sentence,
    order_groups,
)
from calipers.reports.tables.score_tables import (
    describe_tiers,
    is_wide,
    select_groups,
    tabulate_score,
)
from calipers.reports.tables.shown_metrics import choose_metric_form, has_parts, list_shown
from calipers.reports.tables.verdict_tables import (
    VerdictOverview,
    describe_lead,
    describe_verdict,
    make_verdict,
)

if TYPE_CHECKING:
    from calipers.reports.data.report_data import Report, Sample, TaskOutcome
from calipers.scores.result import Group, Measured, Score

_COMPOSITE = "agent_composite"
_RECOMMENDED = tuple(name for name, _, _ in RECOMMENDATIONS)


def tabulate_recommendations(groups: Sequence[Group]) -> Table | None:
    """Return a row per group with its composite and how many runs are accepted and rejected."""
    known = [group for group in groups if _COMPOSITE in group.metrics and has_parts(group)]
    if not any(group.metrics[_COMPOSITE].value is not None for group in known):
        return None
    form = choose_metric_form(_COMPOSITE, (group.metrics[_COMPOSITE] for group in known))
    rows = []
    for group in known:
        measured = group.metrics[_COMPOSITE]
        counts = (measured.extras.get(name) for name in _RECOMMENDED)
        mean = Cell(text=_recommend_mean(measured))
        rows.append((format_group(group.by), make_estimate_cell(measured, form), mean, *counts))
    return Table(
        title="Recommendations",
        columns=(
            Column(name="group", kind="key", where="people"),
            Column(name=_COMPOSITE, where="people"),
            Column(name="recommendation", heading="of the mean", kind="text", where="people"),
            *(
                Column(name=name, heading=name.replace("_", " "), where="people")
                for name in _RECOMMENDED
            ),
        ),
        rows=make_rows(rows),
        notes=("runs by what their own composite recommends (P 4)",),
    )


def _recommend_mean(measured: Measured) -> str:
    """Return the recommendation of the mean and, in brackets, those of its bounds."""
    if measured.value is None:
        return NOTHING
    word = recommend(measured.value).replace("_", " ")
    ends = [
        recommend(end).replace("_", " ") for end in (measured.low, measured.high) if end is not None
    ]
    return word if {*ends} <= {word} else f"{word} [{', '.join(ends)}]"


_SIDE_BY_SIDE = 7  # systems that have a column each
_SHARE = Form(decimals=2, percent=True)
_SYSTEM_FIELDS = ("model", "tier", "variant")


def tabulate_hardest(tasks: Sequence[TaskOutcome], groups: Sequence[Group]) -> Table:
    """Return a row per task: the share of its runs that are right, and those of each system.

    Of more systems than have room side by side: how many solved it in any run.
    """
    several = any(len(task.by_system) > 1 for task in tasks)
    known = {_make_key(group): format_group(group.by) for group in groups}
    shown = list(known) if several and len(known) <= _SIDE_BY_SIDE else []
    systems = [Column(name=known[key]) for key in shown]
    solvers = [Column(name="solved by")] if several and not shown else []
    return Table(
        columns=(
            Column(name="task", kind="key"),
            Column(name="right", heading="all" if several else "right"),
            *systems,
            *solvers,
            Column(name="runs"),
        ),
        rows=make_rows(
            (
                Cell(value=task.id, text=shorten_text(show_name(task.id), 80)),
                _make_share((task.right, task.runs)),
                *(_make_share(task.by_system.get(key)) for key in shown),
                *([_count_solvers(task)] if solvers else []),
                task.runs,
            )
            for task in tasks
        ),
        title="Hardest tasks",
    )


def _make_key(group: Group) -> tuple[str | None, ...]:
    return tuple(
        None if value is None else str(value)
        for name, value in group.by.items()
        if name in _SYSTEM_FIELDS
    )


def _make_share(counts: tuple[int, int] | None) -> Cell:
    """Return the share of the runs that are right, of a system that has run the task."""
    if counts is None:
        return ABSENT
    right, runs = counts
    return Cell(value=right / runs, form=_SHARE, note=f"{right:,} of {runs:,} runs")


def _count_solvers(task: TaskOutcome) -> Cell:
    solved = sum(right > 0 for right, _ in task.by_system.values())
    return Cell(value=solved, text=f"{solved} of {len(task.by_system)}")


_TOLD = 4  # groups that are named one by one


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """A verdict in a word, a sentence with how sure it is, and what else stands out."""

    verdict: str  # of the gate; `incomplete`, or `none` where nothing was decided
    summary: str  # which system is best, or what one system misses
    lead: str  # how far it is ahead, and how sure that is
    reasons: tuple[str, ...]

    @property
    def word(self) -> str:
        """The verdict for people."""
        return "Result" if self.verdict == "none" else self.verdict.capitalize()


def make_headline(report: Report) -> Headline:
    """Return the gate's verdict in a sentence; without one, which system is best."""
    told = judge_report(report)
    further = (*_list_unranked(report), *_list_tiers(report.score), *_list_lost(report))
    summary, lead = describe_verdict(told), describe_lead(told)
    if summary.startswith("It "):
        summary = f"{report.facts.get('Model', 'The system')} {summary.removeprefix('It ')}"
    if (gate := report.gate) is not None:
        reasons = (*list_gate_notes(gate), *further)
        return Headline(verdict=gate.verdict, summary=summary, lead=lead, reasons=reasons)
    if report.incomplete is not None:
        said = f"{report.incomplete}. Run the suite again to finish it."
        lead = " ".join(filter(None, (summary, lead)))
        return Headline(verdict="incomplete", summary=said, lead=lead, reasons=further)
    undecided = "No policy was given, so nothing was decided."
    return Headline(verdict="none", summary=summary, lead=lead, reasons=(*further, undecided))


def judge_report(report: Report) -> VerdictOverview:
    """Return the systems of a report from the best down, with what each of them meets."""
    return make_verdict(report.gate, report.score, report.ranking)


def _list_unranked(report: Report) -> Iterator[str]:
    if report.ranking is None:
        yield from (make_sentence(each) for each in report.notices if each.startswith(NOT_RANKED))


def _list_tiers(score: Score) -> Iterator[str]:
    for tiers in score.tiers[:_TOLD]:
        groups = select_groups(score.groups, tiers)
        yield from describe_tiers(tiers, groups, score.settings["confidence"])
    if score.variants is not None:
        yield from map(make_sentence, list_variants(score.variants))
    if score.tiers and score.frontier is not None:
        yield make_sentence(next(iter(list_frontier(score.frontier))))


def _list_lost(report: Report) -> Iterator[str]:
    score = report.score
    told = report.gate is not None and any("calls failed" in e for e in report.gate.incomplete)
    if not told and (errors := sum(group.errors for group in score.groups)):
        yield f"{errors:,} of {score.records:,} calls failed{_name_most(score, 'errors')}."
    if truncated := sum(group.truncated for group in score.groups):
        most = _name_most(score, "truncated")
        yield f"{truncated:,} of {score.records:,} replies were truncated{most}."
    if flagged := sum(group.flagged or 0 for group in score.groups):
        yield f"Judged records with text that seems to address the judge: {flagged:,}."


def _name_most(score: Score, name: str) -> str:
    """Return whose calls these are, the most first; empty where there is one group."""
    if len(score.groups) == 1:
        return ""
    counts = [(getattr(group, name), format_group(group.by)) for group in score.groups]
    having = sorted((each for each in counts if each[0]), key=lambda each: -each[0])
    return f" ({join_some([f'{group} {count:,}' for count, group in having], _TOLD)})"


def has_value(score: Score, name: str) -> bool:
    """Say whether any group has a value of the metric."""
    return any(_has_value(group, name) for group in score.groups)


def _has_value(group: Group, name: str) -> bool:
    found = group.metrics.get(name)
    return found is not None and found.value is not None


RANKING_FIGURE = "ranking"
_FIGURE_ORDER = ("reliability", "cost_pass_rate", "composite_by_tier", "latency", "tokens")


def draw_report(report: Report) -> dict[str, Chart]:
    """Return the ranked systems, or the main metric by group, then what else can be drawn."""
    charts, _ = draw_charts(report.score)
    if len(report.score.groups) == 1:
        charts.pop("cost_pass_rate", None)
    found: dict[str, Chart] = {}
    if report.ranking is not None:
        found[RANKING_FIGURE] = draw_systems(report.ranking.metrics[0])
    elif main := next((name for name in list_main(report.score) if name in charts), None):
        found[main] = charts[main]
    found |= {name: charts[name] for name in _FIGURE_ORDER if name in charts}
    for field in report.breakdowns:
        drawn = _draw_breakdown(report, field)
        if drawn is not None:
            found[f"by-{field}"] = drawn
    return found


def _draw_breakdown(report: Report, field: str) -> Chart | None:
    """Return the main metric by a field; within several systems a table says more."""
    score = report.breakdowns[field]
    main = next((name for name in list_main(report.score) if has_value(score, name)), None)
    if main is None or len(score.groups[0].by) > 1:
        return None
    drawn = draw_forest(score, main)
    return None if isinstance(drawn, str) else drawn


_REASONS = 12
_SAMPLES = 20
_MOST_GROUPS = 100
_TEXT_CHARS = 100
_SAID = ("error", "answer", "judges")


def render_report_markdown(report: Report) -> str:
    """Return verdict, numbers, failures, samples, and what each metric means, in this order."""
    lines = [f"# {escape_cell(report.title)}", ""]
    told = make_headline(report)
    said = " ".join(filter(None, (told.summary, told.lead)))
    lines += [f"**{told.word}**: {escape_cell(said)}", ""]
    lines += [f"- {escape_cell(each)}" for each in told.reasons[:_REASONS]]
    if report.gate is not None:
        checks = make_gate_document(report.gate, report.score)
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
        lines += ["", "## Recommendations", "", *render_markdown_table(recommended)]
    for field, score in report.breakdowns.items():
        names = list(score.groups[0].metrics) if score.groups else []
        table = tabulate_score(score, names=names, wide=True)
        lines += ["", f"## By {field}", "", *render_markdown_table(table)]
    if report.tasks:
        table = tabulate_hardest(report.tasks, order_groups(report.score, report.ranking).groups)
        lines += ["", "## Hardest tasks", "", *render_markdown_table(table)]
    nothing = ["Nothing: no call failed, and nothing is known to be wrong."]
    failed = (
        render_markdown_table(tabulate_failures(report.failures)) if report.failures else nothing
    )
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
        yield replace(score, whole=True).to_markdown().rstrip()
        return
    yield from render_markdown_table(tabulate_score(score, most=_MOST_GROUPS, wide=True))
    if len(score.groups) > _MOST_GROUPS:
        yield f"The first {_MOST_GROUPS} of {len(score.groups):,} groups."
    yield ""
    yield from (f"- {escape_cell(line)}" for line in (*list_warnings(score), *score.notices))


def _render_samples(report: Report) -> Iterator[str]:
    shown = report.samples[:_SAMPLES]
    yield f"{len(shown)} of {sum(report.kinds.values()):,} records, the most telling first."
    yield ""
    heads = ("", "id", "of", "answer, error or judges", "target")
    columns = tuple(Column(name=head, kind="text") for head in heads)
    yield from render_markdown_table(
        Table(columns=columns, rows=make_rows(map(_list_cells, shown)))
    )


def _list_cells(sample: Sample) -> tuple[str, ...]:
    said = next((sample.texts[name] for name in _SAID if sample.texts.get(name)), "")
    of = ", ".join(str(value) for name, value in sample.by.items() if name != "category")
    target = sample.texts.get("target", "")
    texts = (" ".join(text.split()) for text in (sample.id, of, said, target))
    return (sample.kind, *(shorten_text(text, _TEXT_CHARS) for text in texts))

"""A report as one HTML file: verdict first, then numbers, figures, what failed, the samples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from calipers.metrics import metric_named
from calipers.reports.charts import draw_charts, draw_forest
from calipers.reports.charts.ranking import draw_systems
from calipers.reports.charts.style import apply_style
from calipers.reports.figures import format_figure, group_name
from calipers.reports.gate import gate_further, gate_summary
from calipers.reports.pages.drawing_script import load_script
from calipers.reports.pages.environment import make_environment
from calipers.reports.pages.families import group_by_family
from calipers.reports.pages.inlining import make_policy, read_static
from calipers.reports.pages.vega import PageFigure, make_page_figure
from calipers.reports.ranking import describe_best, order_groups, sentence
from calipers.reports.remarks import list_frontier, list_remarks
from calipers.reports.report import describe_undecided
from calipers.reports.scores import tabulate_matrices
from calipers.reports.table import Table
from calipers.support.version import __version__

if TYPE_CHECKING:
    from calipers.runs.report_data import Report
    from calipers.scores.results import Group, Score

_MAIN = ("accuracy", "pass_rate", "agent_composite", "final_score")
_ELSE = ("cost_usd", "latency_p95_ms")  # that are told where none of these is there
_ON_CARDS = 12  # groups whose bars already show what a figure of one metric would
_ORDER = ("reliability", "cost_pass_rate", "composite_by_tier", "latency", "tokens")
_MOST_ROWS = 200  # of a table
_TOLD = 4  # groups that are told one by one


@dataclass(frozen=True, slots=True)
class Breakdown:
    """A score by a field: a table of groups, or, within several systems, a matrix a metric."""

    field: str
    score: Score
    names: tuple[str, ...]
    matrices: tuple[Table, ...]
    figure: PageFigure | None

    @property
    def wide(self) -> bool:
        """Say whether a table has too many columns to stand beside another."""
        systems = {group_name({**group.by, self.field: ""}) for group in self.score.groups}
        return len(self.matrices) == 1 or len(systems) > 2  # noqa: PLR2004


def render_report(report: Report) -> str:
    """Return the page; its scripts and style are inside it, and allowed by hash alone."""
    theme, style = read_static("theme.js"), read_static("style.css")
    ranked = None if report.ranking is None else report.ranking.metrics[0]
    report = replace(report, score=order_groups(report.score, report.ranking))
    figures = list(_draw_figures(report.score, ranked=ranked is not None))
    breakdowns = [_make_breakdown(field, score) for field, score in report.breakdowns.items()]
    drawn = figures or ranked is not None or any(each.figure for each in breakdowns)
    scripts = [load_script(), read_static("figures.js")] if drawn else []
    names = _list_metrics(report.score)
    page: str = (
        make_environment()
        .get_template("report.html")
        .render(
            report=report,
            score=report.score,
            policy=make_policy([theme, *scripts], [style]),
            style=Markup(style),  # noqa: S704 (our own file)
            theme=Markup(theme),  # noqa: S704 (our own file)
            scripts=[Markup(script) for script in scripts],  # noqa: S704 (our own, and Vega's)
            verdict=_get_verdict(report),
            summary=_summarize(report),
            why=list(_explain(report)),
            ranked=ranked,
            ranked_by=() if report.ranking is None else report.ranking.by,
            ranked_figure=None
            if ranked is None
            else make_page_figure("ranking", apply_style(draw_systems(ranked))),
            families=list(group_by_family(_choose_cards(report.score, names))),
            names=names,
            beside=list(list_remarks(report.score)),
            on_cards=_ON_CARDS,
            most_rows=_MOST_ROWS,
            breakdowns=breakdowns,
            figures=figures,
            frontier=[]
            if report.score.frontier is None
            else list(list_frontier(report.score.frontier)),
            not_shown=sum(report.kinds.values()) - len(report.samples),
            version=__version__,
        )
    )
    return page


def _list_metrics(score: Score) -> list[str]:
    """Return every metric that any group has."""
    return list(dict.fromkeys(name for group in score.groups for name in group.metrics))


def _choose_cards(score: Score, names: Sequence[str]) -> list[str]:
    """Return the metrics that may have cards: those with a value, and with something to add."""
    weighed = score.settings.get("case_weights") is not None
    return [
        name
        for name in names
        if _has_value(score, name) and (weighed or name != "weighted_pass_rate")
    ]


def _has_value(score: Score, name: str) -> bool:
    return any(_has(group, name) for group in score.groups)


def _has(group: Group, name: str) -> bool:
    found = group.metrics.get(name)
    return found is not None and found.value is not None


def _get_verdict(report: Report) -> str:
    if report.gate is not None:
        return report.gate.verdict
    return "none" if report.incomplete is None else "incomplete"


def _summarize(report: Report) -> str:
    if report.gate is not None:
        return gate_summary(report.gate)
    main = " The main numbers:" if any(True for _ in _explain(report)) else ""
    return f"{describe_undecided(report)}{main}"


def _explain(report: Report) -> Iterator[str]:
    """Yield why the gate decided so, blocking checks first; without a gate, the main numbers."""
    if report.ranking is not None:
        yield sentence(describe_best(report.ranking.metrics[0]))
    if report.gate is None:
        yield from _list_main_numbers(report.score, ranked=report.ranking is not None)
        return
    yield from gate_further(report.gate)
    for verdict in ("fail", "inconclusive", "warn"):
        for check in report.gate.checks:
            if check.verdict == verdict and check.reason:
                of = f" ({group_name(check.by)})" if check.by else ""
                yield f"{check.name}{of}: {check.reason}"


def _list_main_numbers(score: Score, *, ranked: bool) -> Iterator[str]:
    names = [name for name in (*_MAIN, *_ELSE) if _has_value(score, name)][:2]
    for name in names[1:] if ranked else names:
        yield f"{name}: {'; '.join(_describe_metric(score, name))}"
    errors = sum(group.errors for group in score.groups)
    if errors:
        yield f"{errors:,} of {score.records:,} calls failed"
    if truncated := sum(group.truncated for group in score.groups):
        yield f"{truncated:,} of {score.records:,} replies were truncated"
    if flagged := sum(group.flagged or 0 for group in score.groups):
        yield f"judged records with text that seems to address the judge: {flagged:,}"


def _describe_metric(score: Score, name: str) -> Iterator[str]:
    """Yield a metric of every group or, of many, of the best and the worst."""
    known = [group for group in score.groups if _has(group, name)]
    if len(known) > _TOLD:
        least = metric_named(name).better == "lower"
        ordered = sorted(known, key=lambda group: group.metrics[name].value or 0.0, reverse=least)
        best, worst = ordered[-1], ordered[0]
        yield f"best of {len(known)} {group_name(best.by)} {_format_value(best, name)}"
        yield f"worst {group_name(worst.by)} {_format_value(worst, name)}"
        return
    for group in known:
        of = f"{group_name(group.by)} " if group.by else ""
        yield f"{of}{_format_value(group, name)}"


def _format_value(group: Group, name: str) -> str:
    unit, found = metric_named(name).unit, group.metrics[name]
    return f"{format_figure(found.value, found.low, found.high)}{f' {unit}' if unit else ''}"


def _draw_figures(score: Score, *, ranked: bool) -> Iterator[PageFigure]:
    """Yield the figures that show more than the cards do."""
    charts, _ = draw_charts(score)
    if len(score.groups) == 1:
        charts.pop("cost_pass_rate", None)
    if len(score.groups) > _ON_CARDS and not ranked:
        main = next((name for name in _MAIN if name in charts), None)
        if main is not None:
            yield make_page_figure(main, charts[main])
    for name in _ORDER:
        if name in charts:
            yield make_page_figure(name, charts[name])


def _make_breakdown(field: str, score: Score) -> Breakdown:
    names = tuple(name for name in _list_metrics(score) if _has_value(score, name))
    if len(score.groups[0].by) > 1:
        return Breakdown(field, score, names, tuple(tabulate_matrices(score, field, names)), None)
    main = next((name for name in _MAIN if name in names), None)
    drawn: Any = draw_forest(score, main) if main is not None else ""
    shown = None if isinstance(drawn, str) else make_page_figure(f"by-{field}", apply_style(drawn))
    return Breakdown(field, score, names, (), shown)

"""A report as one HTML file: verdict first, then numbers, figures, what failed, the samples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from calipers.metrics import metric_named
from calipers.reports.charts import charts_of, metric_by_group
from calipers.reports.charts.ranking import ranked_systems
from calipers.reports.charts.style import styled
from calipers.reports.figures import figure, group_name
from calipers.reports.gate import gate_further, gate_summary
from calipers.reports.pages.drawing_script import drawing_script
from calipers.reports.pages.environment import environment
from calipers.reports.pages.families import families_of
from calipers.reports.pages.inlining import content_policy, static
from calipers.reports.pages.vega import PageFigure, page_figure
from calipers.reports.ranking import headline, order_groups, sentence
from calipers.reports.remarks import frontier_lines, remarks
from calipers.reports.report import undecided
from calipers.reports.scores import matrix_tables
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


def report_html(report: Report) -> str:
    """The page; its scripts and its style are inside it, and allowed by their hashes alone."""
    theme, style = static("theme.js"), static("style.css")
    ranked = None if report.ranking is None else report.ranking.metrics[0]
    report = replace(report, score=order_groups(report.score, report.ranking))
    figures = list(_figures(report.score, ranked=ranked is not None))
    breakdowns = [_breakdown(field, score) for field, score in report.breakdowns.items()]
    drawn = figures or ranked is not None or any(each.figure for each in breakdowns)
    scripts = [drawing_script(), static("figures.js")] if drawn else []
    names = _names(report.score)
    page: str = (
        environment()
        .get_template("report.html")
        .render(
            report=report,
            score=report.score,
            policy=content_policy([theme, *scripts], [style]),
            style=Markup(style),  # noqa: S704 (our own file)
            theme=Markup(theme),  # noqa: S704 (our own file)
            scripts=[Markup(script) for script in scripts],  # noqa: S704 (our own, and Vega's)
            verdict=_verdict(report),
            summary=_summary(report),
            why=list(_why(report)),
            ranked=ranked,
            ranked_by=() if report.ranking is None else report.ranking.by,
            ranked_figure=None
            if ranked is None
            else page_figure("ranking", styled(ranked_systems(ranked))),
            families=list(families_of(_on_cards(report.score, names))),
            names=names,
            beside=list(remarks(report.score)),
            on_cards=_ON_CARDS,
            most_rows=_MOST_ROWS,
            breakdowns=breakdowns,
            figures=figures,
            frontier=[]
            if report.score.frontier is None
            else list(frontier_lines(report.score.frontier)),
            not_shown=sum(report.kinds.values()) - len(report.samples),
            version=__version__,
        )
    )
    return page


def _names(score: Score) -> list[str]:
    """Every metric that any group has."""
    return list(dict.fromkeys(name for group in score.groups for name in group.metrics))


def _on_cards(score: Score, names: Sequence[str]) -> list[str]:
    """The metrics that may have cards: those with a value, and with something to add."""
    weighed = score.settings.get("case_weights") is not None
    return [
        name
        for name in names
        if _any_value(score, name) and (weighed or name != "weighted_pass_rate")
    ]


def _any_value(score: Score, name: str) -> bool:
    return any(_has(group, name) for group in score.groups)


def _has(group: Group, name: str) -> bool:
    found = group.metrics.get(name)
    return found is not None and found.value is not None


def _verdict(report: Report) -> str:
    if report.gate is not None:
        return report.gate.verdict
    return "none" if report.incomplete is None else "incomplete"


def _summary(report: Report) -> str:
    if report.gate is not None:
        return gate_summary(report.gate)
    main = " The main numbers:" if any(True for _ in _why(report)) else ""
    return f"{undecided(report)}{main}"


def _why(report: Report) -> Iterator[str]:
    """Why the gate decided so, what blocks first; without a gate, the main numbers."""
    if report.ranking is not None:
        yield sentence(headline(report.ranking.metrics[0]))
    if report.gate is None:
        yield from _main_numbers(report.score, ranked=report.ranking is not None)
        return
    yield from gate_further(report.gate)
    for verdict in ("fail", "inconclusive", "warn"):
        for check in report.gate.checks:
            if check.verdict == verdict and check.reason:
                of = f" ({group_name(check.by)})" if check.by else ""
                yield f"{check.name}{of}: {check.reason}"


def _main_numbers(score: Score, *, ranked: bool) -> Iterator[str]:
    names = [name for name in (*_MAIN, *_ELSE) if _any_value(score, name)][:2]
    for name in names[1:] if ranked else names:
        yield f"{name}: {'; '.join(_told(score, name))}"
    errors = sum(group.errors for group in score.groups)
    if errors:
        yield f"{errors:,} of {score.records:,} calls failed"
    if truncated := sum(group.truncated for group in score.groups):
        yield f"{truncated:,} of {score.records:,} replies were truncated"
    if flagged := sum(group.flagged or 0 for group in score.groups):
        yield f"judged records with text that seems to address the judge: {flagged:,}"


def _told(score: Score, name: str) -> Iterator[str]:
    """A metric of every group, or, of many, of the best and of the worst."""
    known = [group for group in score.groups if _has(group, name)]
    if len(known) > _TOLD:
        least = metric_named(name).better == "lower"
        ordered = sorted(known, key=lambda group: group.metrics[name].value or 0.0, reverse=least)
        best, worst = ordered[-1], ordered[0]
        yield f"best of {len(known)} {group_name(best.by)} {_value(best, name)}"
        yield f"worst {group_name(worst.by)} {_value(worst, name)}"
        return
    for group in known:
        of = f"{group_name(group.by)} " if group.by else ""
        yield f"{of}{_value(group, name)}"


def _value(group: Group, name: str) -> str:
    unit, found = metric_named(name).unit, group.metrics[name]
    return f"{figure(found.value, found.low, found.high)}{f' {unit}' if unit else ''}"


def _figures(score: Score, *, ranked: bool) -> Iterator[PageFigure]:
    """The figures that tell more than the cards do, or than the ranking."""
    charts, _ = charts_of(score)
    if len(score.groups) == 1:
        charts.pop("cost_pass_rate", None)
    if len(score.groups) > _ON_CARDS and not ranked:
        main = next((name for name in _MAIN if name in charts), None)
        if main is not None:
            yield page_figure(main, charts[main])
    for name in _ORDER:
        if name in charts:
            yield page_figure(name, charts[name])


def _breakdown(field: str, score: Score) -> Breakdown:
    names = tuple(name for name in _names(score) if _any_value(score, name))
    if len(score.groups[0].by) > 1:
        return Breakdown(field, score, names, tuple(matrix_tables(score, field, names)), None)
    main = next((name for name in _MAIN if name in names), None)
    drawn: Any = metric_by_group(score, main) if main is not None else ""
    shown = None if isinstance(drawn, str) else page_figure(f"by-{field}", styled(drawn))
    return Breakdown(field, score, names, (), shown)

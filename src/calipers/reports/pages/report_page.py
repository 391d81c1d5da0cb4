"""A report as one HTML file: verdict first, then numbers, figures, what failed, the samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from markupsafe import Markup

from calipers.reports.data.answers_matrix import DIFFER
from calipers.reports.number_format import Form, count_things, format_figure
from calipers.reports.pages.environment import make_environment
from calipers.reports.pages.page_scripts import (
    PageFigure,
    load_script,
    make_page_figure,
    make_policy,
    read_static,
)
from calipers.reports.report_parts import (
    RANKING_FIGURE,
    draw_report,
    has_value,
    judge_report,
    make_headline,
)
from calipers.reports.table import Table
from calipers.reports.tables.gate_tables import (
    describe_unsure,
    list_policy_metrics,
    summarize_gate,
)
from calipers.reports.tables.notes import list_frontier, list_remarks
from calipers.reports.tables.ranking_tables import order_groups, tabulate_two
from calipers.reports.tables.score_tables import tabulate_matrices
from calipers.reports.tables.shown_metrics import list_shown
from calipers.reports.tables.verdict_tables import (
    VerdictOverview,
    list_obstacles,
    tabulate_standings,
)
from calipers.support.version import __version__

if TYPE_CHECKING:
    from calipers.reports.data.answers_matrix import AnswersMatrix
    from calipers.reports.data.report_data import Report
    from calipers.scores.result import Score

_ON_SCREEN = 10  # systems of the first screen
_ON_PAGE = 8  # samples that are not folded
_MOST_CHECKS = 14  # that the first screen shows of one system
_MOST_REASONS = 4
_MOST_ROWS = 200  # of a table
_SPENDING = (
    *("cost_usd", "cost_of_pass", "latency_mean_ms", "latency_p95_ms"),
    *("duration_seconds", "total_tokens_mean"),
)
_SYSTEM = ("model", "tier", "variant")
_FEW = 2

Anchors: TypeAlias = Callable[..., str]


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
        systems = {repr({**group.by, self.field: None}) for group in self.score.groups}
        return len(self.matrices) == 1 or len(systems) > 2  # noqa: PLR2004


def render_report_page(report: Report) -> str:
    """Return the page; its scripts and style are inside it, and allowed by hash alone."""
    theme, style, opening = map(read_static, ("theme.js", "style.css", "opening.js"))
    ranked = None if report.ranking is None else report.ranking.metrics[0]
    report = replace(report, score=order_groups(report.score, report.ranking))
    figures = {name: make_page_figure(name, each) for name, each in draw_report(report).items()}
    breakdowns = [_make_breakdown(field, report, figures) for field in report.breakdowns]
    ranked_figure = figures.pop(RANKING_FIGURE, None)
    scripts = [load_script(), read_static("figures.js")] if figures or ranked_figure else []
    names = list_shown(report.score, list_policy_metrics(report.gate))
    told = judge_report(report)
    answers = _choose_answers(report, told)
    checks = () if report.gate is None else report.gate.checks
    page: str = (
        make_environment()
        .get_template("report.html")
        .render(
            report=report,
            score=report.score,
            policy=make_policy([theme, opening, *scripts], [style]),
            style=Markup(style),  # noqa: S704 (our own file)
            theme=Markup(theme),  # noqa: S704 (our own file)
            opening=Markup(opening),  # noqa: S704 (our own file)
            scripts=[Markup(script) for script in scripts],  # noqa: S704 (our own, and Vega's)
            headline=make_headline(report),
            facts=list(_list_facts(report)),
            told=told,
            standings=_choose_standings(told),
            further_systems=_list_further(told),
            unsure=list(describe_unsure(checks)),
            blocking=list(list_obstacles(told)),
            two=_compare_two(report),
            checks_said=_count_checks(report),
            answers=answers,
            differing=_describe_differing(answers),
            anchors=_make_anchors(report),
            spending=[name for name in _SPENDING if has_value(report.score, name)],
            on_page=_ON_PAGE,
            most_checks=_MOST_CHECKS,
            ranked=ranked,
            ranked_by=() if report.ranking is None else report.ranking.by,
            ranked_figure=ranked_figure,
            names=names,
            beside=list(list_remarks(report.score)),
            most_rows=_MOST_ROWS,
            breakdowns=breakdowns,
            figures=[each for name, each in figures.items() if not name.startswith("by-")],
            frontier=[]
            if report.score.frontier is None
            else list(list_frontier(report.score.frontier)),
            not_shown=sum(report.kinds.values()) - len(report.samples),
            version=__version__,
        )
    )
    return page


def _list_facts(report: Report) -> Iterator[str]:
    """Yield in a few words what was measured: tasks, systems, failed calls, when."""
    score = report.score
    if report.n_tasks:
        yield count_things(report.n_tasks, "task")
    if len(score.groups) > 1:
        yield count_things(len(score.groups), "system")
    yield count_things(score.records, "record")
    if errors := sum(group.errors for group in score.groups):
        share = _format_share(errors / score.records)
        yield f"{errors:,} of {score.records:,} calls failed ({share})"
    if when := report.facts.get("Records written"):
        yield when


def _format_share(share: float) -> str:
    return format_figure(share, form=Form(percent=True, decimals=3))


def _compare_two(report: Report) -> Table | None:
    """Return two systems side by side, by all metrics that matter; None for one or several."""
    if report.ranking is None or len(report.ranking.metrics[0].systems) != _FEW:
        return None
    further = () if report.pair is None else report.pair.metrics
    main = report.ranking.metrics[0]
    others = tuple(each for each in further if each.metric != main.metric)
    return tabulate_two((main, *others))


def _choose_standings(told: VerdictOverview) -> Table | None:
    """Return the systems' rows; one system has rows of checks instead, where there are any."""
    if len(told.standings) == 1 and (told.best.checks or told.metric is None):
        return None
    return tabulate_standings(told, most=_ON_SCREEN)


def _list_further(told: VerdictOverview) -> Table | None:
    """Return the rows of the systems that the first screen has no room for."""
    if len(told.standings) <= _ON_SCREEN:
        return None
    return tabulate_standings(told, _ON_SCREEN, _MOST_ROWS)


def _count_checks(report: Report) -> str:
    return "" if report.gate is None else summarize_gate(report.gate)


def _choose_answers(report: Report, told: VerdictOverview) -> AnswersMatrix | None:
    """Return the answers side by side, where several systems have tasks in common.

    The systems are in the order of the first screen.
    """
    found = report.answers
    if found is None or len(found.systems) < _FEW or not found.rows:
        return None
    if not any(sum(map(bool, row.cells)) >= _FEW for row in found.rows):
        return None
    keys = [tuple(each.by.get(name) for name in found.by) for each in told.standings]
    places = {tuple(map(_as_text, key)): place for place, key in enumerate(keys)}
    order = sorted(
        range(len(found.systems)),
        key=lambda at: places.get(tuple(map(_as_text, found.systems[at])), len(places)),
    )
    return replace(
        found,
        systems=tuple(found.systems[at] for at in order),
        shares=tuple(found.shares[at] for at in order),
        rows=tuple(replace(row, cells=tuple(row.cells[at] for at in order)) for row in found.rows),
    )


def _as_text(value: Any) -> str | None:
    return None if value is None else str(value)


def _describe_differing(answers: AnswersMatrix | None) -> str:
    """Return how many tasks tell the systems apart; empty where there are no answers."""
    if answers is None or not any(each is not None for each in answers.shares):
        return ""
    differ = answers.counts.get(DIFFER, 0)
    if not differ:
        return f"The systems are right and wrong on the same {answers.tasks:,} tasks"
    return f"Where they differ: {differ:,} of {answers.tasks:,} tasks"


def _make_anchors(report: Report) -> Anchors:
    """Return what finds the place of a record on the page: by id, whose it is, and its kind."""
    places: dict[tuple[str, frozenset[tuple[str, str]]], list[tuple[str, str]]] = {}
    for number, each in enumerate(report.samples):
        whose = frozenset((name, str(value)) for name, value in each.by.items() if name in _SYSTEM)
        places.setdefault((each.id, whose), []).append((each.kind, f"sample-{number}"))
    by_id: dict[str, list[tuple[frozenset[tuple[str, str]], list[tuple[str, str]]]]] = {}
    for (id_, whose), found in places.items():
        by_id.setdefault(id_, []).append((whose, found))

    def find(id_: str, by: Any, key: Sequence[Any] | None = None, kind: str | None = None) -> str:
        named = zip(by, key, strict=True) if key is not None else by.items()
        wanted = {(n, str(value)) for n, value in named if n in _SYSTEM and value is not None}
        for whose, found in by_id.get(id_, ()):
            if wanted <= whose:
                known = [at for what, at in found if what == kind or kind is None]
                bad = [at for what, at in found if what in ("wrong", "failed")]
                chosen = known if kind is not None else [*bad, *known]
                if chosen:
                    return chosen[0]
        return ""

    return find


def _make_breakdown(field: str, report: Report, figures: Mapping[str, PageFigure]) -> Breakdown:
    score = order_groups(report.breakdowns[field], report.ranking)
    names = tuple(name for name in list_shown(score) if has_value(score, name))
    within = len(score.groups[0].by) > 1
    matrices = tuple(tabulate_matrices(score, field, names)) if within else ()
    return Breakdown(field, score, names, matrices, figures.get(f"by-{field}"))

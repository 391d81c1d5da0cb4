"""A report as one HTML file: verdict first, then numbers, figures, what failed, the samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from markupsafe import Markup

from calipers.reports.charts.of_report import RANKING, draw_report
from calipers.reports.figures import group_name
from calipers.reports.headline import has_value, make_headline
from calipers.reports.pages.drawing_script import load_script
from calipers.reports.pages.environment import make_environment
from calipers.reports.pages.families import group_by_family
from calipers.reports.pages.inlining import make_policy, read_static
from calipers.reports.pages.vega import PageFigure, make_page_figure
from calipers.reports.ranking import order_groups
from calipers.reports.remarks import list_frontier, list_remarks
from calipers.reports.scores import list_shown, tabulate_matrices
from calipers.reports.table import Table
from calipers.support.quick_dataclasses import dataclass
from calipers.support.version import __version__

if TYPE_CHECKING:
    from calipers.runs.report_data import Report
    from calipers.scores.results import Score

_ON_CARDS = 8  # groups that have a line; of more, half of them at either end
_FOLDED = (  # facts that few ask for
    *("Read from", "Records written", "Systems", "Answers", "Measured with", "Intervals"),
    *("Prices", "Prices of the run"),
)
_MOST_ROWS = 200  # of a table


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
    figures = {name: make_page_figure(name, each) for name, each in draw_report(report).items()}
    breakdowns = [_make_breakdown(field, report, figures) for field in report.breakdowns]
    ranked_figure = figures.pop(RANKING, None)
    scripts = [load_script(), read_static("figures.js")] if figures or ranked_figure else []
    names = list_shown(report.score)
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
            headline=make_headline(report),
            ranked=ranked,
            ranked_by=() if report.ranking is None else report.ranking.by,
            ranked_figure=ranked_figure,
            families=list(group_by_family(_choose_cards(report.score, names))),
            names=names,
            beside=list(list_remarks(report.score)),
            on_cards=_ON_CARDS,
            most_rows=_MOST_ROWS,
            breakdowns=breakdowns,
            figures=[each for name, each in figures.items() if not name.startswith("by-")],
            folded_facts=_FOLDED,
            frontier=[]
            if report.score.frontier is None
            else list(list_frontier(report.score.frontier)),
            not_shown=sum(report.kinds.values()) - len(report.samples),
            version=__version__,
        )
    )
    return page


def _choose_cards(score: Score, names: Sequence[str]) -> list[str]:
    """Return the metrics that may have cards: those with a value, and with something to add."""
    weighed = score.settings.get("case_weights") is not None
    return [
        name
        for name in names
        if has_value(score, name) and (weighed or name != "weighted_pass_rate")
    ]


def _make_breakdown(field: str, report: Report, figures: Mapping[str, PageFigure]) -> Breakdown:
    score = order_groups(report.breakdowns[field], report.ranking)
    names = tuple(name for name in list_shown(score) if has_value(score, name))
    within = len(score.groups[0].by) > 1
    matrices = tuple(tabulate_matrices(score, field, names)) if within else ()
    return Breakdown(field, score, names, matrices, figures.get(f"by-{field}"))

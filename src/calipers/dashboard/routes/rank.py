"""The leaderboard: the systems of one run, or any number of views, from the best down."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Response

from calipers.dashboard.grouping import has_few_values
from calipers.dashboard.routes.compare import Side, list_choices, name_sides
from calipers.dashboard.site import SiteHere
from calipers.metrics import metric_named
from calipers.reports.charts.ranking import draw_systems
from calipers.reports.pages.vega import make_page_figure
from calipers.reports.ranking import describe_best, make_sentence, tabulate_tasks
from calipers.support.errors import CalipersError

router = APIRouter()

MOST = 100  # views at a time
_MOST_PARTS = 40  # columns of a table
_OF_TASKS = ("category", "capability", "target", "tier")


@router.get("/rank")
def rank(
    site: SiteHere,
    of: Annotated[list[str] | None, Query()] = None,
    metric: str = "",
    by: str = "",
    tasks: str = "",
) -> Response:
    """Choose what to rank, or see it ranked."""
    chosen = list(dict.fromkeys(of or ()))[:MOST]
    choices = list_choices(site)
    if not chosen:
        return site.render("rank_choose.html", choices=choices, chosen=chosen, problem=None)
    from calipers.comparisons.ranked_systems import MAIN_METRICS  # noqa: PLC0415 (slow to load)

    sides = [Side(site, reference) for reference in chosen]
    names = _list_metrics(sides)
    wanted = metric or next((name for name in MAIN_METRICS if name in names), None)
    try:
        ranking = site.measuring.rank(name_sides(sides), wanted, by or None, tasks or None)
    except CalipersError as error:
        return site.render("rank_choose.html", 400, choices=choices, chosen=chosen, problem=error)
    ranked = ranking.metrics[0]
    return site.render(
        "rank.html",
        ranking=ranking,
        ranked=ranked,
        headline=make_sentence(describe_best(ranked)),
        drawn=make_page_figure("ranking", draw_systems(ranked)),
        sides=sides,
        tasks=tabulate_tasks(ranked) if ranked.tasks_by is not None else None,
        tasks_by=tasks,
        fields=list(dict.fromkeys((*_list_fields(sides), *filter(None, [tasks])))),
        names=list(dict.fromkeys((ranked.metric, *names))),
        choices=choices,
        chosen=chosen,
        link=urlencode([("of", reference) for reference in chosen]),
    )


def _list_fields(sides: Sequence[Side]) -> list[str]:
    """Return the fields to break the tasks down by: those with few values, and each task."""
    index = sides[0].opened.index
    if "id" not in index.summary.fields:
        return []
    few = [name for name in _OF_TASKS if has_few_values(index, name, _MOST_PARTS)]
    return [*few, "id"]


def _list_metrics(sides: Sequence[Side]) -> list[str]:
    """Return the metrics to choose from: those with a direction that the runs are known to have."""
    scores = [side.run.score for side in sides if side.run.score is not None]
    names = dict.fromkeys(
        name
        for score in scores
        for group in score.groups
        for name, found in group.metrics.items()
        if found.value is not None
    )
    return [name for name in names if metric_named(name).better is not None]

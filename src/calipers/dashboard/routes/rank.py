"""The leaderboard: the systems of one run, or any number of views, from the best down."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Response

from calipers.dashboard.filters import Query as View
from calipers.dashboard.indexes import Opened
from calipers.dashboard.routes.compare import Side, choices_of
from calipers.dashboard.site import SiteHere
from calipers.metrics import metric_named
from calipers.reports.pages.vega import make_page_figure
from calipers.reports.ranking import describe_best, sentence
from calipers.support.errors import CalipersError

router = APIRouter()

MOST = 100  # views at a time


@router.get("/rank")
def rank(
    site: SiteHere,
    of: Annotated[list[str] | None, Query()] = None,
    metric: str = "",
    by: str = "",
) -> Response:
    """Choose what to rank, or see it ranked."""
    chosen = list(dict.fromkeys(of or ()))[:MOST]
    choices = choices_of(site)
    if not chosen:
        return site.render("rank_choose.html", choices=choices, chosen=chosen, problem=None)
    from calipers.comparisons.ranked_systems import MAIN_METRICS  # noqa: PLC0415 (loads scipy)

    sides = [Side(site, reference) for reference in chosen]
    names = _metrics(sides)
    wanted = metric or next((name for name in MAIN_METRICS if name in names), None)
    try:
        ranking = site.measuring.rank(_views(sides), wanted, by or None)
    except CalipersError as error:
        return site.render("rank_choose.html", 400, choices=choices, chosen=chosen, problem=error)
    from calipers.reports.charts.ranking import draw_systems  # noqa: PLC0415 (loads Altair)
    from calipers.reports.charts.style import apply_style  # noqa: PLC0415

    ranked = ranking.metrics[0]
    return site.render(
        "rank.html",
        ranking=ranking,
        ranked=ranked,
        headline=sentence(describe_best(ranked)),
        drawn=make_page_figure("ranking", apply_style(draw_systems(ranked))),
        sides=sides,
        names=list(dict.fromkeys((ranked.metric, *names))),
        choices=choices,
        chosen=chosen,
        link=urlencode([("of", reference) for reference in chosen]),
    )


def _views(sides: Sequence[Side]) -> list[tuple[Opened, View, str]]:
    """Return what to rank; systems of one run are called by what tells them apart."""
    alone = len({side.run.id for side in sides}) == 1 < len(sides)
    found = []
    for side in sides:
        filters = ", ".join(each.value for each in side.query.filters)
        found.append((side.opened, side.query, filters if alone and filters else side.name))
    return found


def _metrics(sides: Sequence[Side]) -> list[str]:
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
